#include "experiments/common/toml_reader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <sstream>

#include "sim/spec/error.h"

namespace periscope {
namespace {

std::string shown(const toml::node& node) {
  std::ostringstream text;
  node.visit([&](const auto& value) { text << value; });
  std::string line = text.str();
  std::ranges::replace(line, '\n', ' ');
  return line;
}

}  // namespace

TomlReader::TomlReader(const toml::table* table, std::string name, std::string file)
    : table_(table), name_(std::move(name)), file_(std::move(file)) {}

std::string TomlReader::full(std::string_view key) const {
  return name_.empty() ? std::string(key) : fmt::format("{}.{}", name_, key);
}

std::string TomlReader::where(const toml::node& node) const {
  const auto line = node.source().begin.line;
  return line > 0 && node.source().path ? fmt::format("{}:{}: ", file_, line) : "";
}

void TomlReader::fail(std::string_view key, const toml::node& found, const std::string& expected) const {
  throw ConfigError(fmt::format("{}{} = {}: expected {}", where(found), full(key), shown(found), expected));
}

const toml::node* TomlReader::find(std::string_view key) {
  known_.emplace(key);
  return table_ == nullptr ? nullptr : table_->get(key);
}

bool TomlReader::read(std::string_view key, int& target) {
  const toml::node* node = find(key);
  if (node == nullptr) return false;
  const auto* value = node->as_integer();
  if (value == nullptr || value->get() < std::numeric_limits<int>::min() ||
      value->get() > std::numeric_limits<int>::max()) {
    fail(key, *node, "a whole number");
  }
  target = static_cast<int>(value->get());
  return true;
}

bool TomlReader::read(std::string_view key, std::uint64_t& target) {
  const toml::node* node = find(key);
  if (node == nullptr) return false;
  const auto* value = node->as_integer();
  if (value == nullptr || value->get() < 0) fail(key, *node, "a whole number of at least 0");
  target = static_cast<std::uint64_t>(value->get());
  return true;
}

bool TomlReader::read(std::string_view key, double& target) {
  const toml::node* node = find(key);
  if (node == nullptr) return false;
  if (!node->is_number()) fail(key, *node, "a number");
  target = *node->value<double>();
  return true;
}

bool TomlReader::read(std::string_view key, bool& target) {
  const toml::node* node = find(key);
  if (node == nullptr) return false;
  if (!node->is_boolean()) fail(key, *node, "true or false");
  target = *node->value<bool>();
  return true;
}

bool TomlReader::read(std::string_view key, std::string& target) {
  const toml::node* node = find(key);
  if (node == nullptr) return false;
  if (!node->is_string()) fail(key, *node, "a string");
  target = *node->value<std::string>();
  return true;
}

bool TomlReader::read(std::string_view key, std::vector<int>& target) {
  const toml::node* node = find(key);
  if (node == nullptr) return false;
  const toml::array* list = node->as_array();
  if (list == nullptr || list->empty()) fail(key, *node, "a list of whole numbers");
  target.clear();
  for (const toml::node& item : *list) {
    const auto* value = item.as_integer();
    if (value == nullptr || std::abs(value->get()) > std::numeric_limits<int>::max()) {
      fail(key, *node, "a list of whole numbers");
    }
    target.push_back(static_cast<int>(value->get()));
  }
  return true;
}

bool TomlReader::read(std::string_view key, std::vector<double>& target) {
  const toml::node* node = find(key);
  if (node == nullptr) return false;
  const toml::array* list = node->as_array();
  if (list == nullptr || list->empty()) fail(key, *node, "a list of numbers");
  target.clear();
  for (const toml::node& item : *list) {
    if (!item.is_number()) fail(key, *node, "a list of numbers");
    target.push_back(*item.value<double>());
  }
  return true;
}

bool TomlReader::read(std::string_view key, std::vector<std::string>& target) {
  const toml::node* node = find(key);
  if (node == nullptr) return false;
  const toml::array* list = node->as_array();
  if (list == nullptr) fail(key, *node, "a list of strings");
  target.clear();
  for (const toml::node& item : *list) {
    if (!item.is_string()) fail(key, *node, "a list of strings");
    target.push_back(*item.value<std::string>());
  }
  return true;
}

std::size_t TomlReader::index_of(std::string_view key, const std::string& word,
                                 std::span<const std::string_view> names) const {
  const auto it = std::ranges::find(names, word);
  if (it != names.end()) return static_cast<std::size_t>(it - names.begin());
  const toml::node* node = table_->get(key);
  const std::vector<std::string> all(names.begin(), names.end());
  throw ConfigError(fmt::format("{}{} = \"{}\": expected one of {}; nearest is \"{}\"", where(*node), full(key), word,
                                fmt::join(names, ", "), nearest(word, all)));
}

TomlReader TomlReader::table(std::string_view key) {
  const toml::node* node = find(key);
  if (node != nullptr && !node->is_table()) fail(key, *node, "a table");
  return {node == nullptr ? nullptr : node->as_table(), full(key), file_};
}

void TomlReader::finish() const {
  if (table_ == nullptr) return;
  for (const auto& [key, node] : *table_) {
    if (known_.contains(key.str())) continue;
    const std::vector<std::string> all(known_.begin(), known_.end());
    throw ConfigError(
        fmt::format("{}unknown key {}: expected one of the keys that `periscope list` shows; nearest is {}",
                    where(node), full(key.str()), full(nearest(key.str(), all))));
  }
}

toml::table read_table(const std::string& file, const std::vector<std::string>& settings) {
  toml::table table;
  if (!file.empty()) {
    if (!std::filesystem::is_regular_file(file)) throw ConfigError(fmt::format("--config {}: no such file", file));
    try {
      table = toml::parse_file(file);
    } catch (const toml::parse_error& error) {
      throw ConfigError(fmt::format("{}:{}: not TOML: {}", file, error.source().begin.line, error.description()));
    }
  }
  for (const std::string& setting : settings) apply_setting(table, setting);
  return table;
}

void apply_setting(toml::table& table, const std::string& setting, std::string_view flag) {
  const auto equals = setting.find('=');
  if (equals == std::string::npos || equals == 0) {
    throw ConfigError(fmt::format("{0} {1}: expected key=value, as in {0} model.width=256", flag, setting));
  }
  const std::string value = setting.substr(equals + 1);
  toml::table parsed;
  try {
    parsed = toml::parse("value = " + value);
  } catch (const toml::parse_error&) {
    parsed.insert("value", value);
  }
  if (parsed.size() != 1) parsed = toml::table{{"value", value}};
  toml::table* parent = &table;
  std::istringstream path(setting.substr(0, equals));
  std::string key;
  std::string rest;
  std::getline(path, key, '.');
  while (std::getline(path, rest, '.')) {
    const auto [it, inserted] = parent->insert(key, toml::table{});
    parent = it->second.as_table();
    if (parent == nullptr) throw ConfigError(fmt::format("{} {}: {} is not a table", flag, setting, key));
    key = rest;
  }
  parent->insert_or_assign(key, *parsed.get("value"));
}

}  // namespace periscope
