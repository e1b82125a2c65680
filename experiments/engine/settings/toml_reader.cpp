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

#include "sim/base/error.h"
#include "sim/base/printable.h"

namespace periscope::config {
namespace {

/// Our keys have at most three parts, as agreement.power_limit.variance. The TOML parser makes a table of every part
/// and frees these tables by recursion, so a key of 100 000 parts would overflow the stack.
constexpr int most_key_parts = 16;

std::optional<int> whole_in(const toml::node& node) {
  const auto* value = node.as_integer();
  if (value == nullptr || !std::in_range<int>(value->get())) return std::nullopt;
  return static_cast<int>(value->get());
}

/// toml++'s value<double>() is empty for whole numbers beyond ±2^53.
std::optional<double> number_in(const toml::node& node) {
  if (const auto* whole = node.as_integer()) return static_cast<double>(whole->get());
  return node.value<double>();
}

/// A string that can also be the name of a file, which U+0000 would truncate.
std::optional<std::string> text_in(const toml::node& node) {
  const auto* value = node.as_string();
  if (value == nullptr || value->get().find('\0') != std::string::npos) return std::nullopt;
  return value->get();
}

/// The entries of a list, as `entry` reads them; nothing for another value, and if `entry` cannot read one.
template <class T>
std::optional<std::vector<T>> list_in(const toml::node& node, std::optional<T> (*entry)(const toml::node&)) {
  const toml::array* list = node.as_array();
  if (list == nullptr) return std::nullopt;
  std::vector<T> all;
  for (const toml::node& item : *list) {
    const std::optional<T> value = entry(item);
    if (!value) return std::nullopt;
    all.push_back(*value);
  }
  return all;
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

std::shared_ptr<Tree> parsed(const std::string& file, const std::string& text,
                             const std::vector<std::string>& settings) {
  const auto tree = std::make_shared<Tree>(Tree{.file = file, .text = text, .settings = settings, .values = {}});
  try {
    tree->values = toml::parse(text, file);
  } catch (const toml::parse_error& error) {
    throw ConfigError(
        fmt::format("{}:{}: not TOML: {}", shortened(file), error.source().begin.line, shortened(error.description())));
  }
  for (const std::string& setting : settings) apply_setting(tree->values, setting, "--set");
  return tree;
}

}  // namespace

std::string toml_line(const toml::node& node) {
  std::ostringstream text;
  node.visit([&](const auto& value) { text << value; });
  std::string line = text.str();
  std::ranges::replace(line, '\n', ' ');
  return shortened(line);
}

TomlReader::TomlReader(const toml::table* table, std::string name, std::string file, const Choice* choice)
    : table_(table), name_(std::move(name)), file_(std::move(file)), choice_(choice) {}

std::string TomlReader::full(std::string_view key) const {
  return name_.empty() ? std::string(key) : fmt::format("{}.{}", name_, key);
}

std::string TomlReader::where(const toml::node& node) const {
  const auto line = node.source().begin.line;
  return line > 0 && node.source().path ? fmt::format("{}:{}: ", shortened(file_), line) : "";
}

void TomlReader::fail(std::string_view key, const toml::node& found, const std::string& expected) const {
  throw ConfigError(fmt::format("{}{} = {}: expected {}", where(found), full(key), toml_line(found), expected));
}

const toml::node* TomlReader::node_at(std::string_view key) const {
  const toml::node* node = table_ == nullptr ? nullptr : table_->get(key);
  if (node == nullptr || choice_ == nullptr || !node->is_array()) return node;
  const auto chosen = choice_->find(full(key));
  return chosen == choice_->end() ? node : node->as_array()->get(chosen->second);
}

const toml::node* TomlReader::find(std::string_view key) {
  known_.emplace(key);
  return node_at(key);
}

void TomlReader::resolve_path(std::string_view key, std::string& path) const {
  const toml::node* node = node_at(key);
  if (node == nullptr || !node->source().path || !std::filesystem::path(path).is_relative()) return;
  path = (std::filesystem::path(file_).parent_path() / path).lexically_normal().string();
}

void TomlReader::take(std::string_view key, const toml::node& node, int& target) const {
  const auto value = whole_in(node);
  if (!value && node.is_integer()) {
    const bool large = node.as_integer()->get() > 0;
    fail(key, node, fmt::format("a whole number of at {}", large ? "most 2147483647" : "least -2147483648"));
  }
  if (!value) fail(key, node, "a whole number");
  target = *value;
}

void TomlReader::take(std::string_view key, const toml::node& node, std::uint64_t& target) const {
  const auto* value = node.as_integer();
  if (value == nullptr || value->get() < 0) fail(key, node, "a whole number of at least 0");
  target = static_cast<std::uint64_t>(value->get());
}

void TomlReader::take(std::string_view key, const toml::node& node, double& target) const {
  const auto value = number_in(node);
  if (!value) fail(key, node, "a number");
  target = *value;
}

void TomlReader::take(std::string_view key, const toml::node& node, DepthExpression& target) const {
  const auto* text = node.as_string();
  const auto expression = text == nullptr ? std::nullopt : DepthExpression::parse(text->get());
  if (const auto number = number_in(node)) {
    target = *number;
  } else if (expression) {
    target = *expression;
  } else {
    fail(key, node, "a number, or an expression in L (layers) and l (additions before), as \"2L\" or \"1/sqrt(l+1)\"");
  }
}

void TomlReader::take(std::string_view key, const toml::node& node, bool& target) const {
  if (!node.is_boolean()) fail(key, node, "true or false");
  target = *node.value<bool>();
}

void TomlReader::take(std::string_view key, const toml::node& node, std::string& target) const {
  const auto value = text_in(node);
  if (!value) fail(key, node, node.is_string() ? "a string without the character U+0000" : "a string");
  target = *value;
}

void TomlReader::take(std::string_view key, const toml::node& node, std::vector<int>& target) const {
  const auto list = list_in<int>(node, whole_in);
  if (!list || list->empty()) fail(key, node, "a list of whole numbers");
  target = *list;
}

void TomlReader::take(std::string_view key, const toml::node& node, std::vector<double>& target) const {
  const auto list = list_in<double>(node, number_in);
  if (!list || list->empty()) fail(key, node, "a list of numbers");
  target = *list;
}

void TomlReader::take(std::string_view key, const toml::node& node, std::vector<std::string>& target) const {
  const auto list = list_in<std::string>(node, text_in);
  if (!list) fail(key, node, "a list of strings without the character U+0000");
  target = *list;
}

std::size_t TomlReader::index_of(std::string_view key, const std::string& word,
                                 std::span<const std::string_view> names) const {
  const auto it = std::ranges::find(names, word);
  if (it != names.end()) return static_cast<std::size_t>(it - names.begin());
  const toml::node* node = node_at(key);
  const std::vector<std::string> all(names.begin(), names.end());
  throw ConfigError(fmt::format("{}{} = \"{}\": expected one of {}; nearest is \"{}\"", where(*node), full(key),
                                shortened(word), fmt::join(names, ", "), nearest(word, all)));
}

TomlReader TomlReader::table(std::string_view key) {
  const toml::node* node = find(key);
  if (node != nullptr && !node->is_table()) fail(key, *node, "a table");
  return {node == nullptr ? nullptr : node->as_table(), full(key), file_, choice_};
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

std::shared_ptr<const Tree> read_tree(const std::string& file, const std::vector<std::string>& settings) {
  return parsed(file, file.empty() ? "" : read_text(file), settings);
}

std::shared_ptr<const Tree> overridden_tree(const Tree& tree, const std::vector<std::string>& theory_settings) {
  const std::shared_ptr<Tree> overridden = parsed(tree.file, tree.text, tree.settings);
  for (const std::string& setting : theory_settings) apply_setting(overridden->values, setting, "--theory-set");
  return overridden;
}

std::string key_of_setting(const std::string& setting, std::string_view flag) {
  const auto equals = setting.find('=');
  const auto fail = [&](const std::string& why) {
    throw ConfigError(fmt::format("{} {}: {}", flag, shortened(setting), why));
  };
  if (equals == std::string::npos || equals == 0) {
    fail(fmt::format("expected key=value, as in {} model.width=256", flag));
  }
  std::string key = setting.substr(0, equals);
  if (key.front() == '.' || key.back() == '.' || key.find("..") != std::string::npos) {
    fail("the key has an empty part, expected one as model.width");
  }
  if (const auto dots = std::ranges::count(key, '.'); dots >= most_key_parts) {
    fail(fmt::format("the key has {} parts, expected at most {}", dots + 1, most_key_parts));
  }
  return key;
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
  std::vector<toml::table*> tables{&table};
  std::istringstream path(dotted);
  std::string key;
  std::string rest;
  std::getline(path, key, '.');
  while (std::getline(path, rest, '.')) {
    std::vector<toml::table*> below;
    for (toml::table* one : tables) {
      toml::node& node = one->insert(key, toml::table{}).first->second;
      if (!node.is_array()) below.push_back(node.as_table());
      if (auto* list = node.as_array()) {  // a run goes through them
        for (toml::node& entry : *list) below.push_back(entry.as_table());
      }
    }
    if (std::ranges::find(below, nullptr) != below.end()) {
      throw ConfigError(fmt::format("{} {}: {} is not a table", flag, shortened(setting), key));
    }
    tables = std::move(below);
    key = rest;
  }
  for (toml::table* one : tables) one->insert_or_assign(key, *parsed.get("value"));
}

}  // namespace periscope::config
