#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "sim/spec/read_keys.h"

namespace periscope::config {

using Json = nlohmann::ordered_json;

/// Where a value comes from: a place in the file, or the n-th setting. The file's values come first.
struct Location {
  std::size_t setting = 0;  ///< 1 for the first; 0: the file
  std::size_t line = 0, column = 0;

  auto operator<=>(const Location&) const = default;
};

/// Returns the key of "a.b=value". Throws ConfigError for text that is not a setting. `flag` is for messages.
std::string key_of_setting(const std::string& setting, std::string_view flag);

/// The values of a configuration by path, "model.qk_norm" or "model.layer_placement.0.layers".
struct Tree {
  std::string file = {};  ///< "" for none
  Json values = Json::object();
  std::map<std::string, Location> locations = {{"", {}}};  ///< without one: as of its table
  std::size_t settings = 0;                                ///< number of settings applied

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

  /// Throws ConfigError: "FILE:LINE: name.key = FOUND: expected EXPECTED", or "name.key is missing: …".
  [[noreturn]] void fail(std::string_view key, const std::string& expected) const;

  /// Returns the table; null if absent.
  [[nodiscard]] const Json* values() const { return table_; }

 private:
  /// `name` prefixes the keys in messages, `path` in the tree; they differ in lists. A null table is an empty one.
  TomlReader(const Tree& tree, const Json* table, std::string name, std::string path)
      : tree_(tree), table_(table), name_(std::move(name)), path_(std::move(path)) {}
  [[nodiscard]] std::string where(std::string_view key) const;
  [[nodiscard]] std::string full(std::string_view key) const;

  const Tree& tree_;
  const Json* table_;
  std::string name_;
  std::string path_;
  std::set<std::string, std::less<>> known_;
};

}  // namespace periscope::config
