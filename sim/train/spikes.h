#pragma once

#include <span>
#include <vector>

namespace periscope {

/// Spikes of logarithms, in steps from 1: ln x is more than 6 · 1.4826 · MAD above the median of the up to 128 values
/// before it (at least 16); MAD is the median distance from the median, 1.4826 MAD the standard deviation of a normal
/// law. Losses and gradient norms vary by factors: in linear units a stationary lognormal series spikes the more often
/// the wider it is (0.2 to 14 times in 1000 steps at standard deviations of 0.2 to 0.7 in the logarithm), in logarithms
/// equally often. After values of which more than half are equal any rise is a spike, as is a value that is not finite.
/// Values of 0 or below are ignored.
[[nodiscard]] std::vector<int> robust_spikes(std::span<const double> series);

/// The first steps of the events of spiking steps, in any order: steps at most 16 apart are one event.
[[nodiscard]] std::vector<int> spike_events(std::vector<int> steps);

/// The first steps of the events in which loss or gradient norm spike (robust_spikes).
[[nodiscard]] std::vector<int> events_of_run(std::span<const double> loss, std::span<const double> grad_norm);

/// A value of a series over the median of those before it.
struct Jump {
  int step = 0;  ///< 1, 2, …; 0 if no value is above its median, and the factor is 1
  double factor = 1.0;
};
/// The largest ratio of a value to the median of the up to 16 positive, finite ones before it (at least 4). It sees
/// what robust_spikes may miss in the first steps, where a gradient norm may fall tenfold.
[[nodiscard]] Jump largest_jump(std::span<const double> series);

}  // namespace periscope
