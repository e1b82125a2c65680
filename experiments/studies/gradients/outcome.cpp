#include "experiments/studies/gradients/outcome.h"

#include <fmt/format.h>

#include "experiments/engine/judge/gradient_allowance.h"
#include "experiments/engine/judge/stack_tests.h"
#include "experiments/engine/run/cached.h"
#include "experiments/engine/run/parts.h"
#include "experiments/engine/run/stacks.h"
#include "experiments/engine/run/token_ids.h"
#include "sim/numerics/allowances.h"

namespace periscope::gradients {

std::int64_t tasks_of(const config::Config& config, std::size_t stacks, int predictions) {
  return static_cast<std::int64_t>(stacks) * (config.run.seeds + predictions);
}

theory::Prediction predict_gradients(const config::Config& config, const StackSpec& spec, const StackSpec& overridden,
                                     stacks::Progress& progress, theory::GradientPaths paths) {
  const auto task = [&] {
    const std::string what = fmt::format("gradients{}", static_cast<int>(paths));
    return stacks::prediction_task(what, spec, overridden, config);
  };
  theory::Prediction prediction = stacks::cached(progress, config::short_label(spec) + ": theory", task, [&] {
    return theory::predict(overridden, stacks::distinct_token_ids(spec, config.run.seed, config.run.seeds),
                           {.tolerance = config.theory.wanted_tolerance(),
                            .gradient_tolerance = config.theory.wanted_gradient_tolerance(),
                            .seed = config.run.seed,
                            .labels = stacks::distinct_label_ids(spec, config.run.seed, config.run.seeds),
                            .paths = paths,
                            .fault = config.theory.fault,
                            .on_share = progress.on_share()});
  });
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
