#pragma once

#include <functional>
#include <map>
#include <vector>

#include "theory/first_steps/trained_streams.h"

namespace periscope::theory {

/// Statistics of one replicate on the held-out tokens after an optimizer step; fields as in StepReading.
struct ReplicateReading {
  std::vector<double> second_moment, coherent;              ///< [2L+1]
  std::vector<double> branch_cosine, branch_second_moment;  ///< [2L]
  std::vector<double> input_correlation;                    ///< correlation with the input before training [2L]
  double loss = 0.0;
  double gradient_norm = 0.0;  ///< global norm of the next batch before clipping, with norm gains and biases
  std::map<Weight, std::vector<double>> update_square;  ///< mean square of an entry of ΔW·h [L]
};

/// Returns the statistics of one replicate before training and after every optimizer step.
std::vector<ReplicateReading> trained_stack(const StackSpec& spec, const TrainingTokens& tokens,
                                            const OptimizerLaw& optimizer, const ReplicateDraws& draws, StepFault fault,
                                            const std::function<void(double)>& on_work);

}  // namespace periscope::theory
