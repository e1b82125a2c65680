#include "experiments/studies/reproduce/readings.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "sim/measure/running_moments.h"

namespace periscope::reproduce {
namespace {

constexpr double missing = std::numeric_limits<double>::quiet_NaN();

/// Over the seeds that have the record.
Curve average(const std::vector<Values>& curves, bool geometric) {
  Curve result;
  for (std::size_t i = 0; i < curves.front().size(); ++i) {
    RunningMoments moments;
    for (const Values& curve : curves) {
      if (i < curve.size()) moments.add(geometric ? std::log(curve[i]) : curve[i]);
    }
    result.value.push_back(geometric ? std::exp(moments.mean()) : moments.mean());
    result.standard_error.push_back(moments.standard_error());
  }
  return result;
}

}  // namespace

const std::vector<Averaged>& averaged() {
  const auto recorded = [](std::string name) {
    return [name = std::move(name)](const RecordedValues& record) {
      const auto it = record.find(name);
      return it == record.end() ? Values() : it->second;
    };
  };
  static const std::vector<Averaged> all{
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
  return all;
}

std::vector<int> recorded_steps(const TrainSpec& train) {
  std::vector<int> steps;
  for (int step = 0; step <= train.steps; ++step) {
    if (is_recorded(train, step)) steps.push_back(step);
  }
  return steps;
}

std::optional<Curve> average_of(const Averaged& curve, const GroupRuns& runs) {
  const std::vector<int> steps = recorded_steps(runs.cells.front().cell.train);
  std::vector<Curve> by_record(steps.size());
  std::size_t length = 0;
  for (std::size_t r = 0; r < steps.size(); ++r) {
    std::vector<Values> curves;
    for (const training::TrainedCell& cell : runs.cells) {
      const auto it = cell.history.records.find(steps[r]);
      if (it == cell.history.records.end()) continue;  // it had diverged
      Values values = curve.values(it->second);
      if (!values.empty()) curves.push_back(std::move(values));
    }
    if (!curves.empty()) by_record[r] = average(curves, curve.geometric);
    length = std::max(length, by_record[r].value.size());
  }
  if (length == 0) return std::nullopt;
  Curve all;
  for (Curve& one : by_record) {
    one.value.resize(length, missing);
    one.standard_error.resize(length, missing);
    all.value.insert(all.value.end(), one.value.begin(), one.value.end());
    all.standard_error.insert(all.standard_error.end(), one.standard_error.begin(), one.standard_error.end());
  }
  return all;
}

std::optional<Curve> predicted_layer_gradients(const theory::Prediction& prediction) {
  Curve all;
  for (const Weight weight : layer_matrices) {
    const Curve* curve = prediction.profile.find(Statistic::grad_sq, weight);
    if (curve == nullptr) continue;
    all.value.resize(curve->value.size(), 0.0);
    all.standard_error.resize(curve->value.size(), 0.0);
    for (std::size_t l = 0; l < all.value.size(); ++l) {
      all.value[l] += curve->value[l];
      all.standard_error[l] += curve->standard_error[l];
    }
  }
  if (all.value.empty()) return std::nullopt;
  return all;
}

}  // namespace periscope::reproduce
