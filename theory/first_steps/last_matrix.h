#pragma once

#include <vector>

#include "theory/first_steps/moved_modules.h"

namespace periscope::theory {

/// A module's last matrix, W_o or W_down, step by step: its update takes sampled hidden channels, and all channels of
/// the stream.
class LastMatrix {
 public:
  LastMatrix(const ModuleContext& context, const InitialBranch& branch, int sublayer, Weight weight, int fan_in,
             Eigen::Index hidden);
  /// The module's output, from its hidden channels before training, of the same tokens, and now [now, hidden]. The
  /// update takes them to be `seen`. `responds`: how the output follows its gradients through the module's other
  /// matrices, over σ² · fan-in [now, trained].
  [[nodiscard]] MovedModule output(const Sampled& before, const Sampled& hidden, const Sampled& seen,
                                   const Sampled& responds, const TokensNow& now);
  /// ∂loss/∂h of the next batch from ∂loss/∂f [next, D].
  [[nodiscard]] Sampled back(const Sampled& gradients, const TokensNow& now) const;
  /// Keeps the next batch; adds the squared norm of the gradients of all entries to `square`.
  void append(const Sampled& hidden, const Sampled& gradients, const TokensNow& now, double& square);

 private:
  /// Adds what the update makes.
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
