#pragma once

#include "sim/core/backend.h"

namespace periscope {

/// Ops in terms of others, for backends without a kernel for them. A new op is composed here until a backend has a
/// faster way. A decorator derives from Backend instead, and must forward every op.
class ComposedBackend : public Backend {
 public:
  using Backend::run;
  /// Via the host.
  void run(const op::Cast& o) const override;
  /// The gradient itself, then its squares.
  void run(const op::LinearWeightSquare& o) const override;
  /// normal, then the product.
  void run(const op::LinearDrawn& o) const override;
  void run(const op::LinearDrawnBackwardInput& o) const override;
  /// φ(gate), then the product.
  void run(const op::Gated& o) const override;
  void run(const op::GatedBackward& o) const override;
  /// Rope with the angles negated.
  void run(const op::RopeBackward& o) const override;
};

}  // namespace periscope
