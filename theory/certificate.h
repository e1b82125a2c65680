#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "theory/bounded_set.h"
#include "theory/parameters.h"

/// T17, the overflow certificate: how large any signal can be for any input, from the weights alone.
namespace periscope::theory {

/// A signal that a certificate bounds, in the order of the dataflow; what a stack does not have is left out.
/// x_out of sublayer −1 is the stream that enters the first sublayer; x_in of a sublayer is x_out of the one before.
enum class Signal {
  embedding,    ///< scale·E[id]
  input,        ///< the stack's input, before the embedding norm
  A_out,        ///< if there is a norm A or an input gain
  q_projected,  ///< before QK-norm
  k_projected,
  q,  ///< as the heads read it
  k,
  v,
  scores,  ///< one per head: largest |score| that enters the softmax
  mixed,   ///< the heads' outputs
  gate,
  up,
  hidden,  ///< φ(up), or φ(gate)∘up
  f_out,
  B_out,  ///< if there is a norm B
  sum,    ///< αx + βB, if norm C follows
  x_out,
  r_out,
  output,     ///< of the stack, after the final norm
  projected,  ///< of the head, as HeadSignals names them
  dense,
  activated,
  transformed,
  head_scores,  ///< before the soft cap, if there is one
  logits,
};
inline constexpr std::array<std::string_view, 25> signal_names{
    "embedding", "input",     "A_out", "q_projected", "k_projected", "q",           "k",     "v",     "scores",
    "mixed",     "gate",      "up",    "hidden",      "f_out",       "B_out",       "sum",   "x_out", "r_out",
    "output",    "projected", "dense", "activated",   "transformed", "head_scores", "logits"};

/// What a verdict is given for.
enum class SignalClass { stream, branch, attention, scores, mlp, head };
inline constexpr std::array<std::string_view, 6> signal_class_names{"stream", "branch", "attention",
                                                                    "scores", "mlp",    "head"};
[[nodiscard]] SignalClass class_of(Signal signal);

/// A bound on |signal|, feature by feature, and its largest entry.
struct SignalBound {
  Signal signal;
  int sublayer;  ///< 0 … 2L−1; −1 before the first and 2L after the last
  Vector magnitude;
  double largest = 0.0;
  Eigen::Index channel = 0;
};

/// What may enter a stack: any token ids up to the position table, or any real vectors of entries up to `largest`.
struct InputDomain {
  bool tokens = true;
  double largest = infinity;
};

/// Every bound, in the order of the dataflow.
struct Certificate {
  std::vector<SignalBound> bounds;

  /// Null if the stack does not have it.
  [[nodiscard]] const SignalBound* find(Signal signal, int sublayer) const;
  /// The largest bound of a class; null if there is none. NaN counts as infinite.
  [[nodiscard]] const SignalBound* worst(SignalClass kind) const;
};

/// Bounds every signal of a stack with these weights, for inputs of any length. Throws nothing of its own. Infinite
/// bounds are possible: an unbounded input, a placement without norms.
Certificate certify(const ModelSpec& model, const Parameters& parameters, const InputDomain& domain);

}  // namespace periscope::theory
