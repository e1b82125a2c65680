#include "sim/train/spikes.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace periscope {
namespace {

double median(std::vector<double> values) {
  const std::size_t middle = values.size() / 2;
  std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(middle));
  const double upper = values[middle];
  if (values.size() % 2 == 1) return upper;
  return 0.5 * (upper + *std::max_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(middle)));
}

}  // namespace

std::vector<int> robust_spikes(std::span<const double> series) {
  constexpr std::size_t window = 128;
  constexpr std::size_t min_count = 16;
  constexpr double deviations = 6.0;
  constexpr double normal_over_mad = 1.4826;
  std::vector<double> logs;
  for (const double x : series) logs.push_back(x > 0.0 ? std::log(x) : std::numeric_limits<double>::quiet_NaN());
  std::vector<int> steps;
  for (std::size_t i = 0; i < series.size(); ++i) {
    if (!std::isfinite(series[i])) {
      steps.push_back(static_cast<int>(i) + 1);
      continue;
    }
    const std::size_t count = std::min(window, i);
    std::vector<double> before;
    for (std::size_t j = i - count; j < i; ++j) {
      if (std::isfinite(logs[j])) before.push_back(logs[j]);
    }
    if (before.size() < min_count) continue;
    const double middle = median(before);
    for (double& x : before) x = std::abs(x - middle);
    if (logs[i] > middle + deviations * normal_over_mad * median(before)) steps.push_back(static_cast<int>(i) + 1);
  }
  return steps;
}

Jump largest_jump(std::span<const double> series) {
  constexpr std::size_t max_count = 16;
  constexpr std::size_t min_count = 4;
  Jump largest;
  std::vector<double> before;
  for (std::size_t i = 0; i < series.size(); ++i) {
    if (!std::isfinite(series[i]) || !(series[i] > 0.0)) continue;
    if (before.size() >= min_count) {
      const std::size_t count = std::min(max_count, before.size());
      const double factor = series[i] / median({before.end() - static_cast<std::ptrdiff_t>(count), before.end()});
      if (factor > largest.factor) largest = {static_cast<int>(i) + 1, factor};
    }
    before.push_back(series[i]);
  }
  return largest;
}

std::vector<int> spike_events(std::vector<int> steps) {
  constexpr int max_gap = 16;
  std::ranges::sort(steps);
  std::vector<int> events;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (i == 0 || steps[i] - steps[i - 1] > max_gap) events.push_back(steps[i]);
  }
  return events;
}

std::vector<int> events_of_run(std::span<const double> loss, std::span<const double> grad_norm) {
  std::vector<int> steps = robust_spikes(loss);
  std::ranges::copy(robust_spikes(grad_norm), std::back_inserter(steps));
  return spike_events(std::move(steps));
}

}  // namespace periscope
