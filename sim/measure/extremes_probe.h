#pragma once

#include <map>
#include <vector>

#include "sim/model/context.h"
#include "sim/model/hooks.h"

namespace periscope {

/// The largest elements of the stream at one depth: row t is a token, column k a feature.
struct StreamExtremes {
  std::vector<Entry> top;  ///< in descending order of |x|
  double median;           ///< of |x| over all tokens and features
};

/// Massive activations after Sun et al. 2024 (arXiv 2402.17762): |x| above 100 and at least 1000 times the median.
[[nodiscard]] bool is_massive(const Entry& entry, double median);

/// Records the extremes of the stream at depths 0 … 2L of one forward pass, and the largest |x| inside its modules.
class ExtremesProbe final : public SignalRecorder {
 public:
  ExtremesProbe(const StackContext& context, int count) : context_(context), count_(count) {}
  void on_signal(const Emission& at, const Tensor& x) override;
  /// By depth.
  [[nodiscard]] const std::vector<StreamExtremes>& depths() const { return depths_; }
  /// By sublayer, NaN where the module has no such signal.
  [[nodiscard]] const std::map<Signal, std::vector<double>>& inside() const { return inside_; }

 private:
  void record(int depth, const Tensor& x);
  void record_inside(int sublayer, Signal signal, const Tensor& x);

  const StackContext& context_;
  int count_;
  std::vector<StreamExtremes> depths_;
  std::map<Signal, std::vector<double>> inside_;
};

}  // namespace periscope
