#pragma once

#include <toml++/toml.h>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/spec/depth_expression.h"

namespace periscope::config {

/// Reads one TOML table strictly: every key that is asked for becomes a known key, and finish() refuses
/// all others. Every error is one line: where it stands, the key, what was found, what was expected.
class TomlReader {
 public:
  /// `name` prefixes the keys ("model"); `file` is for messages. A null table is an empty one.
  TomlReader(const toml::table* table, std::string name, std::string file);

  /// Each leaves `target` alone if the key is absent, and returns whether it was there.
  bool read(std::string_view key, int& target);
  bool read(std::string_view key, std::uint64_t& target);
  bool read(std::string_view key, double& target);
  bool read(std::string_view key, bool& target);
  bool read(std::string_view key, std::string& target);
  bool read(std::string_view key, DepthExpression& target);
  bool read(std::string_view key, std::vector<int>& target);
  bool read(std::string_view key, std::vector<double>& target);
  bool read(std::string_view key, std::vector<std::string>& target);

  /// The node itself, for keys that take several forms; null if absent.
  const toml::node* find(std::string_view key);
  /// A sub-table; an empty reader if absent.
  TomlReader table(std::string_view key);

  /// Refuses unknown keys, naming the nearest known one.
  void finish() const;

  /// Position of `word` in `names`, or an error that lists them.
  [[nodiscard]] std::size_t index_of(std::string_view key, const std::string& word,
                                     std::span<const std::string_view> names) const;
  /// Throws ConfigError: "FILE:LINE: name.key = FOUND: expected EXPECTED".
  [[noreturn]] void fail(std::string_view key, const toml::node& found, const std::string& expected) const;

  /// The table's name, "model.placement".
  [[nodiscard]] const std::string& name() const { return name_; }

 private:
  [[nodiscard]] std::string where(const toml::node& node) const;
  [[nodiscard]] std::string full(std::string_view key) const;

  const toml::table* table_;
  std::string name_;
  std::string file_;
  std::set<std::string, std::less<>> known_;
};

/// Returns the bytes of a configuration file, which a run reads once (RunOfInputFiles); "" for "". Throws ConfigError.
std::string config_text(const std::string& file);

/// Parses `text`, the bytes of `file`, and merges the settings "a.b=value" into the table. Throws ConfigError.
toml::table parse_table(const std::string& text, const std::string& file, const std::vector<std::string>& settings);

/// Parses a configuration file with settings merged into it; an empty table for "". Throws ConfigError.
toml::table read_table(const std::string& file, const std::vector<std::string>& settings = {});

/// Merges "a.b=value" into `table`; value is TOML if it parses as such, else a string. `flag` is for messages. Throws
/// ConfigError for a value that begins as a table or an array does and is not TOML.
void apply_setting(toml::table& table, const std::string& setting, std::string_view flag = "--set");

}  // namespace periscope::config
