#pragma once

#include <array>
#include <string_view>

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

  // What only the arithmetic of a run stores (T24). From `products` on each is one number, the largest of its sublayer.
  dots,         ///< q·k of every head, before scale and soft cap
  cap_inputs,   ///< of every head under a soft cap c: the scaled score z and z/c; of the head likewise
  gated,        ///< φ(gate), before the product with up
  products,     ///< W x before its bias, if there is one
  normalised,   ///< x̂ of a norm before its gain, and γ∘x̂ before its bias
  addends,      ///< αx, βB, the embedding's rows and their partial sums
  weights,      ///< the weights themselves, rounded to the format
  sums,         ///< partial sums of a product of matrices or of a mean, in any order, on their way
  deviations,   ///< x − mean in a norm, z − max z in a softmax
  squares,      ///< their sum of squares
  reciprocals,  ///< 1/√(mean square + ε); infinite where ε is lost in the format, since 0/0 is possible then
  denominators  ///< of softmax
};
inline constexpr std::array<std::string_view, 37> signal_names{
    "embedding", "input",      "A_out",      "q_projected", "k_projected", "q",          "k",           "v",
    "scores",    "mixed",      "gate",       "up",          "hidden",      "f_out",      "B_out",       "sum",
    "x_out",     "r_out",      "output",     "projected",   "dense",       "activated",  "transformed", "head_scores",
    "logits",    "dots",       "cap_inputs", "gated",       "products",    "normalised", "addends",     "weights",
    "sums",      "deviations", "squares",    "reciprocals", "denominators"};

/// What a verdict is given for.
enum class SignalClass { stream, branch, attention, scores, mlp, head, inside };
inline constexpr std::array<std::string_view, 7> signal_class_names{"stream", "branch", "attention", "scores",
                                                                    "mlp",    "head",   "inside"};
[[nodiscard]] SignalClass class_of(Signal signal);

/// Whether it is a sum on its way, which mixed arithmetic holds in its wider format.
[[nodiscard]] constexpr bool is_accumulated(Signal signal) { return signal >= Signal::sums; }

}  // namespace periscope::theory
