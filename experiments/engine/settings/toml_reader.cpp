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

/// Real keys have at most three parts, as agreement.power_limit.variance. toml++ frees the tables of a key's parts by
/// recursion, so a key of 100 000 parts would overflow the stack.
constexpr int most_key_parts = 16;

/// Returns the first line with over 1000 dots in a row without a delimiter, or 0. Quoted texts count like keys.
int line_with_deep_keys(std::string_view text) {
  constexpr int most_dots = 1000;
  constexpr std::string_view delimiters = "=,[]{}\"'#\n";
  int line = 1;
  int dots = 0;
  for (const char c : text) {
    if (c == '.' && ++dots > most_dots) return line;
    if (c != '.' && delimiters.find(c) != std::string_view::npos) dots = 0;
    if (c == '\n') ++line;
  }
  return 0;
}

/// Reads a configuration file. Throws ConfigError.
std::string read_text(const std::string& file) {
  constexpr std::size_t most_bytes = 1 << 20;
  std::string text;
  try {
    const MappedFile mapped(file);
    text.assign(reinterpret_cast<const char*>(mapped.bytes().data()), std::min(mapped.bytes().size(), most_bytes + 1));
  } catch (const InputError& error) {
    throw ConfigError(
        fmt::format("--config {}{}", shortened(file), std::string_view(error.what()).substr(file.size())));
  }
  if (text.size() > most_bytes) {
    throw ConfigError(
        fmt::format("--config {}: has more than {} bytes, expected a TOML file", shortened(file), most_bytes));
  }
  if (const int line = line_with_deep_keys(text); line > 0) {
    throw ConfigError(fmt::format("{}:{}: a key of more than 1000 parts: expected at most {}", shortened(file), line,
                                  most_key_parts));
  }
  return text;
}

std::string below(const std::string& path, std::string_view key) {
  return path.empty() ? std::string(key) : fmt::format("{}.{}", path, key);
}

/// Converts `node` to JSON, dates to text. Adds the places of the node and of all values in it to `locations`.
Json value_of(const toml::node& node, const std::string& path, std::map<std::string, Location>& locations) {
  locations[path] = {.line = node.source().begin.line, .column = node.source().begin.column};
  return node.visit([&]<class Node>(const Node& value) -> Json {
    if constexpr (toml::is_table<Node>) {
      Json table = Json::object();
      for (const auto& [key, entry] : value) {
        table[std::string(key.str())] = value_of(entry, below(path, key.str()), locations);
      }
      return table;
    } else if constexpr (toml::is_array<Node>) {
      Json list = Json::array();
      for (const auto& entry : value) {
        list.push_back(value_of(entry, below(path, std::to_string(list.size())), locations));
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
        fmt::format("{} {}: not TOML: {}; expected brackets that close, and quotes around each text, or around all "
                    "of a text that begins with a bracket",
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
  const Json parsed = parsed_value(setting.substr(key.size() + 1), setting, flag);
  ++settings;
  // `path` leads to `value`, `rest` from there to the key.
  const auto set_below = [&](const auto& self, Json& value, const std::string& path, std::string_view rest) -> void {
    if (rest.empty()) {
      std::erase_if(locations, [&](const auto& one) { return one.first.starts_with(path + "."); });
      locations[path] = {.setting = settings};
      value = parsed;
    } else if (value.is_array()) {
      for (std::size_t i = 0; i < value.size(); ++i) self(self, value[i], below(path, std::to_string(i)), rest);
    } else if (value.is_object() || value.is_null()) {
      const std::string part(rest.substr(0, rest.find('.')));
      self(self, value[part], below(path, part), rest.substr(std::min(part.size() + 1, rest.size())));
    } else {
      throw ConfigError(fmt::format("{} {}: {} is not a table", flag, shortened(setting),
                                    key.substr(0, key.size() - rest.size() - 1)));
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
    text.erase(exponent + 2, 1);  // 1e-06
  return text;
}

std::string TomlReader::full(std::string_view key) const { return below(name_, key); }

std::string TomlReader::where(std::string_view key) const {
  std::string path = below(path_, key);
  while (!tree_.locations.contains(path)) path.resize(path.find('.') == std::string::npos ? 0 : path.rfind('.'));
  const std::size_t line = tree_.locations.at(path).line;
  return line > 0 ? fmt::format("{}:{}: ", shortened(tree_.file), line) : "";
}

void TomlReader::fail(std::string_view key, const std::string& expected) const {
  std::string found = " is missing";
  if (const auto value = table_->find(key); value != table_->end()) {
    const auto* const word = value->get_ptr<const std::string*>();  // which may be no UTF-8
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
  TomlReader reader{tree_, value, full(key), below(path_, key)};
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
    all.push_back({tree_, &entry, full(key), below(below(path_, key), std::to_string(all.size()))});
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
    throw ConfigError(
        fmt::format("{}:{}: not TOML: {}", shortened(file), error.source().begin.line, shortened(error.description())));
  }
  for (const std::string& setting : settings) tree.set(setting, "--set");
  return tree;
}

std::string key_of_setting(const std::string& setting, std::string_view flag) {
  const auto equals = setting.find('=');
  const auto require = [&](bool holds, const std::string& why) {
    if (!holds) throw ConfigError(fmt::format("{} {}: {}", flag, shortened(setting), why));
  };
  require(equals != std::string::npos && equals > 0, fmt::format("expected key=value, as in {} model.width=256", flag));
  std::string key = setting.substr(0, equals);
  require(key.front() != '.' && key.back() != '.' && key.find("..") == std::string::npos,
          "the key has an empty part, expected one as model.width");
  const auto parts = std::ranges::count(key, '.') + 1;
  require(parts <= most_key_parts, fmt::format("the key has {} parts, expected at most {}", parts, most_key_parts));
  return key;
}

}  // namespace periscope::config
