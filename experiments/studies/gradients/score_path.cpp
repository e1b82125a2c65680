#include "experiments/studies/gradients/score_path.h"

#include <cmath>
#include <limits>

#include "experiments/engine/judge/gradient_floor.h"
#include "experiments/engine/run/cost.h"
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

judge::Finding finding(const Curve& measured, const Curve& predicted, std::size_t i, int seeds,
                       const theory::Prediction& prediction, Statistic statistic, double allowance) {
  return {.measured = {measured.value[i], measured.standard_error[i]},
          .seeds = seeds,
          .predicted = {predicted.value[i], predicted.standard_error[i]},
          .replicates = prediction.replicates,
          .allowance = allowance,
          .precise = theory::is_precise(prediction, statistic, predicted, i)};
}

ScorePath measure_path(const config::Config& config, const Backend& backend, const StackSpec& spec,
                       const StackSpec& overridden, stacks::Progress& progress) {
  ScorePath path;
  path.spec = spec;
  const int seeds = config.run.seeds;
  const std::string label(config::short_label(spec));
  progress.next(stacks::WorkKind::measurement, stacks::reading_operations(spec, config.run), label);
  const Profile measured = stacks::measure_stack(backend, spec, config.run, seeds, progress, [&](const Reading&) {
                             progress.step(label);
                           }).profile();
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
    wild = wild || !(variance_of(path.log_measured, i, seeds) < 2.0);
  }
  const double withdrawn = wild ? std::numeric_limits<double>::infinity() : 0.0;
  for (std::size_t i = 0; i < path.log_measured.value.size(); ++i) {
    const double allowance =
        withdrawn + 2.0 * log_norm_bias(config, spec, all, i, variance_of(path.log_measured, i, seeds) / 4.0);
    const Statistic log = Statistic::log_grad_sq;
    path.with.push_back(finding(path.log_measured, path.log_with, i, seeds, all, log, allowance));
    path.without.push_back(finding(path.log_measured, path.log_without, i, seeds, values, log, allowance));
  }
  for (std::size_t l = 0; l < path.share_measured.value.size(); ++l) {
    const double p = path.share_predicted.value[l];
    const double derivative = p * (1.0 - p);  // dp = p(1−p) d log(S/V)
    const double variance = variance_of(path.share_measured, l, seeds);
    const double curvature = derivative > 0.0 ? variance / (2.0 * derivative) : 0.0;
    path.shares.push_back(finding(path.share_measured, path.share_predicted, l, seeds, all, Statistic::score_share,
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
  progress.begin("gradients score-path", work_of(config, stacks, overridden, predictions));
  ScorePathResult result;
  result.stopped_early = stacks::until_stopped([&] {
    for (std::size_t i = 0; i < stacks.size(); ++i) {
      progress.throw_if_stop_requested();
      result.stacks.push_back(measure_path(config, *backend, stacks[i], overridden[i], progress));
    }
  });
  if (result.stopped_early) return result;
  std::vector<judge::Finding*> theory;
  std::vector<judge::Finding*> control;
  for (ScorePath& path : result.stacks) {
    for (judge::Finding& f : path.shares) theory.push_back(&f);
    for (judge::Finding& f : path.with) theory.push_back(&f);
    for (judge::Finding& f : path.without) control.push_back(&f);
  }
  for (ScorePath& path : result.stacks) {
    for (judge::Finding& f : path.shares) f.power_limit = config.agreement.power_limits.score_share;
    for (auto* logarithms : {&path.with, &path.without}) {
      for (judge::Finding& f : *logarithms) f.power_limit = config.agreement.power_limits.log_grad_sq;
    }
  }
  judge::decide(theory, config.agreement.familywise_error, config.base.model.width);
  judge::decide(control, config.agreement.familywise_error, config.base.model.width);
  return result;
}

}  // namespace periscope::gradients
