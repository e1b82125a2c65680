#include "experiments/engine/training/regime.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <set>

#include "experiments/engine/run/regime.h"
#include "sim/base/printable.h"

namespace periscope::training {
namespace {

std::string corpus_name(const TrainSpec& train) {
  const std::filesystem::path path(train.corpus);
  return printable((path.has_filename() ? path : path.parent_path()).filename().string());
}

}  // namespace

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
  std::vector<std::string> parts = stacks::regime_of(specs);
  parts.push_back(fmt::format("corpus {}", fmt::join(corpora, ", ")));
  parts.push_back("rate " + stacks::range_of(rates, "{:.3g}"));
  parts.push_back(fmt::format("{} steps of {} sequences", stacks::range_of(steps), stacks::range_of(batches)));
  return parts;
}

}  // namespace periscope::training
