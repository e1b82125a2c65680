#pragma once

#include <functional>
#include <map>
#include <vector>

#include "theory/first_steps/moved_modules.h"

namespace periscope::theory {

/// What one chain reads on the held-out tokens after a step.
struct MovedReading {
  std::vector<double> second_moment, coherent;              ///< [steps of the stack + 1]
  std::vector<double> branch_cosine, branch_second_moment;  ///< [2L]
  std::vector<double> kept;  ///< of what the modules read, the correlation with what it was [2L]
  double loss = 0.0;
  double gradient_norm = 0.0;  ///< of the next batch, of all matrices and tables together, before clipping
  std::map<Weight, std::vector<double>> update_square;  ///< [L]
};

/// The stack before training and after every step of the optimizer.
std::vector<MovedReading> moved_stack(const StackSpec& spec, const TrainingTokens& tokens,
                                      const OptimizerLaw& optimizer, const ChainDraws& draws, StepFault fault,
                                      const std::function<void(double)>& on_work);

}  // namespace periscope::theory
