#pragma once

#include <vector>

#include "theory/first_steps/moved_modules.h"

namespace periscope::theory {

/// A module's last matrix, W_o or W_down, step by step. Its update is explicit, from the drawn hidden channels to all
/// channels of the stream.
class LastMatrix {
 public:
  LastMatrix(const ModuleContext& context, const InitialBranch& branch, int sublayer, Weight weight, int fan_in,
             Eigen::Index hidden);
  /// Returns the module's output from its hidden channels before training and now [now, hidden]; the update acts on
  /// `seen`. `responds` is the output's response to its gradients through the module's other matrices, divided by
  /// σ² · fan-in [now, trained].
  [[nodiscard]] MovedModule output(const Sampled& before, const Sampled& hidden, const Sampled& seen,
                                   const Sampled& responds, const TokensNow& now);
  /// Returns ∂loss/∂h [next, hidden] of the next batch from its ∂loss/∂f [next, D].
  [[nodiscard]] Sampled back(const Sampled& gradients, const TokensNow& now) const;
  /// Stores the next batch; adds the squared norm of the whole matrix's gradient to `square`.
  void append(const Sampled& hidden, const Sampled& gradients, const TokensNow& now, double& square);

 private:
  /// Adds the update's part of the output.
  void add_update(MovedModule& module, const Sampled& hidden, const TokensNow& now);

  const ModuleContext& context_;
  const InitialBranch& branch_;
  int sublayer_;
  Weight weight_;
  double fan_in_;
  double sigma_;                  // of its entries before training
  Sampled gradients_;             // ∂loss/∂f of every batch at its step [all batches, D]
  Sampled hidden_;                // of every batch at its step [all batches, hidden]
  std::vector<Sampled> entries_;  // gradients of entries at every step [hidden, D]
  Sampled taken_off_;             // now [hidden, D]; empty before the first step
};

}  // namespace periscope::theory
