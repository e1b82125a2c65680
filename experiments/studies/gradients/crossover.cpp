#include "experiments/studies/gradients/crossover.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "experiments/engine/judge/judge.h"
#include "experiments/engine/run/progress.h"
#include "experiments/engine/run/stacks.h"
#include "experiments/engine/settings/theory_override.h"
#include "sim/backends.h"
#include "sim/base/error.h"

namespace periscope::gradients {
namespace {

/// The result of a sweep of one placement: rows over factors, per seed, and the predicted curves.
struct Sweep {
  StackSpec spec;
  std::vector<std::vector<double>> log_gradient, log_rms_a, log_gain;
  Curve gradient_predicted, rms_a_predicted;
  std::vector<bool> gradient_precise, rms_a_precise;
  std::vector<theory::Prediction> predictions;
};

/// T14: what stands between the gradient of the stack's output and that of the last MLP's output a, from measured
/// sizes: γ/rms of every norm's input on the way. The sum before a norm C is that of orthogonal parts.
double log_gain(const StackSpec& spec, const Profile& profile) {
  const ModelSpec& m = spec.model;
  const SublayerRule rule = m.rule(m.sublayers() - 1);
  const auto last = [&](Signal signal) { return profile.find(Statistic::second_moment, signal)->value.back(); };
  const double branch = rule.norm_b ? m.gamma * m.gamma : last(Signal::f_out);
  const double sum = rule.alpha * rule.alpha * last(Signal::x_in) + rule.beta * rule.beta * branch;
  double log = std::log(std::abs(rule.beta));
  if (m.final_norm) log += std::log(m.gamma) - 0.5 * std::log(last(Signal::x_out));
  if (rule.norm_c) log += std::log(m.gamma) - 0.5 * std::log(sum);
  if (rule.norm_b) log += std::log(m.gamma) - 0.5 * std::log(last(Signal::f_out));
  return log;
}

Sweep sweep_of(const GradientConfig& config, const Backend& backend, StackSpec spec, StackSpec overridden,
               stacks::Progress& progress) {
  Sweep sweep;
  sweep.spec = spec;
  const auto seeds = static_cast<std::size_t>(config.run.seeds);
  for (auto* rows : {&sweep.log_gradient, &sweep.log_rms_a, &sweep.log_gain}) rows->resize(seeds);
  for (const double factor : config.down_factors) {
    spec.init.down_factor = factor;
    overridden.init.down_factor = factor;
    progress.throw_if_stop_requested();
    std::size_t seed = 0;
    const std::string label = fmt::format("{}, down_factor {:g}", config::short_label(spec), factor);
    stacks::measure_stack(backend, spec, config.run, config.run.seeds, label, progress, [&](const Reading& reading) {
      const Profile& p = reading.profile;
      sweep.log_gradient[seed].push_back(log_norm(p, Weight::down).value.back());
      sweep.log_rms_a[seed].push_back(0.5 * std::log(p.find(Statistic::second_moment, Signal::f_out)->value.back()));
      sweep.log_gain[seed].push_back(log_gain(spec, p));
      ++seed;
    });
    const theory::Prediction& prediction =
        sweep.predictions.emplace_back(predict_gradients(config, spec, overridden, progress));
    if (!prediction.refusal.empty()) continue;
    const Curve gradient = log_norm(prediction.profile, Weight::down);
    sweep.gradient_predicted.value.push_back(gradient.value.back());
    sweep.gradient_predicted.standard_error.push_back(gradient.standard_error.back());
    sweep.gradient_precise.push_back(log_norm_precise(prediction, Weight::down).back());
    const Curve& a = *prediction.profile.find(Statistic::second_moment, Signal::f_out);
    sweep.rms_a_precise.push_back(theory::is_precise(prediction, Statistic::second_moment, a, a.value.size() - 1));
    sweep.rms_a_predicted.value.push_back(0.5 * std::log(a.value.back()));
    sweep.rms_a_predicted.standard_error.push_back(0.5 * a.standard_error.back() / a.value.back());
  }
  return sweep;
}

std::string refusal_of(const Sweep& sweep) {
  for (const theory::Prediction& p : sweep.predictions) {
    if (!p.refusal.empty()) return p.refusal;
  }
  return {};
}

judge::SeedRows difference(const std::vector<std::vector<double>>& a, const std::vector<std::vector<double>>& b) {
  judge::SeedRows rows;
  for (std::size_t s = 0; s < a.size(); ++s) {
    std::vector<double> row;
    for (std::size_t i = 0; i < a[s].size(); ++i) row.push_back(a[s][i] - b[s][i]);
    rows.add(std::move(row));
  }
  return rows;
}

/// The largest deviation that T19 allows one of the two log norms, at the last layer.
double largest_bias(const config::Config& config, const Sweep& a, const Sweep& b, std::size_t i) {
  const auto depth = static_cast<std::size_t>(config.base.model.sublayers() - 2);
  return log_norm_bias(config, a.spec, a.predictions[i], depth, 0.0) +
         log_norm_bias(config, b.spec, b.predictions[i], depth, 0.0);
}

Crossover compare(const config::Config& config, const StackSpec& spec, const Sweep& own, const Sweep& pre) {
  Crossover c;
  c.spec = spec;
  c.log_ratio = difference(own.log_gradient, pre.log_gradient);
  c.log_law = difference(own.log_gain, pre.log_gain);
  for (const std::vector<double>& row : own.log_rms_a) c.log_rms_a.add(row);
  c.refusal = refusal_of(own).empty() ? refusal_of(pre) : refusal_of(own);
  if (!c.refusal.empty()) return c;
  c.rms_a_predicted = own.rms_a_predicted;
  const Curve measured = c.log_ratio.curve();
  for (std::size_t i = 0; i < measured.value.size(); ++i) {
    const double error = std::hypot(own.gradient_predicted.standard_error[i], pre.gradient_predicted.standard_error[i]);
    c.ratio_predicted.value.push_back(own.gradient_predicted.value[i] - pre.gradient_predicted.value[i]);
    c.ratio_predicted.standard_error.push_back(error);
    c.ratios.push_back({.measured = {measured.value[i], measured.standard_error[i]},
                        .predicted = {c.ratio_predicted.value[i], error},
                        .tolerated_bias = largest_bias(config, own, pre, i),
                        .seeds = config.run.seeds,
                        .replicates = own.predictions[i].replicates,
                        .precise = own.gradient_precise[i] && pre.gradient_precise[i]});
  }
  const double predicted = first_crossing(c.rms_a_predicted.value, c.ratio_predicted.value);
  c.crosses = std::isfinite(predicted);
  std::vector<double> crossings;
  for (std::size_t s = 0; s < c.log_ratio.rows().size(); ++s) {
    crossings.push_back(first_crossing(c.log_rms_a.rows()[s], c.log_ratio.rows()[s]));
  }
  // An error e of the log ratio moves the crossing by e divided by the curve's slope.
  const std::size_t last = c.ratio_predicted.value.size() - 1;
  std::size_t i = 0;
  while (i + 2 < last + 1 && c.rms_a_predicted.value[i + 1] < predicted) ++i;
  const double slope = std::abs((c.ratio_predicted.value[i + 1] - c.ratio_predicted.value[i]) /
                                (c.rms_a_predicted.value[i + 1] - c.rms_a_predicted.value[i]));
  c.crossing = {
      .measured = judge::mean_over_seeds(crossings),
      .predicted = {predicted, c.ratio_predicted.standard_error[i] / slope},
      .tolerated_bias = largest_bias(config, own, pre, i) / slope,
      .seeds = config.run.seeds,
      .replicates = own.predictions[i].replicates,
      .precise = c.ratios[i].precise && c.ratios[i + 1].precise && own.rms_a_precise[i] && own.rms_a_precise[i + 1]};
  return c;
}

/// Tests of a placement's ratio against 1, whose rejection shows a sign of its logarithm, at every factor.
std::vector<judge::Test> signs_of(const Crossover& c) {
  const Curve ratio = c.log_ratio.curve();
  std::vector<judge::Test> tests;
  for (std::size_t i = 0; i < ratio.value.size(); ++i) {
    tests.push_back({.measured = {ratio.value[i], ratio.standard_error[i]}, .seeds = c.log_ratio.seeds()});
  }
  return tests;
}

/// G6 at every factor of the sweep: does Post > Pre > Peri hold beyond the noise?
void judge_order(CrossoverResult& result, double error) {
  const auto find = [&](std::string_view name) {
    return std::ranges::find_if(result.placements, [=](const auto& c) { return c.spec.model.placement.name == name; });
  };
  result.order.id = "G6";
  const auto peri = find("peri");
  const auto post = find("post");
  if (peri == result.placements.end() || post == result.placements.end()) return;
  std::vector<judge::Test> low = signs_of(*peri), high = signs_of(*post);
  if (low.front().seeds < judge::fewest_seeds) return;
  std::vector<judge::Test*> tests;
  for (auto* side : {&low, &high}) {
    for (judge::Test& test : *side) tests.push_back(&test);
  }
  judge::judge(tests, {error});
  const auto sign_of = [](const judge::Test& test) {
    return !judge::disagrees(test) ? 0 : test.measured.value > 0.0 ? 1 : -1;
  };
  std::size_t holds = 0, fails = 0;
  for (std::size_t i = 0; i < low.size(); ++i) {
    holds += sign_of(low[i]) < 0 && sign_of(high[i]) > 0 ? 1 : 0;
    fails += sign_of(low[i]) > 0 || sign_of(high[i]) < 0 ? 1 : 0;
  }
  result.order.verdict = holds == low.size() ? judge::ClaimVerdict::holds
                         : holds > 0         ? judge::ClaimVerdict::holds_with_condition
                         : fails > 0         ? judge::ClaimVerdict::fails
                                             : judge::ClaimVerdict::not_shown;
  result.condition = fmt::format("holds at {} of {} sizes of the MLP's output", holds, low.size());
  if (std::isfinite(peri->crossing.measured.value)) {
    const double at = std::exp(peri->crossing.measured.value);
    result.condition +=
        fmt::format("; Peri < Pre needs rms a > {}", judge::plus_minus({at, at * peri->crossing.measured.error}));
  }
}

bool is_pre(const StackSpec& spec) { return spec.model.placement.name == "pre"; }

}  // namespace

double first_crossing(const std::vector<double>& x, const std::vector<double>& y) {
  for (std::size_t i = 0; i + 1 < x.size(); ++i) {
    if (y[i] == 0.0) return x[i];
    if ((y[i] > 0.0) != (y[i + 1] > 0.0)) return x[i] + (x[i + 1] - x[i]) * y[i] / (y[i] - y[i + 1]);
  }
  return std::numeric_limits<double>::quiet_NaN();
}

void require_ratios(const GradientConfig& config) {
  const std::vector<double>& factors = config.down_factors;
  const bool rising = std::ranges::is_sorted(factors, std::ranges::less_equal());
  if (factors.size() < 2 || !rising || !(factors.front() > 0.0)) {
    throw ConfigError("gradients.down_factors: expected at least 2 rising positive numbers");
  }
  const std::vector<StackSpec> stacks = config.stacks();
  if (std::ranges::none_of(stacks, is_pre))
    throw ConfigError("model.placement: expected \"pre\" among them, which others are compared with");
  if (std::ranges::all_of(stacks, is_pre)) {
    throw ConfigError("model.placement = \"pre\": expected another one beside it, to be compared with it");
  }
  std::set<std::string> seen;
  for (StackSpec spec : stacks) {
    spec.label.clear();  // which would name the other keys that vary too
    const std::string placement = config::placement_label(spec);
    if (seen.insert(placement).second) continue;
    throw ConfigError(fmt::format(
        "gradients crossover: two stacks of placement \"{}\": expected one, as each placement is paired with \"pre\"; "
        "of other keys than model.placement one value",
        placement));
  }
  config::require_swept_is_one_value(config, "init.down_factor", "gradients.down_factors",
                                     [](const StackSpec& spec) { return spec.init.down_factor; });
}

CrossoverResult gradient_crossover(const GradientConfig& config, stacks::Progress& progress) {
  require_ratios(config);
  const std::unique_ptr<Backend> backend = make_backend(config.run.device);
  CrossoverResult result;
  result.factors = config.down_factors;
  const std::vector<StackSpec> stacks = config.stacks();
  const auto pre_stack = std::ranges::find_if(stacks, is_pre);
  const std::vector<StackSpec> overridden = config.predicted_stacks();
  const auto overridden_pre = overridden[static_cast<std::size_t>(pre_stack - stacks.begin())];
  progress.begin("gradients crossover", tasks_of(config, stacks.size() * result.factors.size()));
  result.stopped_early = stacks::until_stopped([&] {
    const Sweep pre = sweep_of(config, *backend, *pre_stack, overridden_pre, progress);
    for (std::size_t i = 0; i < stacks.size(); ++i) {
      if (is_pre(stacks[i])) continue;
      const Sweep own = sweep_of(config, *backend, stacks[i], overridden[i], progress);
      result.placements.push_back(compare(config, stacks[i], own, pre));
    }
  });
  if (result.stopped_early) return result;
  std::vector<judge::Test*> tests;
  for (Crossover& c : result.placements) {
    for (judge::Test& test : c.ratios) tests.push_back(&test);
    if (c.crosses) tests.push_back(&c.crossing);
  }
  // The limit is that of logarithms of squares; these are logarithms of norms, which are half as large.
  for (judge::Test* test : tests) test->limit = 0.5 * config.agreement.power_limits.log_grad_sq;
  judge::judge(tests, {config.agreement.familywise_error, config.base.model.width});
  judge_order(result, config.agreement.familywise_error);
  return result;
}

}  // namespace periscope::gradients
