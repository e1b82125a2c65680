#include "experiments/engine/training/run_task.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "sim/measure/attention_entropy_probe.h"
#include "sim/measure/model_reading.h"
#include "sim/measure/signal_peaks.h"

namespace periscope::training {
namespace {

constexpr double missing = std::numeric_limits<double>::quiet_NaN();

void add_curves(const Profile& profile, RecordedValues& values) {
  for (const auto& [key, curve] : profile.curves) {
    const char* const kind = std::holds_alternative<Weight>(key.second) ? "weight." : "";
    values[fmt::format("{}.{}{}", name_of(key.first), kind, name_of(key.second))] = curve.value;
  }
  values["angular_distance"] = profile.angular_distance;
}

void add_growth(const std::vector<Growth>& growth, RecordedValues& values) {
  for (const Growth& g : growth) {
    values["growth_stream"].push_back(g.stream);
    values["growth_branch"].push_back(g.branch);
    values["growth_cross"].push_back(g.cross);
    values["growth_sum"].push_back(g.sum);
    values["growth_residual"].push_back(g.residual);
  }
}

/// Adds the largest |x| of every sublayer and the largest entries of the stream, descending. NaN counts as infinite.
void add_extremes(const ModelReading& reading, RecordedValues& values) {
  values["largest"] = largest_by_sublayer(reading);
  struct StreamEntry {
    double magnitude;
    std::size_t depth;
  };
  std::vector<StreamEntry> all;
  for (std::size_t depth = 0; depth < reading.extremes.depths.size(); ++depth) {
    for (const Entry& entry : reading.extremes.depths[depth].top) {
      const double infinite = std::numeric_limits<double>::infinity();
      all.push_back({std::isnan(entry.value) ? infinite : std::abs(entry.value), depth});
    }
  }
  std::ranges::stable_sort(all, std::greater{}, &StreamEntry::magnitude);
  all.resize(std::min<std::size_t>(all.size(), top_count));
  for (const StreamEntry& entry : all) {
    values["top_magnitudes"].push_back(entry.magnitude);
    values["top_depths"].push_back(static_cast<double>(entry.depth));
  }
}

void add_parameters(const Backend& ops, const ResidentWeights& weights, const ModelSpec& model,
                    RecordedValues& values) {
  const auto put = [&](const std::string& name, int length, int index, double value) {
    std::vector<double>& all = values[name];
    all.resize(static_cast<std::size_t>(length), missing);
    all[static_cast<std::size_t>(index)] = value;
  };
  const auto mean = [](const std::vector<double>& x) {
    return std::accumulate(x.begin(), x.end(), 0.0) / static_cast<double>(x.size());
  };
  for (const auto& [id, x] : weights.parameters()) {
    const bool of_sublayer = id.weight == Weight::norm_a || id.weight == Weight::norm_b || id.weight == Weight::norm_c;
    const bool is_matrix = id.part == ParameterId::Part::matrix && is_layer_matrix(id.weight);
    if (!is_matrix && !(id.part == ParameterId::Part::gain && of_sublayer)) continue;
    const std::string_view name = name_of(id.weight);
    const RowMoments rows = ops.row_moments(x);
    const double root_mean_square = std::sqrt(mean(rows[Statistic::second_moment]));
    if (is_matrix) {
      put(fmt::format("root_mean_square.weight.{}", name), model.layers, id.layer(), root_mean_square);
    } else {
      put(fmt::format("gain_mean.{}", name), model.sublayers(), id.sublayer, mean(rows[Statistic::mean]));
      put(fmt::format("gain_rms.{}", name), model.sublayers(), id.sublayer, root_mean_square);
    }
  }
}

}  // namespace

Recorder::Recorder(const Backend& ops, StackSpec spec, const TrainSpec& train, const Corpus& corpus)
    : ops_(ops), spec_(std::move(spec)), windows_(held_out(corpus, spec_.input.tokens + 1, train.record_sequences)) {}

RecordedValues Recorder::record(const ResidentWeights& weights) const {
  const StackContext context{.ops = ops_, .model = spec_.model, .weights = weights, .sequences = windows_.count()};
  AttentionEntropyProbe entropy(context);
  ModelPass pass{.ids = windows_.inputs(0, windows_.count()),
                 .labels = windows_.labels(0, windows_.count()),
                 .backward = true,
                 .top = top_count,
                 .hooks = {.recorders = {&entropy}}};
  const ModelReading reading = read_model(context, pass);
  RecordedValues values;
  values["validation_loss"] = {reading.loss};
  values["attention_entropy"] = entropy.entropies();
  add_curves(reading.reading.profile, values);
  add_growth(reading.growth, values);
  add_extremes(reading, values);
  add_parameters(ops_, weights, spec_.model, values);
  return values;
}

}  // namespace periscope::training
