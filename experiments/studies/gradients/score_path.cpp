#include "experiments/studies/gradients/score_path.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "experiments/core/config/provenance.h"
#include "experiments/core/dataset/text_table.h"
#include "experiments/core/judge/gradient_floor.h"
#include "experiments/core/stacks/progress.h"
#include "experiments/core/stacks/stacks.h"
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

Finding finding(const Curve& measured, const Curve& predicted, std::size_t i, int seeds,
                const theory::Prediction& prediction, Statistic statistic, double allowance) {
  return {.measured = {measured.value[i], measured.standard_error[i]},
          .seeds = seeds,
          .predicted = {predicted.value[i], predicted.standard_error[i]},
          .replicates = prediction.replicates,
          .allowance = allowance,
          .precise = theory::is_precise(prediction, statistic, predicted, i)};
}

ScorePath measure_path(const Config& config, const Backend& backend, const StackSpec& spec, const StackSpec& told,
                       Progress& progress) {
  ScorePath path;
  path.spec = spec;
  const int seeds = config.run.seeds;
  const Profile measured = measure_stack(backend, spec, config.run, seeds, progress, [&](const Reading&) {
                             progress.step(std::string(spec.model.placement.name));
                           }).profile();
  path.share_measured = attention_only(*measured.find(Statistic::score_share, Signal::A_out));
  path.log_measured = *measured.find(Statistic::log_grad_sq, Signal::x_out);
  const theory::Prediction all = predict_gradients(config, spec, told);
  path.refusal = all.refusal;
  if (!path.refusal.empty()) return path;
  const theory::Prediction values = predict_gradients(config, spec, told, theory::GradientPaths::without_scores);
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
    path.shares.push_back(finding(
        path.share_measured, path.share_predicted, l, seeds, all, Statistic::score_share,
        derivative * 2.0 * log_norm_bias(config, spec, all, 2 * l, 0.0, true) + curvature + share_floor + withdrawn));
  }
  return path;
}

std::string table_of(const std::vector<ScorePath>& results) {
  TextTable table({"placement", "largest share: measured", "predicted, verdict", "gradient without it, at the input",
                   "theory, with and without"});
  for (const ScorePath& path : results) {
    if (!path.refusal.empty()) {
      table.add_note(std::string(path.spec.model.placement.name), path.refusal);
      continue;
    }
    const auto& shares = path.share_measured.value;
    // A share that is no number is the one to show.
    const auto size = [](double share) { return std::isnan(share) ? HUGE_VAL : share; };
    const auto top = static_cast<std::size_t>(std::ranges::max_element(shares, {}, size) - shares.begin());
    const double missing = std::expm1(path.log_without.value.front() - path.log_with.value.front());
    table.add({std::string(path.spec.model.placement.name),
               fmt::format("{} (layer {})", plus_minus({shares[top], path.share_measured.standard_error[top]}), top),
               fmt::format("{}, {}", shown(path.share_predicted.value[top], "{:.3f}"),
                           name_of(telling(path.shares)->verdict)),
               fmt::format("predicted {} % of ‖∂loss/∂x₀‖²", shown(100.0 * missing, "{:+.0f}")),
               fmt::format("{}, {}", verdict_words(*telling(path.with)), verdict_words(*telling(path.without)))});
  }
  return table.text() +
         "share: S/(S+V), S the squared gradient that reaches attention's input through queries and keys, V through "
         "values.\nWithout the score path a theory of gradients is expected to disagree; only the whole theory's "
         "verdicts count.\n";
}

}  // namespace

ScorePathResult score_path(const Config& config, Progress& progress) {
  const std::unique_ptr<Backend> backend = make_backend(config.run.device);
  const std::vector<StackSpec> stacks = config.stacks();
  const std::vector<StackSpec> told = config.told_stacks();
  progress.begin("gradients score-path", static_cast<int>(stacks.size()) * config.run.seeds);
  ScorePathResult result;
  result.stopped_early = until_stopped([&] {
    for (std::size_t i = 0; i < stacks.size(); ++i) {
      progress.throw_if_stop_requested();
      result.stacks.push_back(measure_path(config, *backend, stacks[i], told[i], progress));
    }
  });
  if (result.stopped_early) return result;
  std::vector<Finding*> theory;
  std::vector<Finding*> control;
  for (ScorePath& path : result.stacks) {
    for (Finding& f : path.shares) theory.push_back(&f);
    for (Finding& f : path.with) theory.push_back(&f);
    for (Finding& f : path.without) control.push_back(&f);
  }
  for (ScorePath& path : result.stacks) {
    for (Finding& f : path.shares) f.power_limit = config.agreement.power_limits.score_share;
    for (auto* logarithms : {&path.with, &path.without}) {
      for (Finding& f : *logarithms) f.power_limit = config.agreement.power_limits.log_grad_sq;
    }
  }
  judge(theory, config.agreement.familywise_error, config.base.model.width);
  judge(control, config.agreement.familywise_error, config.base.model.width);
  return result;
}

const Schema& score_path_schema() {
  using enum Declared;
  static const Schema schema = outcome_schema(
      "score_path", "case", {{"depth", "1", "sublayers passed"}, {"layer", "1", "layer"}},
      {{words, "placement", "", "normalization placement (T1)"},
       {words, "refusal", "", "why there is no prediction"},
       {curve, "score_share", "1", "share of the score path S/(S+V)", "layer"},
       {curve, "log_grad_sq", "nat", "log of the stream's squared gradient", "depth"},
       {series, "log_grad_sq_without_scores_predicted", "nat", "prediction without the score path", "depth"},
       {series, "log_grad_sq_without_scores_predicted_stderr", "nat",
        "standard error of the prediction without the score path", "depth"},
       {verdict, "share_verdict", "", "agreement of the share with theory (T19)"},
       {verdict, "verdict", "", "agreement of the stream's gradient with theory (T19)"},
       {verdict, "without_scores_verdict", "", "the same for a theory without the score path"}});
  return schema;
}

GradientOutcome score_path_outcome(const Config& config, const std::vector<ScorePath>& results) {
  GradientOutcome outcome{.data = Columns(score_path_schema(), provenance(config)), .table = table_of(results)};
  Columns& data = *outcome.data;
  const auto layers = static_cast<std::size_t>(config.base.model.layers);
  std::vector<double> depth(2 * layers + 1);
  std::iota(depth.begin(), depth.end(), 0.0);
  data.put("depth", depth);
  data.put("layer", std::vector(depth.begin(), depth.begin() + static_cast<long>(layers)));
  for (std::size_t i = 0; i < results.size(); ++i) {
    const ScorePath& path = results[i];
    const Columns::Row row = data.at("case", i);
    row.put("placement", placement_label(path.spec));
    row.put("refusal", path.refusal);
    put_curve(row, "score_share", path.share_measured, path.share_predicted);
    put_curve(row, "log_grad_sq", path.log_measured, path.log_with);
    row.put("log_grad_sq_without_scores_predicted", padded(path.log_without.value, depth.size()));
    row.put("log_grad_sq_without_scores_predicted_stderr", padded(path.log_without.standard_error, depth.size()));
    put_verdict(row, "share_verdict", telling(path.shares));
    put_verdict(row, "verdict", telling(path.with));
    put_verdict(row, "without_scores_verdict", telling(path.without));
    for (const auto* findings : {&path.shares, &path.with}) {
      for (const Finding& f : *findings) outcome.rejected = outcome.rejected || f.verdict == Verdict::disagrees;
    }
  }
  return outcome;
}

}  // namespace periscope::gradients
