#include "experiments/studies/gradients/score_path.h"

#include <cmath>
#include <limits>

#include "experiments/engine/judge/gradient_floor.h"
#include "experiments/engine/judge/stack_tests.h"
#include "experiments/engine/run/progress.h"
#include "experiments/engine/run/stacks.h"
#include "sim/backends.h"

namespace periscope::gradients {
namespace {

Curve attention_only(const Curve& sublayers) {
  Curve layers;
  for (std::size_t l = 0; l < sublayers.value.size(); l += 2) {
    layers.value.push_back(sublayers.value[l]);
    layers.standard_error.push_back(sublayers.standard_error[l]);
  }
  return layers;
}

double variance_of(const Curve& measured, std::size_t i, int seeds) {
  return seeds * measured.standard_error[i] * measured.standard_error[i];
}

judge::Test test_of(const Curve& measured, const Curve& predicted, std::size_t i, const config::Config& config,
                    const theory::Prediction& prediction, Statistic statistic, double tolerated_bias) {
  return {.statistic = statistic,
          .measured = {measured.value[i], measured.standard_error[i]},
          .predicted = {predicted.value[i], predicted.standard_error[i]},
          .tolerated_bias = tolerated_bias,
          .limit = judge::limit_of(config.agreement.power_limits, statistic),
          .seeds = config.run.seeds,
          .replicates = prediction.replicates,
          .precise = theory::is_precise(prediction, statistic, predicted, i)};
}

ScorePath measure_path(const config::Config& config, const Backend& backend, const StackSpec& spec,
                       const StackSpec& overridden, stacks::Progress& progress) {
  ScorePath path;
  path.spec = spec;
  const int seeds = config.run.seeds;
  const std::string label(config::short_label(spec));
  const Profile measured =
      stacks::measure_stack(backend, spec, config.run, seeds, label, progress, [](const Reading&) {}).profile();
  path.share_measured = attention_only(*measured.find(Statistic::score_share, Signal::A_out));
  path.log_measured = *measured.find(Statistic::log_grad_sq, Signal::x_out);
  const theory::Prediction all = predict_gradients(config, spec, overridden, progress);
  path.refusal = all.refusal;
  if (!path.refusal.empty()) return path;
  const theory::Prediction values =
      predict_gradients(config, spec, overridden, progress, theory::GradientPaths::without_scores);
  path.share_predicted = attention_only(*all.profile.find(Statistic::score_share, Signal::A_out));
  path.log_with = *all.profile.find(Statistic::log_grad_sq, Signal::x_out);
  path.log_without = *values.profile.find(Statistic::log_grad_sq, Signal::x_out);
  // As `judge` does: where half the variance of one logarithm is 1 or more, few seeds see what its mean rests on, and
  // allowances of first order in 1/width say nothing about any gradient of the stack.
  bool wild = false;
  for (std::size_t i = 0; i < path.log_measured.value.size(); ++i) {
    wild = wild || !(variance_of(path.log_measured, i, seeds) < judge::largest_fluctuation);
  }
  const double withdrawn = wild ? std::numeric_limits<double>::infinity() : 0.0;
  for (std::size_t i = 0; i < path.log_measured.value.size(); ++i) {
    const double bias =
        withdrawn + 2.0 * log_norm_bias(config, spec, all, i, variance_of(path.log_measured, i, seeds) / 4.0);
    const Statistic log = Statistic::log_grad_sq;
    path.with.push_back(test_of(path.log_measured, path.log_with, i, config, all, log, bias));
    path.without.push_back(test_of(path.log_measured, path.log_without, i, config, values, log, bias));
  }
  for (std::size_t l = 0; l < path.share_measured.value.size(); ++l) {
    const double p = path.share_predicted.value[l];
    const double derivative = p * (1.0 - p);  // dp = p(1−p) d log(S/V)
    const double variance = variance_of(path.share_measured, l, seeds);
    const double curvature = derivative > 0.0 ? variance / (2.0 * derivative) : 0.0;
    path.shares.push_back(test_of(path.share_measured, path.share_predicted, l, config, all, Statistic::score_share,
                                  derivative * 2.0 * log_norm_bias(config, spec, all, 2 * l, 0.0, true) + curvature +
                                      judge::share_floor + withdrawn));
  }
  return path;
}

}  // namespace

ScorePathResult score_path(const config::Config& config, stacks::Progress& progress) {
  const std::unique_ptr<Backend> backend = make_backend(config.run.device);
  const std::vector<StackSpec> stacks = config.stacks();
  const std::vector<StackSpec> overridden = config.predicted_stacks();
  constexpr int predictions = 2;  // with the score path and without
  progress.begin("gradients score-path", tasks_of(config, stacks.size(), predictions));
  ScorePathResult result;
  result.stopped_early = stacks::until_stopped([&] {
    for (std::size_t i = 0; i < stacks.size(); ++i) {
      progress.throw_if_stop_requested();
      result.stacks.push_back(measure_path(config, *backend, stacks[i], overridden[i], progress));
    }
  });
  if (result.stopped_early) return result;
  std::vector<judge::Test*> theory;
  std::vector<judge::Test*> control;
  for (ScorePath& path : result.stacks) {
    for (judge::Test& test : path.shares) theory.push_back(&test);
    for (judge::Test& test : path.with) theory.push_back(&test);
    for (judge::Test& test : path.without) control.push_back(&test);
  }
  for (const auto& tests : {theory, control}) {
    judge::judge(tests, {config.agreement.familywise_error, config.base.model.width});
  }
  return result;
}

}  // namespace periscope::gradients
