#include "experiments/engine/settings/toml_reader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
#include <utility>

#include "experiments/engine/settings/input_file.h"
#include "experiments/engine/settings/setting.h"
#include "sim/base/error.h"
#include "sim/base/printable.h"

namespace periscope::config {
namespace {

std::string text_of(const toml::node& node) {
  std::ostringstream text;
  node.visit([&](const auto& value) { text << value; });
  std::string line = text.str();
  std::ranges::replace(line, '\n', ' ');
  return shortened(line);
}

/// The value of a number. toml++'s value<double>() is empty for whole numbers beyond ±2^53.
double number_of(const toml::node& node) {
  const auto* whole = node.as_integer();
  return whole != nullptr ? static_cast<double>(whole->get()) : node.as_floating_point()->get();
}

/// A string that can also be the name of a file: the system takes U+0000 for a name's end.
bool is_text(const toml::node& node) {
  const auto* value = node.as_string();
  return value != nullptr && value->get().find('\0') == std::string::npos;
}

/// The first line with far more dots between its keys than any key has parts, or 0. Texts in quotes are not told from
/// keys: none has a thousand dots and no comma.
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

/// The text of a configuration file. Throws ConfigError that says why there is none.
std::string read_text(const std::string& file) {
  constexpr std::uintmax_t most_bytes = 1 << 20;
  const auto refuse = [&](std::string_view why) -> void {
    throw ConfigError(fmt::format("--config {}: {}", shortened(file), why));
  };
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(file, error);
  if (status.type() == std::filesystem::file_type::not_found) refuse("no such file");
  if (error) refuse(error.message());
  if (std::filesystem::is_directory(status)) refuse("is a folder, expected a TOML file");
  if (!std::filesystem::is_regular_file(status)) refuse("is no regular file, expected a TOML file");
  std::ifstream stream(file, std::ios::binary);
  if (!stream) refuse(std::generic_category().message(errno));
  std::string text(most_bytes + 1, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (stream.bad()) refuse("cannot be read");
  text.resize(static_cast<std::size_t>(stream.gcount()));
  if (text.size() > most_bytes) refuse(fmt::format("has more than {} bytes, expected a TOML file", most_bytes));
  if (const int line = line_with_deep_keys(text); line > 0) {
    throw ConfigError(fmt::format("{}:{}: a key of more than 1000 parts: expected at most {}", shortened(file), line,
                                  most_key_parts));
  }
  return text;
}

}  // namespace

TomlReader::TomlReader(const toml::table* table, std::string name, std::string file)
    : table_(table), name_(std::move(name)), file_(std::move(file)) {}

std::string TomlReader::full(std::string_view key) const {
  return name_.empty() ? std::string(key) : fmt::format("{}.{}", name_, key);
}

std::string TomlReader::where(const toml::node& node) const {
  const auto line = node.source().begin.line;
  return line > 0 && node.source().path ? fmt::format("{}:{}: ", shortened(file_), line) : "";
}

void TomlReader::fail(std::string_view key, const toml::node& found, const std::string& expected) const {
  throw ConfigError(fmt::format("{}{} = {}: expected {}", where(found), full(key), text_of(found), expected));
}

const toml::node* TomlReader::find(std::string_view key) {
  known_.emplace(key);
  return table_ == nullptr ? nullptr : table_->get(key);
}

bool TomlReader::read(std::string_view key, int& target) {
  const toml::node* node = find(key);
  if (node == nullptr) return false;
  const auto* value = node->as_integer();
  if (value == nullptr) fail(key, *node, "a whole number");
  if (!std::in_range<int>(value->get())) {
    fail(key, *node,
         fmt::format("a whole number of at {}", value->get() > 0 ? "most 2147483647" : "least -2147483648"));
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
  target = number_of(*node);
  return true;
}

bool TomlReader::read(std::string_view key, DepthExpression& target) {
  const toml::node* node = find(key);
  if (node == nullptr) return false;
  if (double number = 0.0; node->is_number()) {
    read(key, number);
    target = number;
    return true;
  }
  const auto* text = node->as_string();
  const auto expression = text == nullptr ? std::nullopt : DepthExpression::parse(text->get());
  if (!expression) {
    fail(key, *node, "a number, or an expression in L (layers) and l (additions before), as \"2L\" or \"1/sqrt(l+1)\"");
  }
  target = *expression;
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
  if (!is_text(*node)) fail(key, *node, node->is_string() ? "a string without the character U+0000" : "a string");
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
    if (value == nullptr || !std::in_range<int>(value->get())) fail(key, *node, "a list of whole numbers");
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
    target.push_back(number_of(item));
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
    if (!is_text(item)) fail(key, *node, "a list of strings without the character U+0000");
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
  throw ConfigError(fmt::format("{}{} = \"{}\": expected one of {}; nearest is \"{}\"", where(*node), full(key),
                                shortened(word), fmt::join(names, ", "), nearest(word, all)));
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
                    where(node), shortened(full(key.str())), full(nearest(key.str(), all))));
  }
}

std::string config_text(const std::string& file) {
  return file.empty() ? "" : RunOfInputFiles::configuration(file, [&] { return read_text(file); });
}

toml::table read_table(const std::string& file, const std::vector<std::string>& settings) {
  return parse_table(config_text(file), file, settings);
}

toml::table parse_table(const std::string& text, const std::string& file, const std::vector<std::string>& settings) {
  toml::table table;
  try {
    table = toml::parse(text, file);
  } catch (const toml::parse_error& error) {
    throw ConfigError(
        fmt::format("{}:{}: not TOML: {}", shortened(file), error.source().begin.line, shortened(error.description())));
  }
  for (const std::string& setting : settings) apply_setting(table, setting);
  return table;
}

void apply_setting(toml::table& table, const std::string& setting, std::string_view flag) {
  const std::string dotted = key_of_setting(setting, flag);
  const std::string value = setting.substr(dotted.size() + 1);
  toml::table parsed;
  std::string problem = "found more than one value";
  try {
    if (line_with_deep_keys(value) == 0) parsed = toml::parse("value = " + value);
  } catch (const toml::parse_error& error) {
    parsed.clear();
    problem = shortened(error.description());
  }
  if (parsed.size() != 1) {
    const std::size_t begin = value.find_first_not_of(" \t");
    if (begin != std::string::npos && (value[begin] == '[' || value[begin] == '{')) {
      throw ConfigError(
          fmt::format("{} {}: not TOML: {}; expected brackets that close, and quotes around each text, or around all "
                      "of a text that begins with a bracket",
                      flag, shortened(setting), problem));
    }
    parsed = toml::table{{"value", value}};
  }
  toml::table* parent = &table;
  std::istringstream path(dotted);
  std::string key;
  std::string rest;
  std::getline(path, key, '.');
  while (std::getline(path, rest, '.')) {
    const auto [it, inserted] = parent->insert(key, toml::table{});
    parent = it->second.as_table();
    if (parent == nullptr) throw ConfigError(fmt::format("{} {}: {} is not a table", flag, shortened(setting), key));
    key = rest;
  }
  parent->insert_or_assign(key, *parsed.get("value"));
}

}  // namespace periscope::config
