#include "sim/checkpoint/config_reader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "sim/base/mapped.h"
#include "sim/base/parse_integer.h"
#include "sim/checkpoint/file_error.h"

namespace periscope {
namespace {

constexpr std::string_view positive_number = "a number greater than 0";

}  // namespace

ConfigReader::ConfigReader(nlohmann::json object, std::string path, std::string prefix)
    : object_(std::move(object)),
      path_(std::move(path)),
      prefix_(std::move(prefix)),
      shared_(std::make_shared<Shared>()) {
  if (!object_.is_object()) {
    const std::string name = prefix_.empty() ? "the file" : "key " + prefix_.substr(0, prefix_.size() - 1);
    throw malformed(path_, name + ": expected a JSON object");
  }
}

void ConfigReader::ignore(std::span<const std::string> keys) { shared_->ignored.insert(keys.begin(), keys.end()); }

void ConfigReader::require_ignored() const {
  for (const std::string& key : shared_->ignored) {
    if (std::ranges::count(shared_->keys, key) > 0) continue;
    throw ConfigError(fmt::format("--ignore-key {}: expected a key of config.json{}", in_quotes(key),
                                  nearest_name(key, shared_->keys)));
  }
}

const nlohmann::json* ConfigReader::find(std::string_view key) {
  accepted_.emplace(key);
  if (shared_->ignored.contains(prefix_ + std::string(key))) {
    throw cannot_be_ignored(key, "this family reads it");
  }
  return has(key) ? stored(key) : nullptr;
}

const nlohmann::json& ConfigReader::get(std::string_view key, std::string_view expected) {
  const nlohmann::json* value = find(key);
  if (value == nullptr) throw malformed_value(key, expected);
  return *value;
}

const nlohmann::json* ConfigReader::stored(std::string_view key) const {
  const auto it = object_.find(key);
  return it == object_.end() ? nullptr : &*it;
}

bool ConfigReader::has(std::string_view key) const { return stored(key) != nullptr && !stored(key)->is_null(); }

bool ConfigReader::is_given(std::string_view key) const {
  return has(key) || (stored(key) != nullptr && !null_is_absent_.contains(key));
}

std::string ConfigReader::found(std::string_view key) const {
  const nlohmann::json* const json = stored(key);
  const std::string name = in_quotes(prefix_ + std::string(key));
  if (json == nullptr) return fmt::format("key {} is missing", name);
  std::string value = json->is_string() ? in_quotes(json->get<std::string>())
                                        : json->dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  constexpr std::size_t max_length = 60;
  if (value.size() > max_length) value = value.substr(0, max_length) + "…";
  return fmt::format("key {} = {}", name, value);
}

InputError ConfigReader::unsupported_value(std::string_view key, std::string_view expected) const {
  return unsupported(path_, fmt::format("{}: expected {}", found(key), expected));
}

InputError ConfigReader::malformed_value(std::string_view key, std::string_view expected) const {
  return malformed(path_, fmt::format("{}: expected {}", found(key), expected));
}

void ConfigReader::note_default(std::string_view key, const nlohmann::json& value) {
  shared_->defaults[prefix_ + std::string(key)] = value.dump();
}

template <class T, class Read>
T ConfigReader::read_or(std::string_view key, T fallback, const Read& read) {
  if (is_given(key)) return read();
  (void)find(key);
  note_default(key, fallback);
  return fallback;
}

template <class T, class Read>
std::optional<T> ConfigReader::read_or_none(std::string_view key, std::optional<T> fallback, const Read& read) {
  if (has(key)) return read();
  (void)find(key);
  if (stored(key) != nullptr) return std::nullopt;
  note_default(key, fallback ? nlohmann::json(*fallback) : nlohmann::json());
  return fallback;
}

int ConfigReader::integer(std::string_view key, int max, int min) {
  const std::string expected = integer_range_text(min, max);
  const nlohmann::json& value = get(key, expected);
  const bool is_huge = value.is_number_unsigned() && value.get<std::uint64_t>() > static_cast<std::uint64_t>(max);
  const auto number = value.is_number_integer() && !is_huge ? value.get<std::int64_t>() : std::int64_t{min} - 1;
  if (number < min || number > max) throw malformed_value(key, expected);
  return static_cast<int>(number);
}

int ConfigReader::integer_or(std::string_view key, int fallback, int max, int min) {
  return read_or(key, fallback, [&] { return integer(key, max, min); });
}

double ConfigReader::positive(std::string_view key) {
  const nlohmann::json& value = get(key, positive_number);
  const double number = value.is_number() ? value.get<double>() : 0.0;
  if (!std::isfinite(number) || !(number > 0.0)) throw malformed_value(key, positive_number);
  return number;
}

double ConfigReader::positive_or(std::string_view key, double fallback) {
  return read_or(key, fallback, [&] { return positive(key); });
}

std::vector<double> ConfigReader::positives(std::string_view key) {
  std::vector<double> all;
  const auto is_positive = [](double x) { return std::isfinite(x) && x > 0.0; };
  if (!read(key, all) || !std::ranges::all_of(all, is_positive)) fail(key, "a list of numbers above 0");
  return all;
}

bool ConfigReader::flag_or(std::string_view key, bool fallback) {
  if (!read(key, fallback)) note_default(key, fallback);
  return fallback;
}

std::string ConfigReader::text(std::string_view key) {
  const nlohmann::json& value = get(key, "a string");
  if (!value.is_string()) throw malformed_value(key, "a string");
  return value.get<std::string>();
}

std::string ConfigReader::text_or(std::string_view key, std::string_view fallback) {
  return read_or(key, std::string(fallback), [&] { return text(key); });
}

std::vector<std::string> ConfigReader::texts(std::string_view key) {
  std::vector<std::string> all;
  if (!read(key, all)) fail(key, "a list of strings");
  return all;
}

ConfigReader ConfigReader::nested(const nlohmann::json& object, const std::string& name) const {
  ConfigReader inner(object, path_, prefix_ + name + ".");
  inner.shared_ = shared_;
  inner.counts_ = counts_;
  return inner;
}

ConfigReader ConfigReader::table(std::string_view key) { return nested(get(key, "an object"), std::string(key)); }

std::vector<ConfigReader> ConfigReader::tables(std::string_view key, std::string_view expected) {
  std::vector<ConfigReader> all;
  const nlohmann::json* list = find(key);
  if (list == nullptr) return all;
  if (!list->is_array()) fail(key, expected);
  for (const nlohmann::json& entry : *list) all.push_back(nested(entry, fmt::format("{}[{}]", key, all.size())));
  return all;
}

std::optional<int> ConfigReader::integer_or_none(std::string_view key, std::optional<int> fallback, int max) {
  return read_or_none(key, fallback, [&] { return integer(key, max); });
}

std::optional<double> ConfigReader::positive_or_none(std::string_view key, std::optional<double> fallback) {
  return read_or_none(key, fallback, [&] { return positive(key); });
}

void ConfigReader::must_be(std::string_view key, const nlohmann::json& expected) {
  const nlohmann::json* value = find(key);
  if (value == nullptr && expected == true) value = stored(key);
  if (value != nullptr && *value != expected) throw unsupported_value(key, expected.dump());
}

std::optional<std::string> ConfigReader::inert_values(const std::string& key, const nlohmann::json& value) const {
  const auto matches = [&](const InertKey& row) {
    return row.key.ends_with('*') ? key.starts_with(row.key.substr(0, row.key.size() - 1)) : key == row.key;
  };
  const auto row = std::ranges::find_if(inert_, matches);
  if (row == inert_.end()) return std::nullopt;
  if (!row->same_as.empty()) {
    if (const nlohmann::json* other = stored(row->same_as); other != nullptr && *other == value) return "";
    const auto by_default = shared_->defaults.find(prefix_ + std::string(row->same_as));
    if (by_default != shared_->defaults.end() && by_default->second == value.dump()) return "";
    return fmt::format("the same as {}", row->same_as);
  }
  if (row->values.empty()) return "";
  const nlohmann::json values = nlohmann::json::parse(row->values);
  if (std::ranges::find(values, value) != values.end()) return "";
  return fmt::format("{}", fmt::join(mapped(values, [](const nlohmann::json& one) { return one.dump(); }), " or "));
}

ConfigError ConfigReader::cannot_be_ignored(std::string_view key, std::string_view why) const {
  return ConfigError(fmt::format("--ignore-key {}: expected a key that does not change the function; {}",
                                 in_quotes(prefix_ + std::string(key)), why));
}

void ConfigReader::finish() const {
  for (const auto& [key, value] : object_.items()) {
    shared_->keys.push_back(prefix_ + key);
    if (value.is_null() || accepted_.contains(key)) continue;
    const bool ignored = shared_->ignored.contains(shared_->keys.back());
    const std::optional<std::string> expected = inert_values(key, value);
    if (expected && !expected->empty()) {
      if (ignored) throw cannot_be_ignored(key, fmt::format("{}: expected {}", found(key), *expected));
      throw unsupported_value(key, *expected);
    }
    if (expected || ignored) continue;
    throw unsupported(path_,
                      fmt::format("{}: unknown key, which may change the function; pass --ignore-key {} if it does not",
                                  found(key), in_quotes(prefix_ + key)));
  }
}

}  // namespace periscope
