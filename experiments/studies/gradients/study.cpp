#include "experiments/engine/study/study.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "experiments/engine/run/regime.h"
#include "experiments/engine/settings/stack_rules.h"
#include "experiments/engine/settings/sweep.h"
#include "experiments/engine/settings/theory_override.h"
#include "experiments/studies/gradients/common.h"

namespace periscope::gradients {
namespace {

/// Returns the memory estimate over all swept values.
stacks::MemoryEstimate memory_of(const Experiment& experiment, const GradientConfig& config) {
  const int threads = study::threads_of(config.run);
  constexpr int depth_ratio = 16;  // ratio of the deepest predicted to the deepest measured stack
  const int deepest = experiment.over_depths ? std::ranges::max(config.layers) : 0;
  stacks::MemoryEstimate all;
  for (StackSpec spec : config.predicted_stacks()) {
    if (experiment.over_depths) spec.model.layers = depth_ratio * deepest;
    all.add_phase(stacks::limit_memory(spec, true, threads));
  }
  for (StackSpec spec : config.stacks()) {
    if (experiment.over_depths) spec.model.layers = deepest;
    config::RunOptions run = config.run;
    if (experiment.decomposes) run.weights = config::WeightsChoice::dense;
    // A decomposition stores every signal and its gradient.
    all.add_phase(stacks::reading_memory(spec, run, run.seeds, threads, experiment.decomposes ? 2.0 : 0.0));
  }
  return all;
}

std::vector<std::string> regime_of(const Experiment& experiment, const GradientConfig& config) {
  std::vector<StackSpec> all = config.stacks();
  if (!experiment.over_depths) return stacks::regime_of(all);
  for (StackSpec& spec : all) spec.model.layers = std::ranges::min(config.layers);
  all.push_back(all.front());
  all.back().model.layers = std::ranges::max(config.layers);
  return stacks::regime_of(all);
}

study::Job resolve(const Experiment& experiment, const study::Request& request) {
  GradientConfig config = request.load(gradients_section);
  config.run.backward = true;
  config::require_effective_fault(config);
  config::require_single_additions(config.stacks(), "gradients are traced from sublayer to sublayer");
  config::require_one_value(config, "model.width", "tolerated biases are computed for one width",
                            [](const StackSpec& spec) { return spec.model.width; });
  config::require_one_value(config, "model.layers", "all rows of the result share its depths",
                            [](const StackSpec& spec) { return spec.model.layers; });
  experiment.require(config);
  return {.file = experiment.schema.kind(),
          .run_options = config.run,
          .resolved = config::resolved(config).add(gradients_section, config),
          .overridden = config::override_json(config),
          .memory = memory_of(experiment, config),
          .run = [config, &experiment](stacks::Progress& progress) -> study::Outcome {
            stacks::require_effective_override(config, experiment.name, false, experiment.compared);
            const Result result = gradients::run(experiment, config, progress);
            study::Outcome outcome = outcome_of(experiment, config, result);
            outcome.table += fmt::format("in the regime {}.\n", stacks::in_one_line(regime_of(experiment, config)));
            outcome.table += config::override_lines(config);
            return outcome;
          }};
}

}  // namespace

std::vector<study::Study> studies() {
  static const std::vector<Experiment> experiments{depth_experiment(), attenuation_experiment(),
                                                   identity_path_experiment(), score_path_experiment(),
                                                   crossover_experiment()};
  std::vector<study::Study> all;
  for (const Experiment& experiment : experiments) {
    all.push_back({.name = experiment.name,
                   .question = experiment.question,
                   .example = experiment.name + " --config experiments/configs/" + experiment.configuration,
                   .group = "Experiments about gradients",
                   .sections = {config::any_section(gradients_section)},
                   .schema = &experiment.schema,
                   .compares = true,
                   .skippable = true,
                   .without = experiment.decomposes ? study::FlagNames{"memory"} : study::FlagNames{},
                   .shared_keys = {"model.", "init.", "input.", "theory.", "agreement."},
                   .resolve = [&experiment](const study::Request& request) { return resolve(experiment, request); }});
    if (!experiment.decomposes) all.back().shared_keys.emplace_back("run.weights");  // decompositions use dense weights
  }
  return all;
}

}  // namespace periscope::gradients
