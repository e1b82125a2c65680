

#include "experiments/core/stacks/stacks.h"

#include <fmt/format.h>

#include "experiments/core/config/told.h"
#include "experiments/core/stacks/progress.h"
#include "experiments/core/stacks/token_ids.h"
#include "sim/backends.h"
#include "theory/predict/finite_width.h"

namespace periscope::stacks {

std::vector<StackResult> predict_stacks(const config::Config& config, bool at_width, const Progress& progress) {
  config::require_fault_acts(config);
  const std::vector<StackSpec> stacks = config.stacks();
  const std::vector<StackSpec> told = config.told_stacks();
  std::vector<StackResult> results;
  for (std::size_t i = 0; i < stacks.size(); ++i) {
    progress.throw_if_stop_requested();
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

MeasuredStacks measure_stacks(const config::Config& config, const std::string& what, Progress& progress) {
  const std::unique_ptr<Backend> backend = make_backend(config.run.device);
  MeasuredStacks measured{.specs = config.stacks(), .measurements = {}, .per_seed = {}, .dtype = config.run.dtype};
  progress.begin(what, static_cast<std::int64_t>(measured.specs.size()) * config.run.seeds);
  for (const StackSpec& spec : measured.specs) {
    const std::string label = fmt::format("{}, {} input", config::short_label(spec),
                                          input_kind_names[static_cast<std::size_t>(spec.input.kind)]);
    judge::SeedCurves& curves = measured.per_seed.emplace_back();
    const SeedAverage average =
        measure_stack(*backend, spec, config.run, config.run.seeds, progress, [&](const Reading& reading) {
          curves.add(reading.profile);
          progress.step(label);
        });
    measured.measurements.push_back({.profile = average.profile(),
                                     .top = average.top(),
                                     .seeds = average.seeds(),
                                     .diverged_seeds = average.diverged_seeds(),
                                     .diverged_at = average.diverged_at()});
  }
  return measured;
}

std::vector<judge::Agreement> judge_stacks(const MeasuredStacks& measured,
                                           const std::vector<const theory::Prediction*>& predictions,
                                           const config::AgreementOptions& options) {
  std::vector<judge::Comparison> comparisons;
  for (std::size_t i = 0; i < measured.specs.size(); ++i) {
    const Measurement& m = measured.measurements[i];
    comparisons.push_back({.spec = measured.specs[i],
                           .measured = m.profile,
                           .seeds = m.seeds,
                           .diverged_seeds = m.diverged_seeds,
                           .dtype = measured.dtype,
                           .prediction = *predictions[i],
                           .per_seed = &measured.per_seed[i]});
  }
  return judge::agreements_of(comparisons, options);
}

}  // namespace periscope::stacks
