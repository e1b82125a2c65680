#include "experiments/studies/reproduce/averages.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "experiments/studies/reproduce/readings.h"
#include "sim/measure/running_moments.h"

namespace periscope::reproduce {
namespace {

using training::RecordedValues;

constexpr double missing = std::numeric_limits<double>::quiet_NaN();

/// Over the seeds that have the record.
MeanCurve average(const std::vector<Values>& curves, bool geometric) {
  MeanCurve result;
  for (std::size_t i = 0; i < curves.front().size(); ++i) {
    RunningMoments moments;
    for (const Values& curve : curves) {
      if (i < curve.size()) moments.add(geometric ? std::log(curve[i]) : curve[i]);
    }
    result.mean.push_back(geometric ? std::exp(moments.mean()) : moments.mean());
    result.error.push_back(moments.standard_error());
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

std::optional<MeanCurve> average_of(const Averaged& curve, const GroupRuns& runs, const std::vector<int>& steps) {
  std::vector<MeanCurve> by_record(steps.size());
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
    length = std::max(length, by_record[r].mean.size());
  }
  if (length == 0) return std::nullopt;
  MeanCurve all;
  for (MeanCurve& one : by_record) {
    one.mean.resize(length, missing);
    one.error.resize(length, missing);
    all.mean.insert(all.mean.end(), one.mean.begin(), one.mean.end());
    all.error.insert(all.error.end(), one.error.begin(), one.error.end());
  }
  return all;
}

MeanCurve mean_final_loss(const GroupRuns& runs) {
  Values losses;
  for (const training::TrainedCell& cell : runs.cells) losses.push_back(final_loss(cell));
  RunningMoments moments;
  for (const double loss : losses) moments.add(loss);
  return {{moments.mean()}, {moments.standard_error()}};
}

std::optional<MeanCurve> predicted_layer_gradients(const theory::Prediction& prediction) {
  MeanCurve all;
  for (const Weight weight : layer_matrices) {
    const Curve* curve = prediction.profile.find(Statistic::grad_sq, weight);
    if (curve == nullptr) continue;
    all.mean.resize(curve->value.size(), 0.0);
    all.error.resize(curve->value.size(), 0.0);
    for (std::size_t l = 0; l < all.mean.size(); ++l) {
      all.mean[l] += curve->value[l];
      all.error[l] += curve->standard_error[l];
    }
  }
  if (all.mean.empty()) return std::nullopt;
  return all;
}

}  // namespace periscope::reproduce
