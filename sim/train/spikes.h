#pragma once

#include <span>
#include <vector>

namespace periscope {

/// The steps 1, 2, … at which a series spikes as OLMo-core defines it: the value is more than 6 standard deviations
/// (population) above the mean of the 128 before it. The first 128 steps have none, nor has a step behind 128 equal
/// ones (a spread below 1e-10), and after a spike the next 128 steps are held against a spread that contains it.
[[nodiscard]] std::vector<int> olmo_spikes(std::span<const double> series);

/// Returns spikes of logarithms against medians, which spikes hardly move: ln x is more than 6 · 1.4826 · MAD above the
/// median of the up to 128 before it, of which there must be 16; MAD is the median distance from the median, 1.4826 of
/// it the standard deviation of a normal law. Losses and gradient norms scatter by factors, so that in linear units the
/// tail of a lognormal series that does nothing spikes the more often the wider it is (0.2 to 14 times in 1000 steps at
/// standard deviations of 0.2 to 0.7 in the logarithm); its logarithms spike as often at every width. Behind values of
/// which more than half are equal any rise is a spike, as is a value that is not finite. Values of 0 or below have no
/// logarithm: they are no spikes and do not count for others.
[[nodiscard]] std::vector<int> robust_spikes(std::span<const double> series);

/// The first steps of the events that spiking steps, in any order, belong to: a step that is at most 16 behind another
/// one is of the same event.
[[nodiscard]] std::vector<int> spike_events(std::vector<int> steps);

/// The first steps of the events of a run: those in which its loss or its gradient norm, or both, spike
/// (robust_spikes).
[[nodiscard]] std::vector<int> events_of_run(std::span<const double> loss, std::span<const double> grad_norm);

/// A value of a series over the median of those before it.
struct Jump {
  int step = 0;  ///< 1, 2, …; 0 if no value is above its median, and the factor is 1
  double factor = 1.0;
};
/// Returns the largest jump: the value that is most times the median of the up to 16 positive, finite ones before it,
/// of which there must be 4. It sees what robust_spikes may miss: in the first steps, in which a gradient norm may fall
/// tenfold, the spread about the median is as wide as a jump of 15 times.
[[nodiscard]] Jump largest_jump(std::span<const double> series);

}  // namespace periscope
