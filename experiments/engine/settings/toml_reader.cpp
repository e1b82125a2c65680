#include "experiments/engine/settings/toml_reader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <sstream>

#include "experiments/engine/settings/json_text.h"
#include "sim/base/error.h"
#include "sim/base/printable.h"
#include "sim/files/mapped_file.h"

namespace periscope::config {
namespace {

/// Valid keys have at most three parts, such as agreement.power_limit.variance. toml++ frees nested tables recursively,
/// so a key of 100 000 parts would overflow the stack.
constexpr int max_key_parts = 16;

/// Returns the first line with more than 1000 dots that no delimiter separates, or 0. Dots in strings count too.
int line_with_deep_keys(std::string_view text) {
  constexpr int max_dots = 1000;
  constexpr std::string_view delimiters = "=,[]{}\"'#\n";
  int line = 1;
  int dots = 0;
  for (const char c : text) {
    if (c == '.' && ++dots > max_dots) return line;
    if (c != '.' && delimiters.find(c) != std::string_view::npos) dots = 0;
    if (c == '\n') ++line;
  }
  return 0;
}

/// Reads a configuration file. Throws ConfigError.
std::string read_text(const std::string& file) {
  constexpr std::size_t max_bytes = 1 << 20;
  std::string text;
  try {
    const MappedFile mapped(file);
    text.assign(reinterpret_cast<const char*>(mapped.bytes().data()), std::min(mapped.bytes().size(), max_bytes + 1));
  } catch (const InputError& error) {
    throw ConfigError(
        fmt::format("--config {}{}", shortened(file), std::string_view(error.what()).substr(file.size())));
  }
  if (text.size() > max_bytes) {
    throw ConfigError(fmt::format("--config {}: expected a TOML file of at most {} bytes", shortened(file), max_bytes));
  }
  if (const int line = line_with_deep_keys(text); line > 0) {
    throw ConfigError(fmt::format("{}:{}: expected keys of at most {} parts, found more than 1000", shortened(file),
                                  line, max_key_parts));
  }
  return text;
}

std::string join_path(const std::string& path, std::string_view key) {
  return path.empty() ? std::string(key) : fmt::format("{}.{}", path, key);
}

/// Converts `node` to JSON; dates become text. Adds the locations of the node and of all values in it to `locations`.
Json value_of(const toml::node& node, const std::string& path, std::map<std::string, Location>& locations) {
  locations[path] = {.line = node.source().begin.line, .column = node.source().begin.column};
  return node.visit([&]<class Node>(const Node& value) -> Json {
    if constexpr (toml::is_table<Node>) {
      Json table = Json::object();
      for (const auto& [key, entry] : value) {
        table[std::string(key.str())] = value_of(entry, join_path(path, key.str()), locations);
      }
      return table;
    } else if constexpr (toml::is_array<Node>) {
      Json list = Json::array();
      for (const auto& entry : value) {
        list.push_back(value_of(entry, join_path(path, std::to_string(list.size())), locations));
      }
      return list;
    } else if constexpr (toml::is_chronological<Node>) {
      return (std::ostringstream() << value).str();
    } else {
      return value.get();
    }
  });
}

/// Parses the value of a setting. Throws ConfigError.
Json parsed_value(const std::string& text, const std::string& setting, std::string_view flag) {
  toml::table parsed;
  std::string problem = "found more than one value";
  try {
    if (line_with_deep_keys(text) == 0) parsed = toml::parse("value = " + text);
  } catch (const toml::parse_error& error) {
    problem = shortened(error.description());
  }
  std::map<std::string, Location> unused;
  if (parsed.size() == 1) return value_of(*parsed.get("value"), "", unused);
  const std::size_t begin = text.find_first_not_of(" \t");
  if (begin != std::string::npos && (text[begin] == '[' || text[begin] == '{')) {
    throw ConfigError(
        fmt::format("{} {}: invalid TOML: {}; close all brackets and quote each string, or quote the whole value if "
                    "it is a string that begins with a bracket",
                    flag, shortened(setting), problem));
  }
  return text;
}

}  // namespace

const Json* Tree::find(std::string key) const {
  std::ranges::replace(key, '.', '/');
  const Json::json_pointer path("/" + key);
  return values.contains(path) ? &values.at(path) : nullptr;
}

void Tree::set(const std::string& setting, std::string_view flag) {
  const std::string key = key_of_setting(setting, flag);
  put(key, parsed_value(setting.substr(key.size() + 1), setting, flag), fmt::format("{} {}", flag, shortened(setting)));
}

void Tree::put(const std::string& key, const Json& new_value, std::string_view source) {
  ++settings;
  // `path` is the path of `value` in the tree; `rest` is the remaining part of the key.
  const auto set_below = [&](const auto& self, Json& value, const std::string& path, std::string_view rest) -> void {
    if (rest.empty()) {
      std::erase_if(locations, [&](const auto& one) { return one.first.starts_with(path + "."); });
      locations[path] = {.setting = settings};
      value = new_value;
    } else if (value.is_array()) {
      for (std::size_t i = 0; i < value.size(); ++i) self(self, value[i], join_path(path, std::to_string(i)), rest);
    } else if (value.is_object() || value.is_null()) {
      const std::string part(rest.substr(0, rest.find('.')));
      self(self, value[part], join_path(path, part), rest.substr(std::min(part.size() + 1, rest.size())));
    } else {
      throw ConfigError(
          fmt::format("{}: expected {} to be a table", source, key.substr(0, key.size() - rest.size() - 1)));
    }
  };
  set_below(set_below, values, "", key);
}

std::string toml_text(const Json& value) {
  std::vector<std::string> parts;
  if (value.is_array()) {
    for (const Json& entry : value) parts.push_back(toml_text(entry));
    return fmt::format("[{}]", fmt::join(parts, ", "));
  }
  if (value.is_object()) {
    for (const auto& [key, entry] : value.items()) parts.push_back(fmt::format("{} = {}", key, toml_text(entry)));
    return fmt::format("{{{}}}", fmt::join(parts, ", "));
  }
  if (value.is_string()) return json_text(value);
  if (value.is_number_float() && !std::isfinite(value.get<double>())) return fmt::format("{}", value.get<double>());
  std::string text = value.dump();
  if (const std::size_t exponent = text.find("e-0"); exponent != std::string::npos)
    text.erase(exponent + 2, 1);  // 1e-06 becomes 1e-6
  return text;
}

std::string plain_text(const Json& value) {
  const Json& shown = value.is_object() && value.contains("name") ? value["name"] : value;
  if (shown.is_string()) return shown.get<std::string>();
  return shown.is_number_float() ? fmt::format("{}", shown.get<double>()) : toml_text(shown);
}

std::string TomlReader::full(std::string_view key) const { return join_path(name_, key); }

std::string TomlReader::where(std::string_view key) const {
  std::string path = join_path(path_, key);
  while (!tree_.locations.contains(path)) path.resize(path.find('.') == std::string::npos ? 0 : path.rfind('.'));
  const std::size_t line = tree_.locations.at(path).line;
  return line > 0 ? fmt::format("{}:{}: ", shortened(tree_.file), line) : "";
}

void TomlReader::fail(std::string_view key, const std::string& expected) const {
  std::string found = " is missing";
  if (const auto value = table_->find(key); value != table_->end()) {
    const auto* const word = value->get_ptr<const std::string*>();  // may be invalid UTF-8
    found = word != nullptr ? fmt::format(" = \"{}\"", shortened(*word)) : " = " + shortened(toml_text(*value));
  }
  throw ConfigError(fmt::format("{}{}{}: expected {}", where(key), full(key), found, expected));
}

const Json* TomlReader::find(std::string_view key) {
  known_.emplace(key);
  return table_ != nullptr && table_->contains(key) ? &table_->at(key) : nullptr;
}

void TomlReader::resolve_path(std::string_view key, std::string& path) const {
  const bool is_set = table_ != nullptr && table_->contains(key);
  if (!is_set || where(key).empty() || !std::filesystem::path(path).is_relative()) return;
  path = (std::filesystem::path(tree_.file).parent_path() / path).lexically_normal().string();
}

TomlReader TomlReader::table(std::string_view path) {
  const std::size_t dot = path.find('.');
  const std::string_view key = path.substr(0, dot);
  const Json* value = find(key);
  if (value != nullptr && !value->is_object()) fail(key, "a table");
  TomlReader reader{tree_, value, full(key), join_path(path_, key)};
  return dot == std::string_view::npos ? reader : reader.table(path.substr(dot + 1));
}

std::vector<TomlReader> TomlReader::tables(std::string_view key, const std::string& expected) {
  std::vector<TomlReader> all;
  const Json* list = find(key);
  if (list == nullptr) return all;
  const bool has_tables = list->is_array() && !list->empty();
  if (!has_tables || !std::ranges::all_of(*list, [](const Json& entry) { return entry.is_object(); })) {
    fail(key, expected);
  }
  for (const Json& entry : *list) {
    all.push_back({tree_, &entry, full(key), join_path(join_path(path_, key), std::to_string(all.size()))});
  }
  return all;
}

void TomlReader::finish() const {
  if (table_ == nullptr) return;
  for (const auto& [key, value] : table_->items()) {
    if (known_.contains(key)) continue;
    const std::vector<std::string> all(known_.begin(), known_.end());
    throw ConfigError(fmt::format("{}unknown key {}: expected one of the keys that `periscope list` shows{}",
                                  where(key), shortened(full(key)), suggestion(key, all, full(""))));
  }
}

Tree read_tree(const std::string& file, const std::vector<std::string>& settings) {
  Tree tree{.file = file};
  try {
    if (!file.empty()) tree.values = value_of(toml::parse(read_text(file), file), "", tree.locations);
  } catch (const toml::parse_error& error) {
    throw ConfigError(fmt::format("{}:{}: invalid TOML: {}", shortened(file), error.source().begin.line,
                                  shortened(error.description())));
  }
  for (const std::string& setting : settings) tree.set(setting, "--set");
  return tree;
}

std::string key_of_setting(const std::string& setting, std::string_view flag) {
  const auto equals = setting.find('=');
  const auto require = [&](bool holds, const std::string& why) {
    if (!holds) throw ConfigError(fmt::format("{} {}: {}", flag, shortened(setting), why));
  };
  require(equals != std::string::npos && equals > 0,
          fmt::format("expected key=value, such as {} model.width=256", flag));
  std::string key = setting.substr(0, equals);
  require(key.front() != '.' && key.back() != '.' && key.find("..") == std::string::npos,
          "expected a key without empty parts, such as model.width");
  const auto parts = std::ranges::count(key, '.') + 1;
  require(parts <= max_key_parts, fmt::format("expected a key of at most {} parts, found {}", max_key_parts, parts));
  return key;
}

}  // namespace periscope::config
