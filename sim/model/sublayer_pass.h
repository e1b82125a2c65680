#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <utility>

#include "sim/model/context.h"
#include "sim/model/hooks.h"

namespace periscope {

/// One pass through sublayer 0 … 2L−1, or through what lies before the first (−1) or after the last (2L). The modules
/// send every signal through `emit` as it arises and every matrix and norm through `linear` and `norm`, so that what is
/// recorded, replaced and kept is one rule for all of them. The backward pass goes through the same pass, if it kept
/// what it needs. The context outlives it, and so do the hooks.
class SublayerPass {
 public:
  /// Fetches the sublayer's weights. `pass` is forward or recomputation, `step` that of which the sublayer is a branch.
  SublayerPass(const StackContext& context, Hooks hooks, int sublayer, Pass pass, Keep keep, int step);
  /// What lies before the first step or after the last.
  SublayerPass(const StackContext& context, Hooks hooks, int sublayer, Pass pass, Keep keep)
      : SublayerPass(context, std::move(hooks), sublayer, pass, keep, sublayer) {}

  [[nodiscard]] const StackContext& context() const { return context_; }
  [[nodiscard]] int sublayer() const { return sublayer_; }

  /// Returns what goes on in the place of a signal: x, or what a replacer put there. Recorders see it. `part` is the
  /// stream, where several are parts of a signal.
  Tensor emit(Signal signal, Tensor x, int part = 0);
  /// y = x Wᵀ + b.
  Tensor linear(Weight weight, const Tensor& x);
  /// A norm of x [N, D]; the QK-norms are RMSNorms of every head or of the whole projection.
  Tensor norm(Weight weight, const Tensor& x);

  /// Returns what goes on in the place of a signal's gradient.
  Tensor emit_back(Signal signal, Tensor dx, int part = 0);
  /// Gradient of what `weight` read, from that of what came out. Gradient recorders are told that of its parameters.
  /// Once for every matrix and norm: what it read is then given back.
  Tensor linear_back(Weight weight, const Tensor& dy);
  Tensor norm_back(Weight weight, const Tensor& dy);
  /// Tells gradient recorders of a table, of which rows were looked up.
  void table_back(Weight table, const std::function<Tensor()>& gradient);

  /// A signal that was kept, once: those that an op without parameters reads. Throws std::logic_error for another.
  [[nodiscard]] Tensor take(Signal signal);

  /// Memory that is kept, weights left out.
  [[nodiscard]] std::size_t bytes() const;
  /// Gives back the memory of matrices, which the backward pass then fetches again.
  void release_weights();

 private:
  [[nodiscard]] Tensor hooked(Pass pass, Signal signal, Tensor x, int part) const;
  [[nodiscard]] ParameterId id_of(Weight weight, ParameterId::Part part) const;
  void tell(const ParameterId& id, const ParameterGradient& gradient) const;
  void tell_whole(const ParameterId& id, const std::function<Tensor()>& gradient) const;

  const StackContext& context_;
  Hooks hooks_;
  int sublayer_;
  int step_;
  Pass pass_;
  Keep keep_;
  SublayerWeights weights_;
  std::map<Signal, Tensor> signals_;
  std::map<Weight, std::unique_ptr<LinearReading>> readings_;
  std::map<Weight, Tensor> norm_inputs_;
};

}  // namespace periscope
