#include "experiments/engine/result/place.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace periscope::dataset {

using Kind = Place::Step::Kind;

Place Place::with(Step step) const {
  Place longer = *this;
  longer.steps_.push_back(std::move(step));
  return longer;
}

Place Place::operator/(std::string_view key) const { return with({.kind = Kind::key, .names = {std::string(key)}}); }

Place Place::each(std::vector<std::string> dimensions) const {
  return with({.kind = Kind::each, .names = std::move(dimensions)});
}

Place Place::by(std::string_view dimension) const {
  return with({.kind = Kind::by, .names = {std::string(dimension)}});
}

bool Place::fixes(std::string_view dimension) const {
  return std::ranges::any_of(steps_, [&](const Step& step) {
    return step.kind != Kind::key && std::ranges::find(step.names, dimension) != step.names.end();
  });
}

std::string Place::text() const {
  std::string text;
  for (const Step& step : steps_) {
    if (step.kind == Kind::each) {
      text += fmt::format("[{}]", fmt::join(step.names, ", "));
      continue;
    }
    if (!text.empty()) text += '.';
    text += step.kind == Kind::key ? step.names.front() : fmt::format("<{}>", step.names.front());
  }
  return text;
}

}  // namespace periscope::dataset
