#pragma once

#include <fmt/format.h>
#include <toml++/toml.h>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "sim/spec/depth_expression.h"

namespace periscope::config {

/// The values of a configuration by path: those of a file, overridden by settings "a.b=value". A value knows its line
/// in the file; copies of toml++'s nodes do not, so a tree is shared, not copied.
struct Tree {
  std::string file;  ///< "" for none
  std::string text;  ///< of the file
  std::vector<std::string> settings;
  toml::table values;
};

/// Reads the file and applies `settings` (--set). Throws ConfigError.
std::shared_ptr<const Tree> read_tree(const std::string& file, const std::vector<std::string>& settings = {});
/// Returns `tree` with `theory_settings` (--theory-set) applied. Throws ConfigError.
std::shared_ptr<const Tree> overridden_tree(const Tree& tree, const std::vector<std::string>& theory_settings);

/// Returns the key of "a.b=value". Throws ConfigError for text that is not a setting. `flag` is for messages.
std::string key_of_setting(const std::string& setting, std::string_view flag);

/// Applies "a.b=value" to `table`; the value is TOML if it parses, else a string. `flag` is for messages. Throws
/// ConfigError for a value that begins with a bracket and is not TOML.
void apply_setting(toml::table& table, const std::string& setting, std::string_view flag);

/// A value as TOML, on one line.
std::string toml_line(const toml::node& node);

/// The entry chosen from the list of each key, "model.norm".
using Choice = std::map<std::string, std::size_t, std::less<>>;

/// Reads a value into `target`. Returns "", or what was expected instead.
std::string take(const toml::node& node, int& target);
std::string take(const toml::node& node, std::uint64_t& target);
std::string take(const toml::node& node, double& target);
std::string take(const toml::node& node, bool& target);
std::string take(const toml::node& node, std::string& target);
std::string take(const toml::node& node, DepthExpression& target);
template <class T>
std::string take(const toml::node& node, std::optional<T>& target) {
  return take(node, target.emplace());
}
template <class T>
std::string take(const toml::node& node, std::vector<T>& target) {
  constexpr bool words = std::is_same_v<T, std::string>;
  const std::string expected = fmt::format("a list of {}", words ? "strings without the character U+0000"
                                                           : std::is_same_v<T, int> ? "whole numbers"
                                                                                    : "numbers");
  const toml::array* list = node.as_array();
  if (list == nullptr || (list->empty() && !words)) return expected;
  target.clear();
  for (const toml::node& entry : *list) {
    if (!take(entry, target.emplace_back()).empty()) return expected;
  }
  return {};
}

/// Reads one TOML table strictly: finish() rejects every key that was not asked for. Errors are one line: place, key,
/// found value, expected value.
class TomlReader {
 public:
  /// Reads the root of `tree`, which outlives this, as does `choice`.
  explicit TomlReader(const Tree& tree, const Choice* choice = nullptr)
      : TomlReader(&tree.values, "", tree.file, choice) {}
  /// `name` prefixes the keys ("model"); `file` is for messages. A null table is an empty one.
  TomlReader(const toml::table* table, std::string name, std::string file, const Choice* choice = nullptr);

  /// Reads a key and returns true; leaves `target` unchanged if the key is absent.
  template <class T>
  bool read(std::string_view key, T& target) {
    const toml::node* node = find(key);
    if (node == nullptr) return false;
    if (const std::string expected = take(*node, target); !expected.empty()) fail(key, *node, expected);
    return true;
  }
  /// Resolves a relative path at `key`, if it comes from the file, against the file's folder.
  void resolve_path(std::string_view key, std::string& path) const;

  /// Returns the node, for keys that take several forms; null if absent.
  const toml::node* find(std::string_view key);
  /// Returns a reader of a sub-table, "model" or "agreement.power_limit", which is empty if absent.
  TomlReader table(std::string_view path);

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
  /// Throws ConfigError: "FILE:LINE: name.key = FOUND: expected EXPECTED".
  [[noreturn]] void fail(std::string_view key, const toml::node& found, const std::string& expected) const;

  /// The table's name, "model.placement".
  [[nodiscard]] const std::string& name() const { return name_; }

 private:
  [[nodiscard]] std::size_t index_in(std::string_view key, const std::string& word,
                                     const std::vector<std::string>& names) const;
  [[nodiscard]] const toml::node* node_at(std::string_view key) const;
  [[nodiscard]] std::string where(const toml::node& node) const;
  [[nodiscard]] std::string full(std::string_view key) const;

  const toml::table* table_;
  std::string name_;
  std::string file_;
  const Choice* choice_;
  std::set<std::string, std::less<>> known_;
};

}  // namespace periscope::config
