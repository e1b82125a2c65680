#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <utility>

#include "sim/model/context.h"
#include "sim/model/hooks.h"

namespace periscope {

/// One pass through sublayer 0 … 2L−1, or through the parts before the first (−1) or after the last (2L). All signals
/// go through `emit`, matrices through `linear` and norms through `norm`, which record, replace and save them. The same
/// object runs the backward pass. Context and hooks must outlive it.
class SublayerPass {
 public:
  /// Fetches the sublayer's weights. `pass` is forward or recomputation; `step` is the step that contains the branch.
  SublayerPass(const StackContext& context, Hooks hooks, int sublayer, Pass pass, Save save, int step);
  /// For the parts before the first step or after the last.
  SublayerPass(const StackContext& context, Hooks hooks, int sublayer, Pass pass, Save save)
      : SublayerPass(context, std::move(hooks), sublayer, pass, save, sublayer) {}

  [[nodiscard]] const StackContext& context() const { return context_; }
  [[nodiscard]] int sublayer() const { return sublayer_; }

  /// Passes x, or a replacer's tensor, to the recorders and returns it. For `part`, see Emission.
  Tensor emit(Signal signal, Tensor x, int part = 0);
  /// Returns x Wᵀ + b.
  Tensor linear(Weight weight, const Tensor& x);
  /// Applies a norm to x [N, D]. QK-norms are RMSNorms of every head or of the whole projection.
  Tensor norm(Weight weight, const Tensor& x);

  /// Like `emit`, for a signal's gradient.
  Tensor emit_backward(Signal signal, Tensor dx, int part = 0);
  /// Returns the gradient of the input of `weight`, given its output gradient, after passing parameter gradients to the
  /// recorders. Call once per matrix and norm: the saved input is then released.
  Tensor linear_backward(Weight weight, const Tensor& dy);
  Tensor norm_backward(Weight weight, const Tensor& dy);
  /// Passes a table's gradient to the gradient recorders.
  void table_backward(Weight table, const std::function<Tensor()>& gradient);

  /// Moves out a saved signal, the input of an op without parameters. Throws std::logic_error if it is not saved.
  [[nodiscard]] Tensor take(Signal signal);

  /// Memory of saved tensors in bytes, without weights.
  [[nodiscard]] std::size_t bytes() const;
  /// Releases matrices; the backward pass fetches them again.
  void release_weights();

 private:
  [[nodiscard]] Tensor hooked(Pass pass, Signal signal, Tensor x, int part) const;
  [[nodiscard]] ParameterId id_of(Weight weight, ParameterId::Part part) const;
  void report(const ParameterId& id, const ParameterGradient& gradient) const;
  void report_whole(const ParameterId& id, const std::function<Tensor()>& gradient) const;

  const StackContext& context_;
  Hooks hooks_;
  int sublayer_;
  int step_;
  Pass pass_;
  Save save_;
  SublayerWeights weights_;
  std::map<Signal, Tensor> signals_;
  std::map<Weight, std::unique_ptr<LinearProduct>> products_;
  std::map<Weight, Tensor> norm_inputs_;
};

}  // namespace periscope
