#pragma once

#include "theory/first_steps/first_steps.h"

namespace periscope::theory {

/// AdamW without ε, one step for every rate.
OptimizerLaw adam(std::vector<double> rates);
/// SGD without momentum.
OptimizerLaw sgd(std::vector<double> rates);

/// Two layers of width 64 with 16 token ids and sequences of 4 tokens.
StackSpec small_stack(const char* placement);
/// The same stack with scores so small that attention patterns are constant.
StackSpec flat_stack(const char* placement, int layers = 2);

/// Batches of two sequences for every rate, for AdamW, and two other sequences to look at.
FirstStepsInput small_input(std::vector<double> rates);
/// The first of these batches at every step, and as what is looked at, its two sequences in the other order.
FirstStepsInput seen_input(OptimizerLaw optimizer);

/// Two chains of 64 neurons.
FirstStepsOptions few();

}  // namespace periscope::theory
