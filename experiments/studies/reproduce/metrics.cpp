#include "experiments/studies/reproduce/metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "sim/spec/weight.h"
#include "sim/train/spikes.h"

namespace periscope::reproduce {
namespace {

/// Returns the metric ln(of[column] / over[base]), both at the top of the stack.
Metric ratio(const RecordedValues& (*of)(const TrainingResult&), const std::string& column,
             const RecordedValues& (*over)(const TrainingResult&), const std::string& base) {
  return [=](const TrainingResult& run) { return std::log(of(run).at(column).back() / over(run).at(base).back()); };
}

/// Returns the first step of every event that spikes() counts.
std::vector<int> events_of(const TrainingResult& run) {
  // The series end at the first value that is not finite: a divergence, not a spike.
  const auto finite = [](const std::vector<double>& series) {
    return std::span(series.begin(), std::ranges::find_if_not(series, [](double x) { return std::isfinite(x); }));
  };
  return events_of_run(finite(run.history.loss), finite(run.history.grad_norm));
}

}  // namespace

const RecordedValues& first_record(const TrainingResult& run) { return run.history.records.begin()->second; }
const RecordedValues& last_record(const TrainingResult& run) { return run.history.records.rbegin()->second; }

double final_loss(const TrainingResult& run) {
  const double loss = training::mean_of_last_tenth(run.history, run.task.train.steps);
  return std::isfinite(loss) ? loss : std::log(run.task.spec.model.vocab);
}

double final_variance(const TrainingResult& run) { return std::log(last_record(run).at("variance.x_out").back()); }

double spikes(const TrainingResult& run) {
  const double done = static_cast<double>(run.history.loss.size()) / run.task.train.steps;
  return static_cast<double>(events_of(run).size()) / done;
}

std::vector<double> spike_starts(const TrainingResult& run) {
  std::vector<double> starts(run.history.loss.size(), 0.0);
  for (const int step : events_of(run)) starts[static_cast<std::size_t>(step) - 1] = 1.0;
  return starts;
}

double last_layer_gradient(const TrainingResult& run) {
  const std::vector<double>& norms = run.history.last_layer_norm;
  const std::size_t half = norms.size() / 2;
  double sum = 0.0;
  for (std::size_t i = half; i < norms.size(); ++i) sum += std::log(norms[i]);
  return sum / static_cast<double>(norms.size() - half);
}

std::vector<double> layer_gradients(const RecordedValues& record) {
  std::vector<double> sums;
  for (const Weight weight : layer_matrices) {
    const auto it = record.find("grad_sq.weight." + std::string(name_of(weight)));
    if (it == record.end()) continue;
    sums.resize(it->second.size(), 0.0);
    for (std::size_t l = 0; l < sums.size(); ++l) sums[l] += it->second[l];
  }
  return sums;
}

double steps_to_loss(const TrainingResult& run, double target) {
  constexpr std::size_t window = 16;
  const std::vector<double>& loss = run.history.loss;
  double sum = 0.0;
  for (std::size_t i = 0; i < loss.size(); ++i) {
    sum += loss[i];
    if (i >= window) sum -= loss[i - window];
    if (i + 1 >= window && sum <= target * static_cast<double>(window)) return static_cast<double>(i + 1);
  }
  return static_cast<double>(run.task.train.steps) + 1.0;
}

std::vector<double> without_cosine(const RecordedValues& record) {
  const std::vector<double>& q = record.at("second_moment.x_out");
  const std::vector<double>& stream = record.at("growth_stream");
  const std::vector<double>& branch = record.at("growth_branch");
  const std::vector<double>& sum = record.at("growth_sum");
  std::vector<double> eq4{q.front()};
  for (std::size_t l = 0; l < sum.size(); ++l) {
    const double alpha_squared = stream[l] / q[l];
    const double norm_c_factor = q[l + 1] / sum[l];
    eq4.push_back((alpha_squared * eq4.back() + branch[l]) * norm_c_factor);
  }
  return eq4;
}

double cosine_share(const RecordedValues& record) {
  return std::log(record.at("second_moment.x_out").back() / without_cosine(record).back());
}

const std::vector<GrowthPart>& growth_parts() {
  const std::string moment = "second_moment.x_out", scaled = "scaled_second_moment";
  const std::string profiled = "profiled_second_moment", rescaled = "rescaled_second_moment";
  static const Metric from_scales = ratio(last_record, scaled, first_record, moment);
  static const Metric given_directions = ratio(last_record, moment, last_record, rescaled);
  static const std::vector<GrowthPart> all{
      {"growth_from_scales", "sizes alone",
       "ln of scaled_second_moment at the top over the second moment before training: growth that scales explain",
       from_scales},
      {"growth_from_sizes_inside", "+ inside",
       "ln of profiled_second_moment over scaled_second_moment, at the top: growth that sizes inside matrices explain",
       ratio(last_record, profiled, last_record, scaled)},
      {"growth_from_alignment", "+ alignment",
       "ln of the measured second moment over profiled_second_moment: growth that alignment adds", from_alignment},
      {"growth_from_directions", "directions alone",
       "ln of rescaled_second_moment at the top over the second moment before training: growth that the matrices' "
       "directions explain at the sizes before training",
       ratio(last_record, rescaled, first_record, moment)},
      {"growth_from_scales_given_directions", "+ sizes",
       "ln of the measured second moment over rescaled_second_moment: growth that scales and gains add to the trained "
       "directions",
       given_directions},
      {"growth_interaction", "interaction",
       "growth_from_scales_given_directions - growth_from_scales: growth that scales explain only together "
       "with the directions",
       [](const TrainingResult& run) { return given_directions(run) - from_scales(run); }}};
  return all;
}

double from_alignment(const TrainingResult& run) {
  if (!last_record(run).contains("profiled_second_moment")) return std::numeric_limits<double>::quiet_NaN();
  return std::log(last_record(run).at("second_moment.x_out").back() /
                  last_record(run).at("profiled_second_moment").back());
}

}  // namespace periscope::reproduce
