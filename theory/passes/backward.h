#pragma once

#include <string>
#include <vector>

#include "theory/passes/forward.h"

namespace periscope::theory {

/// Returns why the gradient of the loss is unsupported, or "": BERT's head transform is not modelled.
std::string loss_unsupported(const ModelSpec& model);

/// Returns the gradient kernel E⟨g_t, g_t'⟩ at the stack's output (T7), g = ∂loss/∂o, for cross-entropy averaged over
/// the n tokens with a label. With an unembedding of standard deviation σ_U it is
///   gain·⟨s_t∘(p_t−y_t), s_t'∘(p_t'−y_t')⟩/n²,  gain = σ_U²·fan-in, times σ²D of a projection before it;
/// without an unembedding, gain = 1. s is the derivative of a soft cap of the logits, or 1. ⟨s∘p, s'∘p'⟩, ⟨s∘p, s'⟩/V
/// and ⟨s, s'⟩/V are means over `samples` logit matrices [T, V] of covariance gain·output over tokens, exact for any
/// logit variance. Pairs of equal labels are counted and averaged over the sequences; a negative label means no label.
/// Throws std::invalid_argument if loss_unsupported returns a reason.
/// With a fit, kernels cover the tokens of its grid.
Matrix loss_gradient(const StackSpec& spec, const Matrix& output, const std::vector<std::vector<int>>& labels,
                     int samples, PatternStream stream, const GridFit* fit = nullptr);

/// Runs the backward recursion (T7–T11) and adds to `profile` the mean over tokens of E‖∂loss/∂x_t‖² at every depth
/// (Statistic::grad_sq) and E‖∂loss/∂W‖_F² of every matrix of every layer, averaged over the label sequences `labels`.
/// ResiDual: at depth i ≥ 1 the gradient is with respect to the Post stream, at a fixed second stream; at depth 0 it is
/// the total. Statistic::score_share at A_out is the score path's share of the trace of the gradient kernel at an
/// attention's input, for any `paths`; NaN at MLPs. If the replicate holds some windows of a batch (ReplicateSequences,
/// at least two), gradients are those of the whole batch's loss, averaged over all choices of windows.
void backward_profile(const StackSpec& spec, const ForwardReplicate& replicate, const ForwardTrace& trace,
                      const std::vector<std::vector<int>>& labels, Profile& profile,
                      GradientPaths paths = GradientPaths::all);

}  // namespace periscope::theory
