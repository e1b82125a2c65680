#include "experiments/engine/result/schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace periscope::dataset {

std::vector<std::string> ColumnSpec::axes() const { return words_of(dimensions); }

Schema::Schema(std::string kind, int version, std::vector<DimensionSpec> dimensions, std::vector<ColumnSpec> columns)
    : kind_(std::move(kind)), version_(version), dimensions_(std::move(dimensions)) {
  for (const DimensionSpec& d : dimensions_) {
    if (d.meaning.empty()) continue;
    columns_.push_back({.name = d.name, .dimensions = d.name, .type = d.type, .units = d.units, .meaning = d.meaning});
  }
  std::ranges::move(columns, std::back_inserter(columns_));
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    ColumnSpec& c = columns_[i];
    const auto wrong = [&](std::string_view what) {
      throw std::logic_error(fmt::format("result {}, column {}: {}", kind_, c.name, what));
    };
    if (!index_.emplace(c.name, i).second) wrong("declared twice");
    if (c.meaning.empty()) wrong("no meaning");
    if ((c.type == Type::text) != c.units.empty()) wrong("units are for numbers and flags, and all of these have them");
    if (c.units == "nat" || c.units == "nat2" || c.units == "dB") {  // pure numbers that UDUNITS does not know
      c.meaning += ", in " + (c.units == "nat2" ? "nat²" : c.units);
      c.units = "1";
    }
    axes_.emplace_back();
    for (const std::string& name : c.axes()) axes_.back().push_back(dimension(name));
  }
}

std::size_t Schema::index_of(std::string_view column) const {
  const auto it = index_.find(std::string(column));
  if (it == index_.end()) throw std::logic_error(fmt::format("result {}: no column {}", kind_, column));
  return it->second;
}

std::size_t Schema::dimension(std::string_view name) const {
  const auto at = std::ranges::find(dimensions_, name, &DimensionSpec::name);
  if (at == dimensions_.end()) throw std::logic_error(fmt::format("result {}: no dimension {}", kind_, name));
  return static_cast<std::size_t>(at - dimensions_.begin());
}

}  // namespace periscope::dataset
