#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

#include "sim/base/enumerators.h"

namespace periscope {

/// Every place of a stack where a signal arises, in the order of the dataflow (T1), for simulation, predictions and
/// certificates. N = sequences · tokens, D = width, H = heads, e = head_dim,
/// h = mlp_width, V = vocab, D' = the embedding table's width. "Sublayer" −1 stands for what is before the first one
/// and 2L for what is after the last.
enum class Signal {
  embedding,  ///< scale·E[id] [N, D'], of sublayer −1
  input,      ///< the stack's input [N, D], before the embedding norm, of sublayer −1
  x_in,       ///< the stream that enters a sublayer [N, D]
  A_out,      ///< input_gain·A(x_in), what the module reads [N, D]
  q_in,       ///< A_out as W_q reads it [N, D]: its gradient is the part of A_out's that comes through W_q
  k_in,       ///< likewise for W_k, and so on
  v_in,
  gate_in,
  up_in,
  q_projected,  ///< W_q A_out [N, H·e], before QK-norm
  k_projected,  ///< [N, kv_heads·e]
  q,            ///< queries as the heads read them, after QK-norm and RoPE [N, H·e]
  k,            ///< keys likewise [N, kv_heads·e]
  v,            ///< values [N, kv_heads·e]
  scores,       ///< of every token and query head the largest |score| that enters the softmax [N, H]
  mixed,        ///< the heads' outputs side by side [N, H·e]
  gate,         ///< W_gate A_out [N, h]
  up,           ///< W_up A_out [N, h]
  hidden,       ///< φ(up), or φ(gate)∘up [N, h]
  f_out,        ///< the module's output [N, D]
  B_out,        ///< B(f_out), the branch before beta [N, D]
  sum,          ///< αx + βB_out, what norm C reads [N, D]
  x_out,        ///< the stream that leaves a sublayer [N, D]; of sublayer −1 what enters the first one
  r_out,        ///< ResiDual's second stream [N, D]
  output,       ///< of the stack, after the final norm [N, D], of sublayer 2L, as all of the head
  projected,    ///< output W_project_outᵀ [N, D']
  dense,        ///< of BERT's head transform [N, D']
  activated,    ///< φ(dense) [N, D']
  transformed,  ///< norm(activated), what the unembedding reads [N, D']
  head_scores,  ///< transformed Uᵀ [N, V], before the soft cap
  logits,       ///< [N, V]

  // Stored by the arithmetic of a run alone (T24). From `products` on each is one number, the largest of its sublayer.
  dots,          ///< q·k of every head, before scale and soft cap
  cap_inputs,    ///< of every head under a soft cap c: the scaled score z and z/c; of the head likewise
  gated,         ///< φ(gate), before the product with up
  products,      ///< W x before its bias, if there is one
  normalised,    ///< x̂ of a norm before its gain, γ∘x̂ before its bias, and αx of a pointwise one
  addends,       ///< αx, βB, the embedding's rows and their partial sums
  weights,       ///< the weights themselves, rounded to the format
  sums,          ///< partial sums of a product of matrices or of a mean, in any order
  deviations,    ///< x − mean in a norm, z − max z in a softmax
  squares,       ///< their sum of squares
  reciprocals,   ///< 1/√(mean square + ε); infinite where ε is lost in the format, since 0/0 is possible then
  denominators,  ///< of softmax

  // Norms and gates inside modules, where a layer has them.
  v_projected,     ///< W_v A_out [N, kv_heads·e], before the norm of values
  attention_gate,  ///< W_g A_out [N, H] or [N, H·e], before the sigmoid; `gate_in` of an attention is what W_g reads
  gated_mixed,     ///< mixed∘σ(attention_gate) [N, H·e]
  inner            ///< what the inner norm puts out: W_o reads it [N, H·e], or W_down [N, h]
};
inline constexpr std::array<std::string_view, 47> signal_names{
    "embedding",    "input",       "x_in",           "A_out",       "q_in",       "k_in",    "v_in",
    "gate_in",      "up_in",       "q_projected",    "k_projected", "q",          "k",       "v",
    "scores",       "mixed",       "gate",           "up",          "hidden",     "f_out",   "B_out",
    "sum",          "x_out",       "r_out",          "output",      "projected",  "dense",   "activated",
    "transformed",  "head_scores", "logits",         "dots",        "cap_inputs", "gated",   "products",
    "normalised",   "addends",     "weights",        "sums",        "deviations", "squares", "reciprocals",
    "denominators", "v_projected", "attention_gate", "gated_mixed", "inner"};
static_assert(are_names_of<Signal>(signal_names));

[[nodiscard]] constexpr std::string_view name_of(Signal signal) {
  return signal_names[static_cast<std::size_t>(signal)];
}

/// The signals [N, D] of which every statistic is recorded and predicted. r_out only with two streams.
inline constexpr std::array<Signal, 6> stream_signals{Signal::x_in,  Signal::A_out, Signal::f_out,
                                                      Signal::B_out, Signal::x_out, Signal::r_out};

[[nodiscard]] constexpr bool is_stream_signal(Signal signal) {
  return std::ranges::find(stream_signals, signal) != stream_signals.end();
}

/// True if the curves of a signal run over depth, with 2L + 1 entries from the stack's input on, not over the 2L
/// sublayers.
[[nodiscard]] constexpr bool runs_over_depth(Signal signal) {
  return signal == Signal::x_out || signal == Signal::r_out;
}

/// True if a signal belongs to a step as a whole (sim/spec/block.h), and not to one of its branches.
[[nodiscard]] constexpr bool is_of_step(Signal signal) { return runs_over_depth(signal) || signal == Signal::sum; }

/// True for signals of the arithmetic that are one number for a sublayer.
[[nodiscard]] constexpr bool is_one_number(Signal signal) {
  return signal >= Signal::products && signal <= Signal::denominators;
}
/// True if mixed arithmetic holds a signal in the format of its sums, which is the wider one.
[[nodiscard]] constexpr bool is_accumulated(Signal signal) {
  return signal >= Signal::sums && signal <= Signal::denominators;
}

}  // namespace periscope
