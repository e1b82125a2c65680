#pragma once

#include "sim/model/weights.h"
#include "sim/spec/profile.h"

namespace periscope {

/// Sees the signals of a forward pass as they arise. Everything that is recorded attaches here.
class Observer {
 public:
  Observer() = default;
  Observer(const Observer&) = delete;
  Observer& operator=(const Observer&) = delete;
  virtual ~Observer() = default;

  /// The stream that enters the stack [N, D], after the embedding norm.
  virtual void on_input(const Tensor& x) = 0;
  /// A signal [N, D] of sublayer 0 … 2L−1. Sites come in the order of Site; r_out only with two streams.
  virtual void on_site(int sublayer, Site site, const Tensor& x) = 0;
};

/// What a forward pass works with. `sequences` sequences of equal length lie one after the other in the
/// rows of every activation [N, D].
struct StackContext {
  const Backend& ops;
  const ModelSpec& model;
  const WeightSource& weights;
  int sequences = 1;
};

/// Attention module of `layer` on its (normalised) input x [N, D] → [N, D].
Tensor attention_forward(const StackContext& context, int layer, const Tensor& x);

/// MLP module of `layer` on its (normalised) input x [N, D] → [N, D].
Tensor mlp_forward(const StackContext& context, int layer, const Tensor& x);

/// Norm of a site, or x itself if the site has none.
Tensor norm_forward(const StackContext& context, int sublayer, NormSite site, const Tensor& x);

/// What leaves a stack.
struct StackOutput {
  Tensor stream;  ///< x after the last sublayer [N, D]
  Tensor output;  ///< after the final norm; ResiDual: stream + N(r) [N, D]
};

/// T1 for every sublayer, from the embedding norm to the final norm. Only the stream is kept.
StackOutput stack_forward(const StackContext& context, const Tensor& input, Observer& observer);

}  // namespace periscope
