#include "experiments/studies/gradients/outcome.h"

#include "experiments/engine/judge/gradient_allowance.h"
#include "experiments/engine/judge/stack_tests.h"
#include "experiments/engine/run/cost.h"
#include "experiments/engine/run/stacks.h"
#include "experiments/engine/run/token_ids.h"
#include "sim/numerics/allowances.h"

namespace periscope::gradients {

stacks::Work work_of(const config::Config& config, const std::vector<StackSpec>& measured,
                     const std::vector<StackSpec>& overridden, int predictions) {
  stacks::Work work;
  config::RunOptions run = config.run;
  run.backward = true;
  for (const StackSpec& spec : measured) {
    work.of(stacks::WorkKind::measurement) += run.seeds * stacks::reading_operations(spec, run);
  }
  for (const StackSpec& spec : overridden)
    work.of(stacks::WorkKind::limit) += predictions * stacks::limit_operations(spec, true);
  return work;
}

theory::Prediction predict_gradients(const config::Config& config, const StackSpec& spec, const StackSpec& overridden,
                                     stacks::Progress& progress, theory::GradientPaths paths) {
  const std::string label = config::placement_label(spec);
  progress.next(stacks::WorkKind::limit, stacks::limit_operations(overridden, true), label + ": theory");
  theory::Prediction prediction =
      theory::predict(overridden, stacks::distinct_token_ids(spec, config.run.seed, config.run.seeds),
                      {.tolerance = config.theory.wanted_tolerance(),
                       .gradient_tolerance = config.theory.wanted_gradient_tolerance(),
                       .seed = config.run.seed,
                       .labels = stacks::distinct_label_ids(spec, config.run.seed, config.run.seeds),
                       .paths = paths,
                       .fault = config.theory.fault,
                       .on_share = progress.on_share()});
  progress.step(label);
  if (prediction.refusal.empty()) prediction.refusal = prediction.gradient_refusal;
  if (prediction.refusal.empty())
    prediction.refusal = judge::out_of_range(overridden, prediction.profile, config.run.dtype);
  return prediction;
}

double log_norm_bias(const config::Config& config, const StackSpec& spec, const theory::Prediction& prediction,
                     std::size_t depth, double variance, bool of_attention) {
  const double term = judge::gradient_width_term(spec, prediction.finite_width, depth, of_attention);
  return 0.5 * config.agreement.finite_width_gradient * term + variance +
         backward_allowance(format_of(config.run.dtype));
}

}  // namespace periscope::gradients
