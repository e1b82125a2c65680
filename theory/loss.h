#pragma once

#include <vector>

#include "theory/attention_head.h"

namespace periscope::theory {

/// E⟨g_t, g_t'⟩ at the stack's output for cross-entropy, mean over T tokens (T7), g = ∂loss/∂o. With an
/// unembedding: σ_U²D ⟨p_t−y_t, p_t'−y_t'⟩/T², else without the factor. ⟨p, p'⟩ is the mean over `samples`
/// sampled logit matrices [T, V] with covariance σ_U²D·output (without unembedding: output) over tokens, which
/// holds for any logit variance; ⟨p, y'⟩ = 1/V; ⟨y, y'⟩ are the labels' own collisions, mean over the sequences.
Matrix loss_gradient(const StackSpec& spec, const Matrix& output, const std::vector<std::vector<int>>& labels,
                     int samples, PatternStream stream);

}  // namespace periscope::theory
