#pragma once

#include <array>
#include <span>
#include <vector>

#include "sim/core/backend.h"
#include "sim/spec/signal.h"
#include "tests/emulated/sums.h"

/// Forward ops of Backend on plain arrays, with every step rounded as in an Emulation (T24). Shapes as in
/// sim/reference/ops.h.
namespace periscope::emulated {

using Index = Tensor::Index;

/// Largest magnitudes inside attention, by query head.
struct HeadPeaks {
  std::vector<double> dots, cap_inputs;
};

class Ops {
 public:
  explicit Ops(const Emulation& emulation)
      : emulation_(emulation),
        stored_(emulation.arithmetic.stored),
        accumulated_(emulation.arithmetic.accumulated),
        inside_(emulation.arithmetic.accumulated, Rounding::Overflow::infinite),
        inside_stored_(emulation.arithmetic.stored, Rounding::Overflow::infinite),
        sums_(emulation, accumulated_) {}

  [[nodiscard]] double stored(double x) const { return stored_(x); }
  void linear(const double* x, const double* w, double* y, Index rows, Index in, Index out);
  /// Returns a·x rounded to the stored format, or x unchanged if a = 1.
  [[nodiscard]] double times(double a, double x) const { return a == 1.0 ? x : stored_(scalar(a) * x); }
  [[nodiscard]] double addend(double a, double x) {
    const double product = times(a, x);
    if (a != 1.0) raise(peak(Signal::addends), product);
    return product;
  }
  [[nodiscard]] double plus(double x, double y) const { return stored_(x + y); }
  /// Normalizes one group of n features; bias may be null.
  void norm(NormKind kind, const double* x, const double* gain, const double* bias, double eps, double* y, Index n);
  void pointwise_norm(NormKind kind, const double* x, const double* gain, const double* bias, double alpha, double* y,
                      Index n);
  /// Rotates one head of one token.
  void rope(const double* x, double* y, Index head_dim, Index position, std::span<const double> frequencies) const;
  void attention(const double* q, const double* k, const double* v, double* y, double* scores, Index rows,
                 Index key_rows, const AttentionShape& shape, HeadPeaks& peaks);
  /// Computes in the accumulation format, then stores the result. Tanh-GELU may store every step (Emulation::chains).
  [[nodiscard]] double activation(Activation kind, double x) const;
  /// Computes c·tanh(z/c) and stores every step. Raises `inner` to at least |z/c| and |tanh(z/c)|.
  [[nodiscard]] double soft_cap(double cap, double z, double& inner) const;

  /// Returns the largest magnitude of a signal since the last take_peaks(). The signal must have one magnitude per op.
  [[nodiscard]] double& peak(Signal signal) { return peaks_[static_cast<std::size_t>(signal)]; }
  using Peaks = std::array<double, signal_names.size()>;
  Peaks take_peaks() { return std::exchange(peaks_, {}); }

 private:
  /// Rounds a factor of the model, such as a residual scale.
  [[nodiscard]] double scalar(double a) const { return emulation_.stored_scalars ? stored_(a) : accumulated_(a); }
  /// Rounds an intermediate result of a norm.
  [[nodiscard]] double step(double x) const { return emulation_.norm_stores_steps ? stored_(x) : accumulated_(x); }
  /// Applies gain and bias to a normalized value and stores the result.
  [[nodiscard]] double affine(double x, double gain, const double* bias);
  /// Returns x·(1/s) or x/s in the accumulation format.
  [[nodiscard]] double divided(double x, double s) const {
    const Rounding& r = accumulated_;
    return emulation_.reciprocal ? r(x * r(1.0 / s)) : r(x / s);
  }
  void softmax(std::span<double> scores);

  Emulation emulation_;
  Rounding stored_, accumulated_;
  Rounding inside_;         ///< accumulated_ for activations, where exponentials and cubes may overflow harmlessly
  Rounding inside_stored_;  ///< stored_ with the overflow rule of inside_
  Sums sums_;
  Peaks peaks_{};
  std::vector<double> work_, weights_, scaled_query_;
};

}  // namespace periscope::emulated
