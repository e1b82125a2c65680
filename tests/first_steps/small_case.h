#pragma once

#include "theory/first_steps/first_steps.h"

namespace periscope::theory {

/// AdamW without ε, one step per rate.
OptimizerLaw adam(std::vector<double> rates);
/// SGD without momentum.
OptimizerLaw sgd(std::vector<double> rates);

/// Two layers of width 64 with 16 token ids and sequences of 4 tokens.
StackSpec small_stack(const char* placement);
/// `small_stack` with scores so small that attention patterns are uniform.
StackSpec flat_stack(const char* placement, int layers = 2);

/// One batch of two sequences per rate, for AdamW, and two held-out sequences.
FirstStepsInput small_input(std::vector<double> rates);
/// `small_input` with its first batch at every step. The held-out sequences are those of this batch, swapped.
FirstStepsInput seen_input(OptimizerLaw optimizer);

/// Options with two replicates of 64 neurons.
FirstStepsOptions few();

}  // namespace periscope::theory
