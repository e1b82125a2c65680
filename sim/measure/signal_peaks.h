#pragma once

#include <string>
#include <vector>

#include "sim/measure/model_reading.h"

namespace periscope {

/// The largest |x| of a signal over all tokens and features.
struct SignalPeaks {
  Signal signal;
  std::vector<double> values;  ///< by sublayer, NaN where there is no such signal; by depth if runs_over_depth(signal)
};

/// Returns the peaks of every signal, in the order of the dataflow.
[[nodiscard]] std::vector<SignalPeaks> signal_peaks(const ModelReading& reading);

/// Returns the last sublayer of the step that ends at `depth`; for depth 0 the first sublayer.
[[nodiscard]] std::size_t sublayer_before(const ModelReading& reading, std::size_t depth);
/// Returns a curve over depth by sublayer [2L]: depth d >= 1 at sublayer_before(d), NaN elsewhere.
[[nodiscard]] std::vector<double> by_sublayer(const ModelReading& reading, const std::vector<double>& by_depth);

/// A format's largest number over the largest |x| of all signals, and where that is.
struct Margin {
  double value;
  std::string signal;
  int index;  ///< as in SignalPeaks
};
[[nodiscard]] Margin smallest_margin(const std::vector<SignalPeaks>& peaks, double largest);

/// The largest |x| of all signals of every sublayer [2L]; the stack's input counts for the first one. NaN counts as
/// infinite.
[[nodiscard]] std::vector<double> largest_by_sublayer(const ModelReading& reading);

}  // namespace periscope
