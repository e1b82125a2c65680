#include "experiments/studies/reproduce/readings.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <span>

#include "sim/spec/weight.h"
#include "sim/train/spikes.h"

namespace periscope::reproduce {
namespace {

const training::RecordedValues& first_record(const TrainedCell& run) { return run.history.records.begin()->second; }
const training::RecordedValues& last_record(const TrainedCell& run) { return run.history.records.rbegin()->second; }

}  // namespace

const std::vector<double>& at_start(const TrainedCell& run, const std::string& name) {
  return first_record(run).at(name);
}

const std::vector<double>& at_end(const TrainedCell& run, const std::string& name) { return last_record(run).at(name); }

double final_loss(const TrainedCell& run) {
  const double loss = training::mean_of_last_tenth(run.history, run.cell.train.steps);
  return std::isfinite(loss) ? loss : std::log(run.cell.spec.model.vocab);
}

double final_variance(const TrainedCell& run) { return std::log(at_end(run, "variance.x_out").back()); }

double variance_surge(const TrainedCell& run) {
  return final_variance(run) - std::log(at_start(run, "variance.x_out").back());
}

double largest_activation(const TrainedCell& run) { return std::log(at_end(run, "top_magnitudes").front()); }

double mean_distance_of_neighbours(const std::vector<double>& angular_distance) {
  const auto depths = static_cast<std::size_t>(std::lround(std::sqrt(static_cast<double>(angular_distance.size()))));
  double sum = 0.0;
  for (std::size_t i = 0; i + 1 < depths; ++i) sum += angular_distance[i * depths + i + 1];
  return sum / static_cast<double>(depths - 1);
}

double main_path_share(const TrainedCell& run) {
  const std::vector<double>& kept = at_end(run, "growth_stream");
  const std::vector<double>& sum = at_end(run, "growth_sum");
  const std::size_t half = kept.size() / 2;
  double share = 0.0;
  for (std::size_t l = half; l < kept.size(); ++l) share += kept[l] / sum[l];
  return share / static_cast<double>(kept.size() - half);
}

namespace {

std::vector<int> events_of(const TrainedCell& run) {
  // A number that is not finite ends a run: that is its divergence, which is told elsewhere.
  const auto finite = [](const std::vector<double>& series) {
    return std::span(series.begin(), std::ranges::find_if_not(series, [](double x) { return std::isfinite(x); }));
  };
  return events_of_run(finite(run.history.loss), finite(run.history.grad_norm));
}

}  // namespace

double spikes(const TrainedCell& run) {
  const double done = static_cast<double>(run.history.loss.size()) / run.cell.train.steps;
  return static_cast<double>(events_of(run).size()) / done;
}

std::vector<double> spike_starts(const TrainedCell& run) {
  std::vector<double> starts(run.history.loss.size(), 0.0);
  for (const int step : events_of(run)) starts[static_cast<std::size_t>(step) - 1] = 1.0;
  return starts;
}

double last_layer_gradient(const TrainedCell& run) {
  const std::vector<double>& norms = run.history.last_layer_norm;
  const std::size_t half = norms.size() / 2;
  double sum = 0.0;
  for (std::size_t i = half; i < norms.size(); ++i) sum += std::log(norms[i]);
  return sum / static_cast<double>(norms.size() - half);
}

std::vector<double> layer_gradients(const training::RecordedValues& record) {
  std::vector<double> sums;
  for (const Weight weight : layer_matrices) {
    const auto it = record.find("grad_sq.weight." + std::string(name_of(weight)));
    if (it == record.end()) continue;
    sums.resize(it->second.size(), 0.0);
    for (std::size_t l = 0; l < sums.size(); ++l) sums[l] += it->second[l];
  }
  return sums;
}

double slope(const std::vector<double>& values) {
  double count = 0.0, x_sum = 0.0, y_sum = 0.0, xx = 0.0, xy = 0.0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(values[i])) continue;
    const auto x = static_cast<double>(i);
    count += 1.0;
    x_sum += x;
    y_sum += values[i];
    xx += x * x;
    xy += x * values[i];
  }
  return (xy - x_sum * y_sum / count) / (xx - x_sum * x_sum / count);
}

double slope_over_layers(const std::vector<double>& positive) {
  std::vector<double> logs;
  for (const double v : positive) logs.push_back(std::log(v));
  return slope(logs) * static_cast<double>(positive.size());
}

double steps_to_loss(const TrainedCell& run, double target) {
  constexpr std::size_t window = 16;
  const std::vector<double>& loss = run.history.loss;
  double sum = 0.0;
  for (std::size_t i = 0; i < loss.size(); ++i) {
    sum += loss[i];
    if (i >= window) sum -= loss[i - window];
    if (i + 1 >= window && sum <= target * static_cast<double>(window)) return static_cast<double>(i + 1);
  }
  return static_cast<double>(run.cell.train.steps) + 1.0;
}

std::vector<double> without_cosine(const training::RecordedValues& record) {
  const std::vector<double>& q = record.at("second_moment.x_out");
  const std::vector<double>& stream = record.at("growth_stream");
  const std::vector<double>& branch = record.at("growth_branch");
  const std::vector<double>& sum = record.at("growth_sum");
  std::vector<double> eq4{q.front()};
  for (std::size_t l = 0; l < sum.size(); ++l) {
    const double kept = stream[l] / q[l];     // α²
    const double scaled = q[l + 1] / sum[l];  // by norm C
    eq4.push_back((kept * eq4.back() + branch[l]) * scaled);
  }
  return eq4;
}

double from_scales(const TrainedCell& run) {
  return std::log(at_end(run, "scaled_second_moment").back() / at_start(run, "second_moment.x_out").back());
}

double from_sizes_inside(const TrainedCell& run) {
  return std::log(at_end(run, "profiled_second_moment").back() / at_end(run, "scaled_second_moment").back());
}

double from_alignment(const TrainedCell& run) {
  return std::log(at_end(run, "second_moment.x_out").back() / at_end(run, "profiled_second_moment").back());
}

double from_directions(const TrainedCell& run) {
  return std::log(at_end(run, "rescaled_second_moment").back() / at_start(run, "second_moment.x_out").back());
}

double from_scales_given_directions(const TrainedCell& run) {
  return std::log(at_end(run, "second_moment.x_out").back() / at_end(run, "rescaled_second_moment").back());
}

double growth_interaction(const TrainedCell& run) { return from_scales_given_directions(run) - from_scales(run); }

double beyond_signs(const TrainedCell& run) {
  return std::log(at_end(run, "second_moment.x_out").back()) - at_end(run, "signs_log_moment").back();
}

double cosine_share(const training::RecordedValues& record) {
  return std::log(record.at("second_moment.x_out").back() / without_cosine(record).back());
}

}  // namespace periscope::reproduce
