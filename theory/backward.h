#pragma once

#include <vector>

#include "theory/forward.h"
#include "theory/paths.h"

namespace periscope::theory {

/// Runs T7–T11 back through a forward chain and adds to `profile` the mean over tokens of E‖∂loss/∂x_t‖² at
/// every depth (Statistic::grad_sq) and E‖∂loss/∂W‖_F² of every matrix of every layer. `labels` are the label
/// sequences to average over. ResiDual: depth i ≥ 1 is the gradient with respect to the Post stream with the
/// second one held fixed, depth 0 the total. Statistic::score_share at A_out is the score path's part of the trace
/// of every attention module's input gradient (NaN at MLPs), whatever `paths` lets go on down the stack.
void backward_profile(const StackSpec& spec, const ForwardChain& chain, const ForwardTrace& trace,
                      const std::vector<std::vector<int>>& labels, Profile& profile,
                      GradientPaths paths = GradientPaths::all);

}  // namespace periscope::theory
