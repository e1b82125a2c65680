#pragma once

#include <fmt/format.h>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "sim/spec/depth_expression.h"

namespace periscope::config {

using Json = nlohmann::ordered_json;

/// Where a value comes from: a place in the file, or the n-th setting. The file's values come first.
struct Origin {
  std::size_t setting = 0;  ///< 1 for the first; 0: the file
  std::size_t line = 0, column = 0;

  auto operator<=>(const Origin&) const = default;
};

/// Returns the key of "a.b=value". Throws ConfigError for text that is not a setting. `flag` is for messages.
std::string key_of_setting(const std::string& setting, std::string_view flag);

/// The values of a configuration by path, "model.qk_norm" or "model.layer_placement.0.layers".
struct Tree {
  std::string file = {};  ///< "" for none
  Json values = Json::object();
  std::map<std::string, Origin> origins = {{"", {}}};  ///< without one: as of its table
  std::size_t settings = 0;                            ///< number of settings applied

  /// Returns the value of a key; null if absent.
  [[nodiscard]] const Json* find(std::string key) const;
  /// Applies "a.b=value"; the value is TOML if it parses, else a string. Below a list of tables every entry gets it.
  /// `flag` is for messages. Throws ConfigError for a value that begins with a bracket and is not TOML.
  void set(const std::string& setting, std::string_view flag);
};

/// Reads the file and applies `settings` (--set). Throws ConfigError.
Tree read_tree(const std::string& file, const std::vector<std::string>& settings = {});

/// Returns a value as TOML on one line: "1e-6", "[0.0, 1.0]", "\"peri\"", "{A = true}".
std::string toml_text(const Json& value);

/// Reads a value into `target`. Returns "", or what was expected instead.
std::string take(const Json& value, int& target);
std::string take(const Json& value, std::uint64_t& target);
std::string take(const Json& value, double& target);
std::string take(const Json& value, bool& target);
std::string take(const Json& value, std::string& target);
std::string take(const Json& value, DepthExpression& target);
template <class T>
std::string take(const Json& value, std::optional<T>& target) {
  return take(value, target.emplace());
}
template <class T>
std::string take(const Json& value, std::vector<T>& target) {
  constexpr bool words = std::is_same_v<T, std::string>;
  const std::string expected = fmt::format("a list of {}", words ? "strings without the character U+0000"
                                                           : std::is_same_v<T, int> ? "whole numbers"
                                                                                    : "numbers");
  if (!value.is_array() || (value.empty() && !words)) return expected;
  target.clear();
  for (const Json& entry : value) {
    if (!take(entry, target.emplace_back()).empty()) return expected;
  }
  return {};
}

/// Reads one table strictly: finish() rejects every key that was not asked for. Errors are one line: place, key, found
/// value, expected value.
class TomlReader {
 public:
  /// Reads the root of `tree`, which outlives this.
  explicit TomlReader(const Tree& tree) : TomlReader(tree, &tree.values, "", "") {}

  /// Reads a key and returns true; leaves `target` unchanged if the key is absent.
  template <class T>
  bool read(std::string_view key, T& target) {
    const Json* value = find(key);
    if (value == nullptr) return false;
    if (const std::string expected = take(*value, target); !expected.empty()) fail(key, expected);
    return true;
  }
  /// Resolves a relative path at `key`, if it comes from the file, against the file's folder.
  void resolve_path(std::string_view key, std::string& path) const;

  /// Returns the value, for keys that take several forms; null if absent.
  const Json* find(std::string_view key);
  /// Returns a reader of a sub-table, "model" or "agreement.power_limit", which is empty if absent.
  TomlReader table(std::string_view path);
  /// Returns readers of the tables of a list, which may be absent. Throws ConfigError for any other value.
  std::vector<TomlReader> tables(std::string_view key, const std::string& expected);

  /// Rejects unknown keys, naming the nearest known one.
  void finish() const;

  /// Returns the position of the row whose name is `word`. Throws ConfigError that lists the names.
  template <class Rows, class Name = std::identity>
  [[nodiscard]] std::size_t index_of(std::string_view key, const std::string& word, const Rows& rows,
                                     Name name = {}) const {
    std::vector<std::string> names;
    for (const auto& row : rows) names.emplace_back(std::invoke(name, row));
    return index_in(key, word, names);
  }
  /// Throws ConfigError: "FILE:LINE: name.key = FOUND: expected EXPECTED", or "name.key is missing: …".
  [[noreturn]] void fail(std::string_view key, const std::string& expected) const;

  /// The table's name, "model.placement".
  [[nodiscard]] const std::string& name() const { return name_; }
  /// Returns the table; null if absent.
  [[nodiscard]] const Json* values() const { return table_; }

 private:
  /// `name` prefixes the keys in messages, `path` in the tree; they differ in lists. A null table is an empty one.
  TomlReader(const Tree& tree, const Json* table, std::string name, std::string path)
      : tree_(tree), table_(table), name_(std::move(name)), path_(std::move(path)) {}
  [[nodiscard]] std::size_t index_in(std::string_view key, const std::string& word,
                                     const std::vector<std::string>& names) const;
  [[nodiscard]] std::string where(std::string_view key) const;
  [[nodiscard]] std::string full(std::string_view key) const;

  const Tree& tree_;
  const Json* table_;
  std::string name_;
  std::string path_;
  std::set<std::string, std::less<>> known_;
};

}  // namespace periscope::config
