#pragma once

#include <string>
#include <vector>

#include "sim/measure/model_reading.h"

namespace periscope {

/// Largest |x| of a signal over all tokens and features.
struct SignalPeaks {
  Signal signal;
  std::vector<double> values;  ///< per depth if runs_over_depth(signal), else per sublayer (NaN: no such signal)
};

/// Returns the peaks of every signal, in the order of computation.
[[nodiscard]] std::vector<SignalPeaks> signal_peaks(const ModelReading& reading);

/// Returns the last sublayer of the step that ends at `depth`; for depth 0 the first sublayer.
[[nodiscard]] std::size_t sublayer_before(const ModelReading& reading, std::size_t depth);
/// Converts a curve over depth to sublayers [2L]: depth d ≥ 1 is assigned to sublayer_before(d); others are NaN.
[[nodiscard]] std::vector<double> by_sublayer(const ModelReading& reading, const std::vector<double>& by_depth);

/// Largest number of a format divided by the largest |x| of all signals, and the location of that x.
struct Margin {
  double value;
  std::string signal;
  int index;  ///< sublayer or depth, as in SignalPeaks
};
[[nodiscard]] Margin smallest_margin(const std::vector<SignalPeaks>& peaks, double largest);

/// Largest |x| of all signals per sublayer [2L]; the stack's input counts as part of the first. NaN counts as infinite.
[[nodiscard]] std::vector<double> largest_by_sublayer(const ModelReading& reading);

}  // namespace periscope
