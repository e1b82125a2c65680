#pragma once

#include <array>
#include <map>
#include <vector>

#include "sim/core/statistics.h"
#include "sim/model/context.h"
#include "sim/model/hooks.h"
#include "sim/spec/profile.h"

namespace periscope {

inline constexpr int top_count = 100;
inline constexpr int angular_tokens = 32;
/// Deeper stacks get no angular distances: their number is the square of the depth.
inline constexpr std::size_t angular_depths = 513;

/// The largest magnitudes of one signal, per sublayer in descending order.
using TopMagnitudes = std::map<Signal, std::vector<std::vector<double>>>;

/// The numbers of one forward pass: every statistic of every signal, no standard errors.
struct Reading {
  Profile profile;
  TopMagnitudes top;
  int diverged_at = -1;  ///< first sublayer whose x_out holds a value that is not finite, or −1
};

/// Records one forward pass; its numbers stay on the device until the pass is over. The estimators are those of
/// Statistic. Of the sum before norm C it records only the maximum, by depth: NaN without a norm C, infinite for NaN
/// entries. Angular distances use at most `angular_tokens` tokens, evenly spaced, which bounds memory by
/// depth · 32 · D.
class Probe final : public SignalRecorder {
 public:
  explicit Probe(const StackContext& context);
  void on_signal(const Emission& at, const Tensor& x) override;
  /// Returns what was measured. Call it once, after the pass.
  Reading take();

 private:
  using Slot = StatisticsRecord::Slot;
  struct MeasuredSignal {
    Tensor signal;
    Slot slot;
  };
  struct Place {
    int index;     ///< in the curves of the signal
    int sublayer;  ///< −1 for the stack's input, which has no largest magnitudes
    Signal signal;
    Slot slot;
  };
  struct Branch {
    int sublayer;
    Slot stream, branch, product;
  };
  /// The sum before norm C. A step has several if the stream has parts.
  struct Sum {
    int step;
    Slot slot;
  };

  Slot measure(const Tensor& x);
  void choose_tokens(Tensor::Index tokens);
  void keep_for_angles(const Tensor& x);
  void fill(const Place& place);
  void fill(const Branch& branch);
  void fill(const Sum& sum);
  void fill_angles();
  Curve& curve(Statistic statistic, Signal signal);

  const StackContext& context_;
  int parts_;  ///< of the stream (StreamEnds)
  Reading reading_;
  StatisticsRecord record_;
  std::vector<Place> places_;
  std::vector<Branch> branches_;
  std::vector<Sum> sums_;
  // Two signals without a norm between them are one tensor, which is measured once.
  std::array<MeasuredSignal, 3> recent_;
  std::size_t oldest_ = 0;
  MeasuredSignal stream_;  // x_in of the current sublayer
  std::vector<int> kept_tokens_;
  std::vector<Tensor> kept_;  // the stream at every depth, kept tokens only
};

}  // namespace periscope
