#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <utility>

#include "sim/model/context.h"
#include "sim/model/hooks.h"

namespace periscope {

/// One pass through sublayer 0 … 2L−1, or through what lies before the first (−1) or after the last (2L). All signals
/// go through `emit`, matrices and norms through `linear` and `norm`, which record, replace and store. The backward
/// pass uses the same object. Context and hooks outlive it.
class SublayerPass {
 public:
  /// Fetches the sublayer's weights. `pass` is forward or recomputation, `step` the one with this branch.
  SublayerPass(const StackContext& context, Hooks hooks, int sublayer, Pass pass, Keep keep, int step);
  /// What lies before the first step or after the last.
  SublayerPass(const StackContext& context, Hooks hooks, int sublayer, Pass pass, Keep keep)
      : SublayerPass(context, std::move(hooks), sublayer, pass, keep, sublayer) {}

  [[nodiscard]] const StackContext& context() const { return context_; }
  [[nodiscard]] int sublayer() const { return sublayer_; }

  /// Returns x, or a replacer's tensor, after recorders have seen it. `part` is the stream of a signal with several.
  Tensor emit(Signal signal, Tensor x, int part = 0);
  /// y = x Wᵀ + b.
  Tensor linear(Weight weight, const Tensor& x);
  /// A norm of x [N, D]; the QK-norms are RMSNorms of every head or of the whole projection.
  Tensor norm(Weight weight, const Tensor& x);

  /// The same for a signal's gradient.
  Tensor emit_back(Signal signal, Tensor dx, int part = 0);
  /// Gradient of the input of `weight` from that of its output, after gradient recorders have seen those of its
  /// parameters. Once for every matrix and norm: the stored input is then released.
  Tensor linear_back(Weight weight, const Tensor& dy);
  Tensor norm_back(Weight weight, const Tensor& dy);
  /// Shows gradient recorders a table's gradient.
  void table_back(Weight table, const std::function<Tensor()>& gradient);

  /// Moves out a stored signal, the input of an op without parameters. Throws std::logic_error for another.
  [[nodiscard]] Tensor take(Signal signal);

  /// Stored memory without weights.
  [[nodiscard]] std::size_t bytes() const;
  /// Releases matrices, which the backward pass fetches again.
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
