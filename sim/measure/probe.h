#pragma once

#include <array>
#include <map>
#include <optional>
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

/// T15 for one sublayer, q⁺ = α²q + β²s² + 2αβ·√q·s·cos(x, b): q, q⁺ are the mean squares over features of the stream
/// before and after the addition, s² that of the branch b = B_out. Exact for every token, whatever the weights;
/// every term is a mean over tokens. Eq. 4 of the Peri-LN paper is the identity without its last term.
struct Growth {
  double stream;  ///< α²q
  double branch;  ///< β²s²
  double cross;   ///< 2αβ·√q·s·cos(x, b) = 2αβ⟨x, b⟩/D
  double sum;     ///< q⁺, of x_out, or with norm C of what C sees
  double residual;  ///< the worst token's |q⁺ − the three terms|, in units of what rounding explains; NaN if not finite

  [[nodiscard]] bool is_violated() const { return residual > 1.0; }
};

/// Rounding explains |Δq⁺| ≤ (2γ₃(u) + γ₃(u)² + 4γ_{D+8}(2⁻⁵³))·(|α|√q + |β|s)²: each feature of x⁺ is off by at most
/// γ₃(u)(|αx| + |βb|) (two coefficients rounded to the dtype of unit round-off u, two products, one sum), whose mean
/// square is at most (|α|√q + |β|s)²; each of the four mean squares and products is summed over D features in double.
/// γ_n(u) = nu/(1 − nu).
[[nodiscard]] double growth_rounding(double unit_roundoff, Tensor::Index width);

/// Records one forward pass; its numbers stay on the device until the pass is over. The estimators are those of
/// Statistic. Of the sum before norm C it records only the maximum, by depth: NaN without a norm C, infinite for NaN
/// entries. Angular distances use at most `angular_tokens` tokens, evenly spaced, which bounds memory by
/// depth · 32 · D.
class Probe final : public SignalRecorder {
 public:
  /// With `growth` it also measures the squares of the sum.
  explicit Probe(const StackContext& context, bool growth = false);
  void on_signal(const Emission& at, const Tensor& x) override;
  /// Returns what was measured. Call it once, after the pass.
  Reading take();
  /// Returns T15 by sublayer, NaN where the step is not a single addition. Call after `take`; requires `growth`.
  [[nodiscard]] std::vector<Growth> growth() const;

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
    std::optional<Slot> sum = {};  ///< for growth
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
  [[nodiscard]] Growth growth(const Branch& branch) const;
  double& entry(Statistic statistic, Signal signal, int index) {
    return reading_.profile.entry(statistic, signal, context_.model.curve_length(signal), index);
  }

  const StackContext& context_;
  bool with_growth_;
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
