#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

#include "sim/base/enumerators.h"

namespace periscope {

/// Signals of a stack in the order of computation (T1), for simulation, predictions and certificates. N = sequences ·
/// tokens, D = width, H = heads, e = head_dim, h = mlp_width, V = vocab, D' = width of the embedding table. "Sublayer"
/// −1 means before the first sublayer, 2L after the last.
enum class Signal {
  embedding,  ///< scale·E[id] [N, D'], at sublayer −1
  input,      ///< the stack's input [N, D], before the embedding norm, at sublayer −1
  x_in,       ///< the stream at a sublayer's input [N, D]
  A_out,      ///< input_gain·A(x_in), the module's input [N, D]
  q_in,       ///< A_out as input of W_q [N, D]: its gradient is the part of A_out's gradient through W_q
  k_in,       ///< the same for W_k; v_in, gate_in and up_in: the same for W_v, W_gate and W_up
  v_in,
  gate_in,
  up_in,
  q_projected,  ///< W_q A_out [N, H·e], before QK-norm
  k_projected,  ///< W_k A_out [N, kv_heads·e], before QK-norm
  q,            ///< queries after QK-norm and RoPE [N, H·e]
  k,            ///< keys after QK-norm and RoPE [N, kv_heads·e]
  v,            ///< values [N, kv_heads·e]
  scores,       ///< largest |score| entering the softmax, per token and query head [N, H]
  mixed,        ///< concatenated outputs of the heads [N, H·e]
  gate,         ///< W_gate A_out [N, h]
  up,           ///< W_up A_out [N, h]
  hidden,       ///< φ(up), or φ(gate)∘up [N, h]
  f_out,        ///< the module's output [N, D]
  B_out,        ///< B(f_out), the branch before beta [N, D]
  sum,          ///< αx + βB_out, the input of norm C; in certificates also the sum before a layer's factor [N, D]
  x_out,        ///< the stream at a sublayer's output [N, D]; at sublayer −1, the input of the first sublayer
  r_out,        ///< second stream of ResiDual [N, D]
  output,       ///< the stack's output after the final norm [N, D]; like all signals of the head, at sublayer 2L
  projected,    ///< output W_project_outᵀ [N, D']
  dense,        ///< x Wᵀ in BERT's head transform [N, D']
  activated,    ///< φ(dense) [N, D']
  transformed,  ///< norm(activated), the input of the unembedding [N, D']
  head_scores,  ///< transformed Uᵀ [N, V], before the factor and the soft cap
  logits,       ///< head_scores times the factor, after the soft cap [N, V]

  // Recorded only to evaluate the arithmetic of a run (T24); `products` to `denominators` as one maximum per sublayer.
  dots,          ///< q·k of every head, before scale and soft cap
  cap_inputs,    ///< with a soft cap c: scaled scores z and z/c of every attention head; the same for the logits
  gated,         ///< φ(gate), before the product with up
  products,      ///< W x before its bias, if there is one
  normalised,    ///< in norms: x̂ before the gain, γ∘x̂ before the bias, and αx of pointwise norms
  addends,       ///< αx, βB, the embedding's rows and their partial sums. Also partial sums of experts' outputs
  weights,       ///< weights rounded to the format
  sums,          ///< partial sums of a matrix product or a mean, in any order
  deviations,    ///< x − mean in a norm, z − max z in a softmax
  squares,       ///< sum of the squared deviations
  reciprocals,   ///< 1/√(mean square + ε); bounded by infinity where ε underflows, as rows of zeros give 0/0
  denominators,  ///< denominators of softmax

  // Norms and gates inside modules, where a layer has them.
  v_projected,     ///< W_v A_out [N, kv_heads·e], before the norm of values
  attention_gate,  ///< W_g A_out [N, H] or [N, H·e], before the sigmoid; W_g reads the attention's `gate_in`
  gated_mixed,     ///< mixed∘σ(attention_gate) [N, H·e]
  inner,           ///< output of the inner norm: input of W_o [N, H·e] or W_down [N, h]
  router           ///< W_r A_out [N, experts], before the softmax; only in certificates
};
inline constexpr std::array<std::string_view, 48> signal_names{
    "embedding",    "input",       "x_in",           "A_out",       "q_in",       "k_in",    "v_in",
    "gate_in",      "up_in",       "q_projected",    "k_projected", "q",          "k",       "v",
    "scores",       "mixed",       "gate",           "up",          "hidden",     "f_out",   "B_out",
    "sum",          "x_out",       "r_out",          "output",      "projected",  "dense",   "activated",
    "transformed",  "head_scores", "logits",         "dots",        "cap_inputs", "gated",   "products",
    "normalised",   "addends",     "weights",        "sums",        "deviations", "squares", "reciprocals",
    "denominators", "v_projected", "attention_gate", "gated_mixed", "inner",      "router"};
static_assert(are_names_of<Signal>(signal_names));

[[nodiscard]] constexpr std::string_view name_of(Signal signal) {
  return signal_names[static_cast<std::size_t>(signal)];
}

/// Signals [N, D] for which every statistic is recorded and predicted. r_out exists only with two streams.
inline constexpr std::array<Signal, 6> stream_signals{Signal::x_in,  Signal::A_out, Signal::f_out,
                                                      Signal::B_out, Signal::x_out, Signal::r_out};

[[nodiscard]] constexpr bool is_stream_signal(Signal signal) {
  return std::ranges::find(stream_signals, signal) != stream_signals.end();
}

/// True if curves run over depth (2L + 1 entries, starting at the stack's input) instead of sublayers (2L).
[[nodiscard]] constexpr bool runs_over_depth(Signal signal) {
  return signal == Signal::x_out || signal == Signal::r_out;
}

/// True if the signal belongs to a step as a whole (sim/spec/block.h) instead of one of its branches.
[[nodiscard]] constexpr bool is_of_step(Signal signal) { return runs_over_depth(signal) || signal == Signal::sum; }

/// True for signals of the arithmetic (T24) that are recorded as one number per sublayer.
[[nodiscard]] constexpr bool is_one_number(Signal signal) {
  return signal >= Signal::products && signal <= Signal::denominators;
}
/// True if mixed-precision arithmetic stores the signal in the accumulation format.
[[nodiscard]] constexpr bool is_accumulated(Signal signal) {
  return signal >= Signal::sums && signal <= Signal::denominators;
}

}  // namespace periscope
