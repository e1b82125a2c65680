#pragma once

#include <span>
#include <vector>

namespace periscope {

/// Returns the steps (from 1) at which a series spikes: ln x exceeds its median over the up to 128 previous values
/// (at least 16) by more than 6 · 1.4826 · MAD. MAD is the median absolute deviation; 1.4826 MAD estimates the standard
/// deviation of a normal distribution. Logarithms are used because losses and gradient norms vary by factors. In linear
/// units a stationary lognormal series spikes more often the wider it is: 0.2 to 14 times in 1000 steps at log standard
/// deviations of 0.2 to 0.7. In logarithms the rate is constant. If over half of the previous values are equal, any
/// rise is a spike. A value that is not finite is a spike. Values ≤ 0 are ignored.
[[nodiscard]] std::vector<int> robust_spikes(std::span<const double> series);

/// Returns the first step of every event. Spikes at most 16 steps apart belong to one event. `steps` may be unsorted.
[[nodiscard]] std::vector<int> spike_events(std::vector<int> steps);

/// Returns the first steps of the events in which the loss or the gradient norm spikes (robust_spikes).
[[nodiscard]] std::vector<int> events_of_run(std::span<const double> loss, std::span<const double> grad_norm);

/// Ratio of a value of a series to the median of previous values.
struct Jump {
  int step = 0;  ///< step of the jump, from 1; 0 (and factor 1) if no value exceeds the median before it
  double factor = 1.0;
};
/// Returns the largest ratio of a value to the median of the up to 16 positive, finite values before it (at least 4).
/// Detects jumps in the first steps, which robust_spikes may miss because gradient norms may fall tenfold there.
[[nodiscard]] Jump largest_jump(std::span<const double> series);

}  // namespace periscope
