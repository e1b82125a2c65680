#pragma once

#include "sim/core/backend.h"

namespace periscope {

/// Implements some ops in terms of other ops, for backends without a dedicated kernel. A backend overrides them with
/// faster kernels. A decorator derives from Backend instead and must forward every op.
class ComposedBackend : public Backend {
 public:
  using Backend::run;
  /// Converts on the host.
  void run(const op::Cast& o) const override;
  /// Computes the weight gradient, then the sum of its squares.
  void run(const op::LinearWeightSquare& o) const override;
  /// Draws the matrix with `normal`, then multiplies.
  void run(const op::LinearDrawn& o) const override;
  void run(const op::LinearDrawnBackwardInput& o) const override;
  /// Computes φ(gate), then multiplies.
  void run(const op::Gated& o) const override;
  void run(const op::GatedBackward& o) const override;
  /// Runs rope with negated frequencies.
  void run(const op::RopeBackward& o) const override;
};

}  // namespace periscope
