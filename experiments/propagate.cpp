#include "experiments/propagate.h"

#include <fmt/format.h>

#include <deque>

#include "experiments/common/measure_stack.h"
#include "experiments/common/progress.h"
#include "experiments/common/token_ids.h"
#include "experiments/common/told.h"
#include "sim/backends.h"
#include "theory/finite_width.h"

namespace periscope {

std::vector<StackResult> predict_stacks(const Config& config, bool at_width) {
  require_fault_acts(config);
  const std::vector<StackSpec> stacks = config.stacks();
  const std::vector<StackSpec> told = config.told_stacks();
  std::vector<StackResult> results;
  for (std::size_t i = 0; i < stacks.size(); ++i) {
    const StackSpec& spec = stacks[i];
    StackResult result{.spec = spec, .prediction = {}, .measurement = {}, .agreement = {}};
    theory::PredictionOptions options{.tolerance = config.theory.tolerance,
                                      .gradient_tolerance = config.theory.gradient_tolerance,
                                      .seed = config.run.seed,
                                      .fault = config.theory.fault};
    if (config.run.backward) options.labels = distinct_label_ids(spec, config.run.seed, config.run.seeds);
    // Token ids and labels are the run's own, whatever else theory is told.
    const std::vector<std::vector<int>> ids = distinct_token_ids(spec, config.run.seed, config.run.seeds);
    result.prediction = theory::predict(told[i], ids, options);
    if (at_width) {
      theory::predict_at_width(told[i], ids,
                               {.seeds = config.run.seeds,
                                .replicates = config.theory.replicates,
                                .seed = config.run.seed,
                                .fault = config.theory.fault},
                               result.prediction);
    }
    results.push_back(std::move(result));
  }
  return results;
}

std::vector<StackResult> propagate(const Config& config, bool quiet) {
  const std::unique_ptr<Backend> backend = make_backend(config.run.device);
  std::vector<StackResult> results = predict_stacks(config, config.theory.finite_width.value_or(true));
  Progress progress("propagate", static_cast<int>(results.size()) * config.run.seeds, quiet);
  std::vector<Comparison> comparisons;
  std::deque<SeedCurves> per_seed;  // comparisons point to its members
  for (StackResult& result : results) {
    const std::string label = fmt::format("{}, {} input", result.spec.model.placement.name,
                                          input_kind_names[static_cast<std::size_t>(result.spec.input.kind)]);
    SeedCurves& curves = per_seed.emplace_back();
    const SeedAverage average =
        measure_stack(*backend, result.spec, config.run, config.run.seeds, [&](const Reading& reading) {
          curves.add(reading.profile);
          progress.step(label);
        });
    result.measurement = Measurement{.profile = average.profile(),
                                     .top = average.top(),
                                     .seeds = average.seeds(),
                                     .diverged_seeds = average.diverged_seeds(),
                                     .diverged_at = average.diverged_at()};
    comparisons.push_back({.spec = result.spec,
                           .measured = result.measurement->profile,
                           .seeds = average.seeds(),
                           .diverged_seeds = average.diverged_seeds(),
                           .dtype = config.run.dtype,
                           .prediction = result.prediction,
                           .per_seed = &curves});
  }
  const std::vector<Agreement> agreements = judge(comparisons, config.agreement);
  for (std::size_t i = 0; i < results.size(); ++i) results[i].agreement = agreements[i];
  return results;
}

}  // namespace periscope
