#include "sim/measure/signal_peaks.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace periscope {

std::size_t sublayer_before(const ModelReading& reading, std::size_t depth) {
  return depth == 0 ? 0 : depth * reading.growth.size() / (reading.extremes.depths.size() - 1) - 1;
}

std::vector<double> by_sublayer(const ModelReading& reading, const std::vector<double>& by_depth) {
  std::vector<double> all(reading.growth.size(), std::numeric_limits<double>::quiet_NaN());
  for (std::size_t depth = 1; depth < by_depth.size(); ++depth) all[sublayer_before(reading, depth)] = by_depth[depth];
  return all;
}

std::vector<SignalPeaks> signal_peaks(const ModelReading& reading) {
  std::vector<SignalPeaks> all;
  const auto add_signal = [&](Signal signal) {
    const Curve* curve = reading.reading.profile.find(Statistic::maximum, signal);
    if (curve != nullptr) all.push_back({signal, curve->value});
  };
  add_signal(Signal::x_in);
  add_signal(Signal::A_out);
  for (const auto& [place, values] : reading.extremes.inside) all.push_back({place, values});
  for (const Signal signal : {Signal::f_out, Signal::B_out}) add_signal(signal);
  if (const Curve* sum = reading.reading.profile.find(Statistic::maximum, Signal::sum)) {
    all.push_back({Signal::sum, by_sublayer(reading, sum->value)});
  }
  for (const Signal signal : {Signal::x_out, Signal::r_out}) add_signal(signal);
  return all;
}

// NaN inside a module is recorded as infinite (top_magnitudes). A stream signal with a NaN has a NaN maximum, but its
// cause inside a module is recorded as infinite, so the margin is 0 in both cases.
Margin smallest_margin(const std::vector<SignalPeaks>& peaks, double largest) {
  Margin smallest{.value = std::numeric_limits<double>::infinity(), .signal = {}, .index = 0};
  for (const SignalPeaks& signal : peaks) {
    for (std::size_t i = 0; i < signal.values.size(); ++i) {
      const double margin = largest / signal.values[i];
      if (margin < smallest.value) smallest = {margin, std::string(name_of(signal.signal)), static_cast<int>(i)};
    }
  }
  return smallest;
}

std::vector<double> largest_by_sublayer(const ModelReading& reading) {
  std::vector<double> largest(reading.growth.size(), 0.0);
  const auto raise = [&](std::size_t sublayer, double value) {
    largest[sublayer] = std::max(largest[sublayer], value);
  };
  for (const SignalPeaks& peaks : signal_peaks(reading)) {
    for (std::size_t i = 0; i < peaks.values.size(); ++i) {
      const std::size_t sublayer = runs_over_depth(peaks.signal) ? sublayer_before(reading, i) : i;
      if (!std::isnan(peaks.values[i])) raise(sublayer, peaks.values[i]);
    }
  }
  for (std::size_t depth = 0; depth < reading.extremes.depths.size(); ++depth) {
    for (const Entry& entry : reading.extremes.depths[depth].top) {
      if (std::isnan(entry.value)) raise(sublayer_before(reading, depth), std::numeric_limits<double>::infinity());
    }
  }
  return largest;
}

}  // namespace periscope
