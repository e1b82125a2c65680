#include "experiments/core/dataset/schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace periscope {

ColumnSpec json_only(std::string name, std::string json, std::string meaning, std::string why) {
  return {.name = std::move(name),
          .dimensions = {},
          .units = {},
          .meaning = std::move(meaning),
          .json = std::move(json),
          .only = std::move(why),
          .in_files = false};
}

Schema::Schema(std::string kind, int version, std::vector<DimensionSpec> dimensions, std::vector<ColumnSpec> columns)
    : kind_(std::move(kind)), version_(version), dimensions_(std::move(dimensions)) {
  for (const DimensionSpec& d : dimensions_) {
    if (d.meaning.empty()) continue;
    columns_.push_back({.name = d.name,
                        .dimensions = d.name,
                        .units = d.units,
                        .meaning = d.meaning,
                        .json = d.json,
                        .only = d.json.empty() ? "a coordinate: in JSON, order or keys say the same" : ""});
  }
  std::ranges::move(columns, std::back_inserter(columns_));
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    const ColumnSpec& c = columns_[i];
    const auto wrong = [&](std::string_view what) {
      throw std::logic_error(fmt::format("result {}, column {}: {}", kind_, c.name, what));
    };
    if (!index_.emplace(c.name, i).second) wrong("declared twice");
    if (c.meaning.empty()) wrong("no meaning");
    if (c.in_files && c.json.empty() == c.only.empty()) wrong("needs a path in JSON, or a reason for having none");
    if (!c.in_files && (c.json.empty() || c.only.empty())) wrong("needs a path in JSON, and a reason");
    for (const std::string& name : words_of(c.dimensions)) {
      if (std::ranges::find(dimensions_, name, &DimensionSpec::name) == dimensions_.end()) wrong("unknown dimension");
    }
  }
}

std::size_t Schema::index_of(std::string_view column) const {
  const auto it = index_.find(std::string(column));
  if (it == index_.end()) throw std::logic_error(fmt::format("result {}: no column {}", kind_, column));
  return it->second;
}

std::vector<std::string> words_of(std::string_view text, char separator) {
  std::vector<std::string> words;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(separator), text.size());
    words.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return words;
}

}  // namespace periscope
