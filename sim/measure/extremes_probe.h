#pragma once

#include <map>
#include <vector>

#include "sim/core/statistics.h"
#include "sim/model/context.h"
#include "sim/model/hooks.h"

namespace periscope {

/// Largest entries of the stream at one depth. An entry's row is the token, its column the feature.
struct StreamExtremes {
  std::vector<Entry> top;  ///< largest entries in descending order of |x|
  double median;           ///< median of |x| over all tokens and features
};

/// Massive activations after Sun et al. 2024 (arXiv 2402.17762): |x| above 100 and at least 1000 times the median.
[[nodiscard]] bool is_massive(const Entry& entry, double median);

struct Extremes {
  std::vector<StreamExtremes> depths;  ///< stream at depths 0 … 2L
  /// Largest |x| of every signal inside modules, per sublayer; NaN where a sublayer lacks the signal.
  std::map<Signal, std::vector<double>> inside;
  std::vector<double> scores;  ///< largest |score| entering the softmax [layers, heads]; empty if none was recorded
};

/// Records the Extremes of one forward pass. Results stay on the device until the end of the pass.
class ExtremesProbe final : public SignalRecorder {
 public:
  ExtremesProbe(const StackContext& context, int count) : context_(context), count_(count), record_(context.ops) {}
  void on_signal(const Emission& at, const Tensor& x) override;
  /// Call once, after the pass.
  [[nodiscard]] Extremes take();

 private:
  struct Place {
    int sublayer;
    Signal signal;
    StatisticsRecord::Slot slot;
  };

  const StackContext& context_;
  int count_;
  StatisticsRecord record_;
  std::vector<Place> places_;
};

}  // namespace periscope
