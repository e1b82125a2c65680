#pragma once

#include <span>
#include <vector>

namespace periscope {

/// The steps 1, 2, … at which a series spikes as OLMo-core defines it: the value is more than 6 standard deviations
/// (population) above the mean of the 128 before it. The first 128 steps have none, nor has a step behind 128 equal
/// ones (a spread below 1e-10), and after a spike the next 128 steps are held against a spread that contains it.
[[nodiscard]] std::vector<int> olmo_spikes(std::span<const double> series);

/// The same against medians, which spikes hardly move: the value is more than 6 · 1.4826 · MAD above the median of the
/// up to 128 before it, of which there must be 16; MAD is the median distance from the median, 1.4826 of it the
/// standard deviation of a normal law. Behind values of which more than half are equal any rise is a spike, as is a
/// value that is not finite.
[[nodiscard]] std::vector<int> robust_spikes(std::span<const double> series);

}  // namespace periscope
