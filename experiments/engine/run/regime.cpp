#include "experiments/engine/run/regime.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include "sim/base/printable.h"
#include "sim/spec/weight.h"

namespace periscope::stacks {
namespace {

/// "8", or "8 to 32" if values differ; `format` is that of one value.
std::string range_of(const std::vector<double>& values, const char* format = "{:g}") {
  const auto text = [&](double value) { return fmt::format(fmt::runtime(format), value); };
  const std::string least = text(std::ranges::min(values)), most = text(std::ranges::max(values));
  return least == most ? least : least + " to " + most;
}

std::string corpus_name(const TrainSpec& train) {
  const std::filesystem::path path(train.corpus);
  return printable((path.has_filename() ? path : path.parent_path()).filename().string());
}

}  // namespace

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

std::vector<std::string> regime_of(const std::vector<Trained>& runs) {
  std::vector<StackSpec> specs;
  std::vector<double> rates, steps, batches;
  std::set<std::string> corpora;
  for (const Trained& run : runs) {
    const TrainSpec& train = run.train;
    specs.push_back(run.spec);
    rates.push_back(train.lr);
    steps.push_back(train.steps);
    batches.push_back(train.batch);
    corpora.insert(corpus_name(train));
  }
  std::vector<std::string> parts = regime_of(specs);
  parts.push_back(fmt::format("corpus {}", fmt::join(corpora, ", ")));
  parts.push_back("rate " + range_of(rates, "{:.3g}"));
  parts.push_back(fmt::format("{} steps of {} sequences", range_of(steps), range_of(batches)));
  return parts;
}

std::string in_one_line(const std::vector<std::string>& regime) { return fmt::format("{}", fmt::join(regime, ", ")); }

}  // namespace periscope::stacks
