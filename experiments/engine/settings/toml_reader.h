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

/// Location of a value: a position in the file, or the n-th setting. Values of the file sort before settings.
struct Location {
  std::size_t setting = 0;  ///< index of the setting, from 1; 0: the file
  std::size_t line = 0, column = 0;

  auto operator<=>(const Location&) const = default;
};

/// Returns the key of a setting "a.b=value". Throws ConfigError, naming `flag`, for a malformed setting.
std::string key_of_setting(const std::string& setting, std::string_view flag);

/// Values of a configuration, by paths such as "model.qk_norm" or "model.layer_placement.0.layers".
struct Tree {
  std::string file = {};  ///< "" for none
  Json values = Json::object();
  std::map<std::string, Location> locations = {{"", {}}};  ///< by path; a missing path has its table's location
  std::size_t settings = 0;                                ///< number of settings applied

  /// Returns the value of a key; null if absent.
  [[nodiscard]] const Json* find(std::string key) const;
  /// Applies a setting "a.b=value". The value is TOML if it parses, else a string. In a list of tables, sets the key
  /// of every table. Throws ConfigError, naming `flag`, for a value that begins with a bracket and is invalid TOML.
  void set(const std::string& setting, std::string_view flag);
  /// Sets `key` to a parsed value, as `set` does. Throws ConfigError, naming `source`, if a parent is not a table.
  void put(const std::string& key, const Json& value, std::string_view source);
};

/// Reads the file and applies `settings` (--set). Throws ConfigError.
Tree read_tree(const std::string& file, const std::vector<std::string>& settings = {});

/// Returns a value as TOML on one line, such as "1e-6", "[0.0, 1.0]", "\"peri\"" or "{A = true}".
std::string toml_text(const Json& value);

/// Returns a value for labels: texts without quotes, placements by name, otherwise TOML.
std::string plain_text(const Json& value);

/// Reads one table strictly: finish() rejects every key that was not read. Messages are one line with the location, the
/// key, the value found and the expected value.
class TomlReader {
 public:
  /// Reads the root of `tree`, which must outlive this object.
  explicit TomlReader(const Tree& tree) : TomlReader(tree, &tree.values, "", "") {}

  /// Reads a key into `target` and returns true; if the key is absent, returns false and leaves `target` unchanged.
  template <class T>
  bool read(std::string_view key, T& target) {
    const Json* value = find(key);
    if (value == nullptr) return false;
    if (const std::string expected = take(*value, target); !expected.empty()) fail(key, expected);
    return true;
  }
  /// Reads a text that must be present and not empty.
  void require_text(std::string_view key, std::string& text) {
    if (!read(key, text) || text.empty()) fail(key, "a non-empty text");
  }
  /// Resolves the relative path at `key` against the file's folder, unless the path comes from a setting.
  void resolve_path(std::string_view key, std::string& path) const;

  /// Returns the value of a key that accepts several types; null if absent.
  const Json* find(std::string_view key);
  /// Returns a reader of a sub-table, such as "model" or "agreement.power_limit". An absent table counts as empty.
  TomlReader table(std::string_view path);
  /// Returns readers of the tables in a list; empty if the list is absent. Throws ConfigError for any other value.
  std::vector<TomlReader> tables(std::string_view key, const std::string& expected);

  /// Throws ConfigError for unknown keys, and suggests a similar known key.
  void finish() const;

  /// Throws ConfigError "FILE:LINE: name.key = FOUND: expected EXPECTED", or "name.key is missing: …".
  [[noreturn]] void fail(std::string_view key, const std::string& expected) const;

  /// Returns null if the table is absent.
  [[nodiscard]] const Json* values() const { return table_; }

 private:
  /// `name` prefixes keys in messages. `path` is the path in the tree, with list indices. A null table counts as empty.
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
