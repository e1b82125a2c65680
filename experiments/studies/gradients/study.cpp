#include "experiments/engine/study/study.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "experiments/engine/run/override_effect.h"
#include "experiments/engine/run/regime.h"
#include "experiments/engine/settings/stack_rules.h"
#include "experiments/engine/settings/theory_override.h"
#include "experiments/engine/settings/variants.h"
#include "experiments/studies/gradients/experiments.h"

namespace periscope::gradients {
namespace {

using study::Outcome;

struct Experiment {
  std::string name;  ///< "gradients depth"
  std::string file;  ///< of its result
  std::string question;
  std::string configuration;  ///< in experiments/configs
  const dataset::Schema* schema = nullptr;
  stacks::Compared compared;  ///< the predicted numbers that it holds against what it measures
  bool over_depths = false;   ///< it runs through gradients.layers
  bool decomposes = false;    ///< it decomposes gradients by their paths
  std::function<void(const GradientConfig&)> require = {};  ///< throws ConfigError for what it cannot do; none: nothing
  std::function<Outcome(const GradientConfig&, stacks::Progress&)> run;
};

/// Adds up the need of every value that the experiment runs through.
stacks::MemoryEstimate memory_of(const Experiment& experiment, const GradientConfig& config) {
  const int threads = study::threads_of(config.run);
  constexpr int beyond = 16;  // times the greatest depth: how far theory goes on
  int deepest = 1;
  for (const int layers : config.layers) deepest = std::max(deepest, layers);
  stacks::MemoryEstimate all;
  for (StackSpec spec : config.predicted_stacks()) {
    if (experiment.over_depths) spec.model.layers = beyond * deepest;
    all.then(stacks::limit_memory(spec, true, threads));
  }
  for (StackSpec spec : config.stacks()) {
    if (experiment.over_depths) spec.model.layers = deepest;
    config::RunOptions run = config.run;
    if (experiment.decomposes) run.weights = config::WeightsChoice::dense;
    // What decomposes gradients keeps every signal and its gradient.
    all.then(stacks::reading_memory(spec, run, run.seeds, threads, experiment.decomposes ? 2.0 : 0.0));
  }
  return all;
}

/// The gradient of the last layer's W_down and, with `outputs`, the size of the last MLP's output.
std::vector<double> last_down(const Profile& predicted, bool outputs) {
  std::vector<double> numbers;
  if (const Curve* down = predicted.find(Statistic::grad_sq, Weight::down)) numbers.push_back(down->value.back());
  if (outputs) numbers.push_back(predicted.find(Statistic::second_moment, Signal::f_out)->value.back());
  return numbers;
}

/// The stream's gradient at every depth, and beside it one more curve.
template <class Place>
std::vector<double> stream_and(const Profile& predicted, Statistic statistic, Place place) {
  std::vector<double> numbers;
  for (const Curve* curve : {predicted.find(Statistic::grad_sq, Signal::x_out), predicted.find(statistic, place)}) {
    if (curve != nullptr) numbers.insert(numbers.end(), curve->value.begin(), curve->value.end());
  }
  return numbers;
}
std::vector<double> stream_and_shares(const Profile& predicted) {
  return stream_and(predicted, Statistic::score_share, Signal::A_out);
}

/// Returns a run whose result `say` makes an outcome of, unless it was stopped.
template <class Run, class Say>
auto running(const Run& run, const Say& say) {
  return [run, say](const GradientConfig& config, stacks::Progress& progress) -> Outcome {
    const auto result = run(config, progress);
    if (result.stopped_early) return {.stopped_early = true};
    return say(config, result);
  };
}

std::vector<Experiment> experiments() {
  return {{.name = "gradients depth",
           .file = "gradient_depth",
           .question = "The last MLP matrix's gradient against the number of layers, with fitted exponents",
           .configuration = "gradient_depth.toml",
           .schema = &depth_schema(),
           .compared = [](const Profile& p) { return last_down(p, false); },
           .over_depths = true,
           .require = require_depths,
           .run = running(gradient_depth, depth_outcome)},
          {.name = "gradients attenuation",
           .file = "gradient_attenuation",
           .question = "Rate per layer at which gradients shrink towards the input, for uniform and real attention",
           .configuration = "gradient_attenuation.toml",
           .schema = &attenuation_schema(),
           .compared = [](const Profile& p) { return stream_and(p, Statistic::grad_sq, Weight::down); },
           .require = require_rate,
           .run = running(gradient_attenuation, attenuation_outcome)},
          {.name = "gradients identity-path",
           .file = "identity_path",
           .question = "The gradient as a sum over paths: the skip connections alone, and the branches",
           .configuration = "identity_path.toml",
           .schema = &identity_path_schema(),
           .compared = stream_and_shares,
           .decomposes = true,
           .require = require_one_stream,
           .run = running(identity_path, identity_path_outcome)},
          {.name = "gradients score-path",
           .file = "score_path",
           .question = "What queries and keys carry of the gradient, and a theory that leaves it out",
           .configuration = "score_path.toml",
           .schema = &score_path_schema(),
           .compared = stream_and_shares,
           .run = running(score_path, score_path_outcome)},
          {.name = "gradients crossover",
           .file = "gradient_crossover",
           .question = "The last MLP matrix's gradient over Pre-LN's, against the size of the MLP's output",
           .configuration = "crossover.toml",
           .schema = &crossover_schema(),
           .compared = [](const Profile& p) { return last_down(p, true); },
           .require = require_ratios,
           .run = running(gradient_crossover, crossover_outcome)}};
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
  config::require_fault_acts(config);
  config::require_single_additions(config.stacks(), "gradients are followed from sublayer to sublayer");
  config::require_one_value(config, "model.width", "the allowances of its verdicts are those of one width",
                            [](const StackSpec& spec) { return spec.model.width; });
  if (experiment.require) experiment.require(config);
  return {.file = experiment.file,
          .run_options = config.run,
          .resolved = config::resolved(config).add(gradients_section, config),
          .overridden = config::override_json(config),
          .memory = memory_of(experiment, config),
          .run = [config, experiment](stacks::Progress& progress) {
            stacks::require_override_is_seen(config, experiment.name, false, experiment.compared);
            Outcome outcome = experiment.run(config, progress);
            if (outcome.stopped_early) return outcome;
            outcome.table += fmt::format("in the regime {}.\n", stacks::in_one_line(regime_of(experiment, config)));
            outcome.table += config::override_lines(config);
            return outcome;
          }};
}

/// Decompositions draw their weights themselves.
std::vector<std::string> keys_of(const Experiment& experiment) {
  std::vector<std::string> keys = {"model.", "init.", "input.", "theory.", "agreement."};
  if (!experiment.decomposes) keys.emplace_back("run.weights");
  return keys;
}

}  // namespace

std::vector<study::Study> studies() {
  std::vector<study::Study> all;
  for (const Experiment& experiment : experiments()) {
    all.push_back({.name = experiment.name,
                   .question = experiment.question,
                   .example = experiment.name + " --config experiments/configs/" + experiment.configuration,
                   .group = "Experiments about gradients",
                   .sections = {config::any_section(gradients_section)},
                   .schema = experiment.schema,
                   .compares = true,
                   .skips = true,
                   .common = {.memory = !experiment.decomposes},
                   .shared_keys = keys_of(experiment),
                   .resolve = [experiment](const study::Request& request) { return resolve(experiment, request); }});
  }
  return all;
}

}  // namespace periscope::gradients
