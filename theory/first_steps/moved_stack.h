#pragma once

#include <functional>
#include <map>
#include <vector>

#include "theory/first_steps/moved_streams.h"

namespace periscope::theory {

/// One chain's statistics on the held-out tokens after a step.
struct MovedReading {
  std::vector<double> second_moment, coherent;              ///< [steps of the stack + 1]
  std::vector<double> branch_cosine, branch_second_moment;  ///< [2L]
  std::vector<double> kept;  ///< correlation of what a module reads with what it read before training [2L]
  double loss = 0.0;
  double gradient_norm = 0.0;  ///< of the next batch, before clipping: matrices, tables, gains, biases of norms
  std::map<Weight, std::vector<double>> update_square;  ///< [L]
};

/// Returns the statistics of one chain before training and after every step of the optimizer.
std::vector<MovedReading> moved_stack(const StackSpec& spec, const TrainingTokens& tokens,
                                      const OptimizerLaw& optimizer, const ChainDraws& draws, StepFault fault,
                                      const std::function<void(double)>& on_work);

}  // namespace periscope::theory
