#include <cmath>

#include "experiments/engine/judge/seed_rows.h"
#include "experiments/studies/reproduce/readings.h"

namespace periscope::reproduce {
namespace {

/// The record of one step, of every seed that has it: a run that diverged lacks the later ones.
using SeedRecords = std::vector<const RecordedValues*>;

/// A curve of records, averaged over seeds.
struct Averaged {
  std::string name, dimension, units, meaning;
  bool geometric;  ///< mean of logarithms, whose standard error is then given
  std::function<Values(const RecordedValues&)> read;
};

std::vector<Averaged> averaged() {
  const auto recorded = [](std::string name) {
    return [name = std::move(name)](const RecordedValues& record) {
      const auto it = record.find(name);
      return it == record.end() ? Values() : it->second;
    };
  };
  return {
      {"variance", "depth", "1", "variance over features of the stream", true, recorded("variance.x_out")},
      {"second_moment", "depth", "1", "mean square of the stream", true, recorded("second_moment.x_out")},
      {"eq4", "depth", "1", "the same by Eq. 4: T15 without its cosine term", true, without_cosine},
      {"layer_gradient", "layer", "nat2", "squared gradient of all matrices of a layer", true, layer_gradients},
      {"growth_branch", "sublayer", "1", "T15: beta^2 s^2", true, recorded("growth_branch")},
      {"growth_cross", "sublayer", "1", "T15: 2 alpha beta sqrt(q) s cos(x, branch)", false, recorded("growth_cross")},
      {"gain_b", "sublayer", "1", "mean over features of the output norm's gain", false, recorded("gain_mean.norm_b")},
      {"attention_entropy", "layer", "nat", "entropy of attention", false, recorded("attention_entropy")},
      {"angular_distance", "depth other_depth", "1",
       "arccos(cos)/pi between the stream at two depths, over at most 32 tokens", false, recorded("angular_distance")}};
}

std::optional<Curve> average_of(const Averaged& curve, const SeedRecords& records) {
  judge::SeedRows rows;
  for (const RecordedValues* record : records) {
    Values values = curve.read(*record);
    if (values.empty()) continue;
    for (double& value : values) value = curve.geometric ? std::log(value) : value;
    rows.add(std::move(values));
  }
  if (rows.seeds() == 0) return std::nullopt;
  Curve mean = rows.curve();
  for (double& value : mean.value) value = curve.geometric ? std::exp(value) : value;
  return mean;
}

}  // namespace

std::vector<int> recorded_steps(const TrainSpec& train) {
  std::vector<int> steps;
  for (int step = 0; step <= train.steps; ++step) {
    if (is_recorded(train, step)) steps.push_back(step);
  }
  return steps;
}

dataset::Table<GroupRuns> averages_table() {
  dataset::Table<SeedRecords> records;
  for (const Averaged& a : averaged()) {
    const std::string on = "group record " + a.dimension;
    records.curve(
        {a.name + "_measured", on, a.units, a.meaning + (a.geometric ? ": geometric mean" : ": mean") + " over seeds"},
        {a.name + "_stderr", on, a.geometric ? "1" : a.units,
         a.geometric ? "standard error of the mean logarithm" : "standard error of the mean"},
        [a](const SeedRecords& seeds) { return average_of(a, seeds); });
  }
  dataset::Table<GroupRuns> table;
  table.rows("record", records, [](const GroupRuns& runs) {
    std::vector<SeedRecords> all;
    for (const int step : recorded_steps(runs.cells.front().cell.train)) {
      SeedRecords& seeds = all.emplace_back();
      for (const TrainedCell& cell : runs.cells) {
        const auto it = cell.history.records.find(step);
        if (it != cell.history.records.end()) seeds.push_back(&it->second);
      }
    }
    return all;
  });
  return table;
}

}  // namespace periscope::reproduce
