#pragma once

#include "sim/core/backend.h"

namespace periscope {

/// Ops in terms of others, for a backend that has no kernel of its own for them. A new op gets its composition here,
/// so that no backend needs an edit before it has a faster way. A decorator derives from Backend instead, and must
/// forward every op.
class ComposedBackend : public Backend {
 protected:
  /// Casts by way of the host.
  void do_cast(const Tensor& x, Tensor& y) const override;
  /// The gradient itself, then its squares.
  void do_linear_weight_square(const Tensor& dy, const Tensor& x, Tensor& square) const override;
  /// normal, then the product.
  void do_linear_drawn(const Tensor& x, const DrawnMatrix& w, Tensor& y) const override;
  void do_linear_drawn_backward_input(const Tensor& dy, const DrawnMatrix& w, Tensor& dx) const override;
  /// φ(gate), then the product.
  void do_gated(Activation kind, const Tensor& gate, const Tensor& up, Tensor& y) const override;
  void do_gated_backward(Activation kind, const Tensor& gate, const Tensor& up, const Tensor& dy,
                         GatedGradient& g) const override;
  /// Rope with the angles negated.
  void do_rope_backward(const Tensor& dy, int heads, int sequences, std::span<const double> frequencies,
                        Tensor& dx) const override;
};

}  // namespace periscope
