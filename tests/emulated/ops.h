#pragma once

#include <span>
#include <vector>

#include "sim/core/backend.h"
#include "tests/emulated/sums.h"
#include "tests/emulated/watch.h"

/// The formulas of Backend's forward ops on plain arrays, every step rounded as an Emulation says (T24). Shapes are
/// those of sim/reference/ops.h. Peaks: largest magnitudes of inner numbers; their lengths are the caller's duty.
namespace periscope::emulated {

using Index = Tensor::Index;

/// Peaks of the inner numbers of one norm.
struct NormPeaks {
  double mean_sum = 0.0, square = 0.0, square_sum = 0.0, reciprocal = 0.0;
  std::vector<double> centred, bend_input, normalised, gained;  ///< one per feature of the part
};

/// Peaks of the inner numbers of attention, per query head; mixed_sum per feature.
struct AttentionPeaks {
  std::vector<double> dot_sum, dot, scaled, capped, score, denominator_sum, mixed_sum;
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
  /// A factor that the model knows in full precision, as an op receives it.
  [[nodiscard]] double scalar(double a) const { return emulation_.stored_scalars ? stored_(a) : accumulated_(a); }

  /// partial, product [out]: peaks of partial sums and results.
  void linear(const double* x, const double* w, double* y, Index rows, Index in, Index out, std::span<double> partial,
              std::span<double> product);
  /// a·x, stored; nothing to round for a = 1.
  [[nodiscard]] double times(double a, double x) const { return a == 1.0 ? x : stored_(scalar(a) * x); }
  [[nodiscard]] double plus(double x, double y) const { return stored_(x + y); }
  /// One part of n features; bias may be null.
  void norm(NormKind kind, const double* x, const double* gain, const double* bias, double eps, double* y, Index n,
            NormPeaks& peaks);
  /// The same of a pointwise norm: αx, φ of it, times the gain, plus the bias, each step stored or kept as NormForm
  /// says.
  void pointwise_norm(NormKind kind, const double* x, const double* gain, const double* bias, double alpha, double* y,
                      Index n, NormPeaks& peaks) const;
  /// One head of one token; turned [head_dim]: peaks of the products.
  void rope(const double* x, double* y, Index head_dim, Index position, std::span<const double> frequencies,
            double* turned) const;
  void attention(const double* q, const double* k, const double* v, double* y, double* scores, Index rows,
                 Index key_rows, const AttentionShape& shape, AttentionPeaks& peaks);
  /// One op: computed in the format of sums, then stored. The tanh form of GELU may be a chain of stored ops.
  [[nodiscard]] double activation(Activation kind, double x) const;
  /// z/c, tanh, ·c, each stored; `inner` is the peak of the first two.
  [[nodiscard]] double soft_cap(double cap, double z, double& inner) const;

 private:
  /// x·(1/s) or x/s in the format of sums.
  [[nodiscard]] double divided(double x, double s) const {
    const Rounding& r = accumulated_;
    return emulation_.reciprocal ? r(x * r(1.0 / s)) : r(x / s);
  }
  void softmax(std::span<double> scores, double& denominator_sum);

  Emulation emulation_;
  Rounding stored_, accumulated_;
  Rounding inside_;         ///< accumulated_, inside activations, whose exponentials and cubes may overflow harmlessly
  Rounding inside_stored_;  ///< the same of stored_
  Sums sums_;
  std::vector<double> work_, weights_, scaled_query_;
};

}  // namespace periscope::emulated
