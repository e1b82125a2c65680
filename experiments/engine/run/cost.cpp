#include "experiments/engine/run/cost.h"

#include <algorithm>

#include "experiments/engine/settings/weights_choice.h"

namespace periscope::stacks {

double pass_operations(const ModelSpec& model, int tokens, bool backward) {
  const double t = tokens;
  const double width = model.width;
  const double query = model.query_width();
  const double weights =
      2.0 * width * (query + model.key_width()) + (is_gated(model.mlp) ? 3.0 : 2.0) * model.mlp_width * width;
  const double forward = 2.0 * model.layers * (t * weights + 2.0 * t * t * query);
  if (!backward) return forward;
  const double classes = model.unembedding ? model.vocab : model.width;
  return 4.0 * forward + 6.0 * t * classes * width;  // forward, again, and the gradients of signals and of matrices
}

bool is_small_pass(const ModelSpec& model, int tokens, bool backward) {
  return pass_operations(model, tokens, backward) < 2e8;
}

double reading_operations(const StackSpec& spec, const config::RunOptions& run) {
  const config::WeightsCost cost = config::weights_cost(spec, run.dtype, run.backward);
  if (config::draws_matrix_free(spec, run)) return cost.matrix_free;
  return std::max(pass_operations(spec.model, spec.input.tokens, run.backward), cost.dense);
}

double affordable_operations(const StackSpec& spec, const config::Config& config, int seeds) {
  constexpr double operations_of_seconds = 2e12;
  return std::max(operations_of_seconds, seeds * reading_operations(spec, config.run));
}

}  // namespace periscope::stacks
