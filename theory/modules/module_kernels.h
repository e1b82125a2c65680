#pragma once

#include <vector>

#include "theory/attention/attention_pattern.h"
#include "theory/modules/channel_kernel.h"

/// T3–T5 and T29: what a stack's input and its modules make of a signal's kernels.
namespace periscope::theory {

/// The stack's input before the embedding norm. With profiles a table's columns are powers of channels, its rows sizes
/// of tokens.
ChannelKernel stack_input(const StackSpec& spec, const std::vector<int>& ids);

/// T4: the output of a layer's attention, without W_o's bias. A head counts with mean_j(c_o,j² r_v,j²) over its
/// features j, and is sampled by it where heads have laws of their own; W_o's rows are powers of the output's channels.
/// Rows of a pattern sum to 1, so a bias of the values passes unchanged. Norms and gates inside (inside_modules.h) need
/// a stack without scales; `inner`, unless it is null, becomes the square that an inner norm divides by.
ChannelKernel attention_kernel(const StackSpec& spec, int layer, const AttentionAverage& average,
                               const ChannelKernel& input, int samples, PatternStream stream, Vector* inner = nullptr);

/// Returns the share of attention's output that comes from each query head, mean_j(c_o,j² r_v,j²) over its features
/// [H]; empty: 1.
Vector head_weights(const StackSpec& spec, int layer);

/// T5: the output of a layer's MLP, without W_down's bias. Hidden channel j of unlike rows has kernels of its own:
///   K_f = σ_d² Σ_j c_d,j² Φ(r_g,j² κ_g + b_g²) ∘ (r_u,j² κ_u + b_u²),
/// the sum over j by a Gauss rule in r_g,j (plain MLPs: r_u,j), and W_down's rows are powers of the output's channels.
/// `activated`, unless it is null, becomes the activation's kernel, before the gate's factor: of flat matrices only.
ChannelKernel mlp_kernel(const StackSpec& spec, int layer, const ChannelKernel& input, Matrix* activated = nullptr);

/// `unevenness` of the channels that a module reads or writes, and of its heads or hidden channels. 1 without profiles.
struct ChannelLoss {
  double width = 1.0;
  double hidden = 1.0;
};
ChannelLoss channel_loss(const StackSpec& spec, int sublayer);

}  // namespace periscope::theory
