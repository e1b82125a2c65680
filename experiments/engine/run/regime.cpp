#include "experiments/engine/run/regime.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include "experiments/engine/result/text_table.h"
#include "sim/base/mapped.h"
#include "sim/base/printable.h"
#include "sim/spec/weight.h"

namespace periscope::stacks {

std::string range_of(const std::vector<double>& values, const char* format) {
  const auto text = [&](double value) { return fmt::format(fmt::runtime(format), value); };
  const std::string least = text(std::ranges::min(values)), most = text(std::ranges::max(values));
  return least == most ? least : least + " to " + most;
}

std::vector<std::string> regime_of(const std::vector<StackSpec>& stacks, const std::vector<TrainSpec>& trained) {
  const auto range = [](const auto& all, const auto& value, const char* format = "{:g}") {
    return range_of(mapped(all, [&](const auto& spec) -> double { return value(spec); }), format);
  };
  const auto size = [](const StackSpec& s) {
    return stddev_of(s, 0, Weight::v) * std::sqrt(static_cast<double>(s.model.width));
  };
  using dataset::counted;
  std::vector<std::string> parts{"σ√D " + range(stacks, size, "{:.2g}"),
                                 counted(range(stacks, [](const StackSpec& s) { return s.model.layers; }), "layer"),
                                 "width " + range(stacks, [](const StackSpec& s) { return s.model.width; }),
                                 counted(range(stacks, [](const StackSpec& s) { return s.input.tokens; }), "token")};
  if (trained.empty()) return parts;
  std::set<std::string> corpora;
  for (const TrainSpec& train : trained) {
    const std::filesystem::path path(train.corpus);
    corpora.insert(printable((path.has_filename() ? path : path.parent_path()).filename().string()));
  }
  parts.push_back(fmt::format("corpus {}", fmt::join(corpora, ", ")));
  parts.push_back("rate " + range(
                                trained, [](const TrainSpec& t) { return t.lr; }, "{:.3g}"));
  parts.push_back(fmt::format("{} of {}", counted(range(trained, [](const TrainSpec& t) { return t.steps; }), "step"),
                              counted(range(trained, [](const TrainSpec& t) { return t.batch; }), "sequence")));
  return parts;
}

std::string in_one_line(const std::vector<std::string>& regime) { return fmt::format("{}", fmt::join(regime, ", ")); }

}  // namespace periscope::stacks
