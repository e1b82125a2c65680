#include "experiments/app/commands.h"

#include <omp.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <vector>

#include "experiments/app/command.h"
#include "experiments/app/options.h"
#include "experiments/core/config/provenance.h"
#include "experiments/core/config/told.h"
#include "experiments/core/stacks/fits.h"
#include "experiments/core/stacks/told_effect.h"
#include "experiments/studies/gradients/attenuation.h"
#include "experiments/studies/gradients/crossover.h"
#include "experiments/studies/gradients/depth.h"
#include "experiments/studies/gradients/identity_path.h"
#include "experiments/studies/gradients/score_path.h"
#include "sim/spec/error.h"

namespace periscope::gradients {
namespace {

using Experiment = std::function<GradientOutcome(const GradientConfig&, Progress&)>;

/// Of every value that the experiment runs through.
Need need_of(const std::string& name, const GradientConfig& config, int threads) {
  const int deepest = *std::ranges::max_element(config.layers);
  constexpr int beyond = 16;  // how far theory goes on
  const double times = name == "attenuation" ? static_cast<double>(config.qk_factors.size())
                       : name == "crossover" ? static_cast<double>(config.down_factors.size())
                                             : 1.0;
  Need all;
  for (StackSpec spec : config.told_stacks()) {
    if (name == "depth") spec.model.layers = beyond * deepest;
    all.then(limit_need(spec, true, config.run.seeds, threads));
  }
  for (StackSpec spec : config.stacks()) {
    if (name == "depth") spec.model.layers = deepest;
    all.then(name == "identity-path" ? paths_need(spec, config.run, config.run.seeds, threads)
                                     : reading_need(spec, config.run, config.run.seeds, threads));
  }
  all.operations *= times;
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

/// `compared`: the predicted numbers that the experiment holds against what it measures.
ExitCode run(const std::string& name, const std::string& file, const CommonOptions& options, const Compared& compared,
             const Experiment& experiment) {
  GradientConfig config = options.load(gradients_section);
  config.run.backward = true;
  require_fault_acts(config);
  require_told_is_seen(config, "gradients " + name, false, compared);
  return run_cells(
      options, need_of(name, config, omp_get_max_threads()), file, config.run.out, resolved(config),
      [&](Progress& progress) { return experiment(config, progress); },
      [&](const GradientOutcome& outcome) {
        return publish(file, options, config.run.out, *outcome.data, outcome.table + told_lines(config),
                       outcome.rejected ? ExitCode::check_failed : ExitCode::ok);
      });
}

/// What an experiment found, for people and files, unless it was stopped.
template <class Result, class Form>
GradientOutcome outcome_of(const Result& result, const Form& form) {
  if (result.stopped_early) return {.data = {}, .table = {}, .stopped_early = true};
  return form(result);
}

}  // namespace

void add_commands(CLI::App& app, int& code) {
  CLI::App* gradients = app.add_subcommand("gradients", "Experiments about gradients: claims G6, G8, G10, G11");
  gradients->require_subcommand(1);
  const auto add = [&](const std::string& name, const std::string& file, const std::string& about,
                       const Compared& compared, const Experiment& experiment) {
    CLI::App* command = gradients->add_subcommand(name, about);
    const auto options = std::make_shared<CommonOptions>();
    options->add_to(*command);
    options->add_theory_set_to(*command);
    options->add_skip_finished_to(*command);
    command->callback(
        [=, &code] { code = exit_code_of([&] { return run(name, file, *options, compared, experiment); }); });
  };
  add(
      "depth", "gradient_depth",
      "The last MLP matrix's gradient against the number of layers, with fitted exponents (G8)",
      [](const Profile& p) { return last_down(p, false); },
      [](const GradientConfig& c, Progress& p) {
        return outcome_of(gradient_depth(c, p), [&](const auto& r) { return depth_outcome(c, r); });
      });
  add(
      "attenuation", "gradient_attenuation",
      "Rate per layer at which gradients shrink towards the input, for uniform and real attention (G10)",
      [](const Profile& p) { return stream_and(p, Statistic::grad_sq, Weight::down); },
      [](const GradientConfig& c, Progress& p) {
        return outcome_of(gradient_attenuation(c, p), [&](const auto& r) { return attenuation_outcome(c, r.cases); });
      });
  add(
      "identity-path", "identity_path",
      "The gradient as a sum over paths: the skip connections alone, and the branches (G11)",
      [](const Profile& p) { return stream_and(p, Statistic::score_share, Signal::A_out); },
      [](const GradientConfig& c, Progress& p) {
        return outcome_of(identity_path(c, p), [&](const auto& r) { return identity_path_outcome(c, r.stacks); });
      });
  add(
      "score-path", "score_path", "What queries and keys carry of the gradient, and a theory that leaves it out (T9)",
      [](const Profile& p) { return stream_and(p, Statistic::score_share, Signal::A_out); },
      [](const GradientConfig& c, Progress& p) {
        return outcome_of(score_path(c, p), [&](const auto& r) { return score_path_outcome(c, r.stacks); });
      });
  add(
      "crossover", "gradient_crossover",
      "The last MLP matrix's gradient over Pre-LN's, against the size of the MLP's output (G6, T14)",
      [](const Profile& p) { return last_down(p, true); },
      [](const GradientConfig& c, Progress& p) {
        return outcome_of(gradient_crossover(c, p), [&](const auto& r) { return crossover_outcome(c, r); });
      });
}

}  // namespace periscope::gradients
