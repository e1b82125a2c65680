#pragma once

#include <vector>

#include "theory/attention/attention_pattern.h"
#include "theory/modules/channel_kernel.h"

/// Kernels of the stack's input and kernel maps of its modules (T3–T5, T29).
namespace periscope::theory {

/// Kernel of the stack's input, before the embedding norm. With a variance profile (T29), the column powers of an
/// embedding table scale channels and its row powers scale tokens.
ChannelKernel stack_input(const StackSpec& spec, const std::vector<int>& ids);

/// Kernel of the output of a layer's attention (T4), without the bias of W_o. Head h has weight mean_j(c_o,j² r_v,j²)
/// over its features j, and is sampled with that weight if heads differ. The row powers of W_o are the channel powers
/// of the output. Pattern rows sum to 1, so a bias of the values passes unchanged. `inner`, unless null, receives the
/// squared divisor of the inner norm. Throws std::logic_error for norms or gates inside the module with `spec.scales`.
ChannelKernel attention_kernel(const StackSpec& spec, int layer, const AttentionAverage& average,
                               const ChannelKernel& input, int samples, PatternStream stream, Vector* inner = nullptr);

/// Returns the weight of each query head in the attention output, mean_j(c_o,j² r_v,j²) over its features [H];
/// empty if all are 1.
Vector head_weights(const StackSpec& spec, int layer);

/// Kernel of the output of a layer's MLP (T5), without the bias of W_down. If rows differ, hidden channel j contributes
///   K_f = σ_d² Σ_j c_d,j² Φ(r_g,j² κ_g + b_g²) ∘ (r_u,j² κ_u + b_u²).
/// A Gauss rule in r_g,j (plain MLPs: r_u,j) evaluates the sum over j. Row powers of W_down are the output's channel
/// powers. `activated`, unless null, receives the activation's kernel without the up factor; not for variance profiles.
ChannelKernel mlp_kernel(const StackSpec& spec, int layer, const ChannelKernel& input, Matrix* activated = nullptr);

/// `unevenness` of a module's input and output channels and of its heads or hidden channels; 1 without profiles.
struct ChannelUnevenness {
  double width = 1.0;   ///< unevenness of the input channels times unevenness of the output channels
  double hidden = 1.0;  ///< unevenness of the heads or hidden channels
};
ChannelUnevenness channel_unevenness(const StackSpec& spec, int sublayer);

}  // namespace periscope::theory
