#pragma once

#include <string>
#include <vector>

#include "theory/passes/forward.h"

namespace periscope::theory {

/// Why the gradient of the loss is not predicted: BERT's head transform is not modelled. Empty where it is predicted.
std::string loss_unsupported(const ModelSpec& model);

/// E⟨g_t, g_t'⟩ at the stack's output for cross-entropy, mean over the n tokens that have a label (T7), g = ∂loss/∂o.
/// With an unembedding: gain·⟨s_t∘(p_t−y_t), s_t'∘(p_t'−y_t')⟩/n², gain = σ_U²·its fan-in, times σ²D of a
/// projection before it; else without the factor. s is 1 or, under a soft cap of the logits, its derivative. ⟨s∘p,
/// s'∘p'⟩, ⟨s∘p, s'⟩/V and ⟨s, s'⟩/V are means over `samples` sampled logit matrices [T, V] with covariance gain·output
/// over tokens, which holds for any logit variance; the labels enter by their own collisions, mean over the sequences.
/// A negative label is none. Throws std::invalid_argument where loss_unsupported has a reason.
Matrix loss_gradient(const StackSpec& spec, const Matrix& output, const std::vector<std::vector<int>>& labels,
                     int samples, PatternStream stream);

/// Runs T7–T11 back through a forward chain and adds to `profile` the mean over tokens of E‖∂loss/∂x_t‖² at every depth
/// (Statistic::grad_sq) and E‖∂loss/∂W‖_F² of every matrix of every layer. `labels` are the label sequences to average
/// over. ResiDual: depth i ≥ 1 is the gradient with respect to the Post stream with the second one held fixed, depth 0
/// the total. Statistic::score_share at A_out is the score path's share of the trace of an attention's input gradient
/// (NaN at MLPs), whatever `paths` says. For some sequences of a batch (ChainSequences, at least two if there are more)
/// the gradients are those of the whole batch's loss, in the mean over all choices of as many sequences.
void backward_profile(const StackSpec& spec, const ForwardChain& chain, const ForwardTrace& trace,
                      const std::vector<std::vector<int>>& labels, Profile& profile,
                      GradientPaths paths = GradientPaths::all);

}  // namespace periscope::theory
