#include "experiments/engine/settings/toml_reader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <sstream>
#include <utility>

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

/// Sets the value at a dotted path below `table`, and below every entry of a list of tables on the way. Calls `fail`
/// with a part of the path that is not a table.
template <class Fail>
void set_value(toml::table& table, std::string_view path, toml::node& value, const Fail& fail) {
  const std::size_t dot = path.find('.');
  const std::string key(path.substr(0, dot));
  if (dot == std::string_view::npos) {
    table.insert_or_assign(key, value);
    return;
  }
  const auto set_below = [&](toml::node& node) {
    if (!node.is_table()) fail(key);
    set_value(*node.as_table(), path.substr(dot + 1), value, fail);
  };
  toml::node& node = table.insert(key, toml::table{}).first->second;
  if (toml::array* list = node.as_array()) {
    for (toml::node& entry : *list) set_below(entry);
  } else {
    set_below(node);
  }
}

}  // namespace

std::string take(const toml::node& node, int& target) {
  const auto* value = node.as_integer();
  if (value == nullptr) return "a whole number";
  if (value->get() > std::numeric_limits<int>::max()) return "a whole number of at most 2147483647";
  if (value->get() < std::numeric_limits<int>::min()) return "a whole number of at least -2147483648";
  target = static_cast<int>(value->get());
  return {};
}

std::string take(const toml::node& node, std::uint64_t& target) {
  const auto* value = node.as_integer();
  if (value == nullptr || value->get() < 0) return "a whole number of at least 0";
  target = static_cast<std::uint64_t>(value->get());
  return {};
}

std::string take(const toml::node& node, double& target) {
  // toml++'s value<double>() is empty for whole numbers beyond ±2^53.
  const auto* whole = node.as_integer();
  const auto value = whole != nullptr ? static_cast<double>(whole->get()) : node.value<double>();
  if (!value) return "a number";
  target = *value;
  return {};
}

std::string take(const toml::node& node, bool& target) {
  if (!node.is_boolean()) return "true or false";
  target = *node.value<bool>();
  return {};
}

std::string take(const toml::node& node, std::string& target) {
  const auto* value = node.as_string();
  if (value == nullptr) return "a string";
  // It can also be the name of a file, which U+0000 would truncate.
  if (value->get().find('\0') != std::string::npos) return "a string without the character U+0000";
  target = value->get();
  return {};
}

std::string take(const toml::node& node, DepthExpression& target) {
  double number = 0.0;
  const auto* text = node.as_string();
  const auto expression = text == nullptr ? std::nullopt : DepthExpression::parse(text->get());
  const bool is_number = take(node, number).empty();
  if (!is_number && !expression) {
    return "a number, or an expression in L (layers) and l (additions before), as \"2L\" or \"1/sqrt(l+1)\"";
  }
  target = is_number ? DepthExpression(number) : *expression;
  return {};
}

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

std::size_t TomlReader::index_in(std::string_view key, const std::string& word,
                                 const std::vector<std::string>& names) const {
  const auto it = std::ranges::find(names, word);
  if (it != names.end()) return static_cast<std::size_t>(it - names.begin());
  throw ConfigError(fmt::format("{}{} = \"{}\": expected one of {}; nearest is \"{}\"", where(*node_at(key)), full(key),
                                shortened(word), fmt::join(names, ", "), nearest(word, names)));
}

TomlReader TomlReader::table(std::string_view path) {
  const std::size_t dot = path.find('.');
  const std::string_view key = path.substr(0, dot);
  const toml::node* node = find(key);
  if (node != nullptr && !node->is_table()) fail(key, *node, "a table");
  TomlReader reader{node == nullptr ? nullptr : node->as_table(), full(key), file_, choice_};
  return dot == std::string_view::npos ? reader : reader.table(path.substr(dot + 1));
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
  set_value(table, dotted, *parsed.get("value"), [&](const std::string& key) {
    throw ConfigError(fmt::format("{} {}: {} is not a table", flag, shortened(setting), key));
  });
}

}  // namespace periscope::config
