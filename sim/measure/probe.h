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
/// Maximum number of depths with angular distances; the number of pairs is quadratic in depth.
inline constexpr std::size_t angular_depths = 513;

/// Largest magnitudes of every signal, per sublayer, in descending order.
using TopMagnitudes = std::map<Signal, std::vector<std::vector<double>>>;

/// Statistics of all signals in one forward pass, without standard errors.
struct Reading {
  Profile profile;
  TopMagnitudes top;
  int diverged_at = -1;  ///< first sublayer whose x_out has an entry that is not finite, or −1
};

/// Growth identity (T15) of one sublayer: q⁺ = α²q + β²s² + 2αβ·√q·s·cos(x, b). q and q⁺ are mean squares over features
/// of the stream before and after the addition; s² is the mean square of b = B_out. The identity is exact for every
/// token and any weights; every term is averaged over tokens. Eq. 4 of the Peri-LN paper omits the last term.
struct Growth {
  double stream;    ///< α²q
  double branch;    ///< β²s²
  double cross;     ///< 2αβ·√q·s·cos(x, b) = 2αβ⟨x, b⟩/D
  double sum;       ///< q⁺: mean square of x_out, or of the input of norm C
  double residual;  ///< largest |q⁺ − sum of terms| over tokens, relative to the rounding bound; NaN if not finite

  [[nodiscard]] bool is_violated() const { return residual > 1.0; }
};

/// Rounding bound of the growth identity: |Δq⁺| ≤ (2γ₃(u) + γ₃(u)² + 4γ_{D+8}(2⁻⁵³))·(|α|√q + |β|s)², γ_n(u) = nu/(1 −
/// nu). Each feature of x⁺ has an error of at most γ₃(u)(|αx| + |βb|) (two coefficients rounded to the dtype of unit
/// round-off u, two products, one sum), whose mean square is at most (|α|√q + |β|s)². Each of the four mean squares and
/// products is summed over D features in double precision.
[[nodiscard]] double growth_rounding(double unit_roundoff, Tensor::Index width);

/// Records the statistics of one forward pass, as defined by Statistic. Results stay on the device until the end of the
/// pass. For the sum before norm C only the maximum is recorded, per depth: NaN without a norm C, infinite if an entry
/// is NaN. Angular distances use at most `angular_tokens` evenly spaced tokens, which limits memory to depth · 32 · D.
class Probe final : public SignalRecorder {
 public:
  /// If `growth`, also measures the terms of the growth identity. `lengths` are the lengths of the sequences if they
  /// differ; sequences of one token then do not count for the token cosine.
  explicit Probe(const StackContext& context, bool growth = false, const std::vector<int>& lengths = {});
  void on_signal(const Emission& at, const Tensor& x) override;
  /// Returns the recorded statistics. Call once, after the pass.
  Reading take();
  /// Returns the growth identity (T15) per sublayer (NaN unless is_one_addition). Requires `growth`; call after `take`.
  [[nodiscard]] std::vector<Growth> growth() const;

 private:
  using Slot = StatisticsRecord::Slot;
  struct MeasuredSignal {
    Tensor signal;
    Slot slot;
  };
  struct Place {
    int index;     ///< index into the curves of the signal
    int sublayer;  ///< −1 for the stack's input, for which no largest magnitudes are recorded
    Signal signal;
    Slot slot;
    int part = 0;
  };
  struct Branch {
    int sublayer;
    Slot stream, branch, product;
    std::optional<Slot> sum = {};  ///< slot of αx + βB_out, for the growth identity
  };
  /// The sum before norm C. A step has several if the stream consists of several parts.
  struct Sum {
    int step;
    Slot slot;
  };

  Slot measure(const Tensor& x);
  [[nodiscard]] double token_cosine(Slot slot) const;
  void choose_tokens(Tensor::Index tokens);
  void store_for_angles(const Tensor& x);
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
  std::vector<std::vector<int>> sequences_;  ///< rows of every sequence of at least two tokens, if lengths differ
  int parts_;                                ///< number of parts of the stream, see StreamEnds
  Reading reading_;
  StatisticsRecord record_;
  std::vector<Place> places_;
  std::vector<Branch> branches_;
  std::vector<Sum> sums_;
  // Consecutive signals that are the same tensor, because a norm is absent, are measured only once.
  std::array<MeasuredSignal, 3> recent_;
  std::size_t oldest_ = 0;
  MeasuredSignal stream_;  // x_in of the current sublayer
  std::vector<int> angular_rows_;
  std::vector<Tensor> stored_;  // rows angular_rows_ of the stream at every depth
};

}  // namespace periscope
