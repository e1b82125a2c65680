#include "experiments/engine/run/regime.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "sim/spec/weight.h"

namespace periscope::stacks {

std::string range_of(const std::vector<double>& values, const char* format) {
  const auto text = [&](double value) { return fmt::format(fmt::runtime(format), value); };
  const std::string least = text(std::ranges::min(values)), most = text(std::ranges::max(values));
  return least == most ? least : least + " to " + most;
}

std::vector<std::string> regime_of(const std::vector<StackSpec>& stacks) {
  std::vector<double> sizes, layers, widths, tokens;
  for (const StackSpec& spec : stacks) {
    sizes.push_back(stddev_of(spec, 0, Weight::v) * std::sqrt(static_cast<double>(spec.model.width)));
    layers.push_back(spec.model.layers);
    widths.push_back(spec.model.width);
    tokens.push_back(spec.input.tokens);
  }
  return {"σ√D " + range_of(sizes, "{:.2g}"), range_of(layers) + " layers", "width " + range_of(widths),
          range_of(tokens) + " tokens"};
}

std::string in_one_line(const std::vector<std::string>& regime) { return fmt::format("{}", fmt::join(regime, ", ")); }

}  // namespace periscope::stacks
