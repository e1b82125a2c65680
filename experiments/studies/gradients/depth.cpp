#include "experiments/studies/gradients/depth.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "experiments/engine/run/progress.h"
#include "experiments/engine/run/stacks.h"
#include "experiments/engine/run/token_ids.h"
#include "sim/backends.h"
#include "sim/base/error.h"

namespace periscope::gradients {
namespace {

constexpr std::size_t late_points = 3;
constexpr int deeper[] = {2, 4, 8, 16};  // theory goes on to these multiples of the greatest measured depth

StackSpec at_depth(StackSpec spec, double layers) {
  spec.model.layers = static_cast<int>(layers);
  return spec;
}

std::vector<double> logarithms(const std::vector<double>& x) {
  std::vector<double> logs;
  for (const double v : x) logs.push_back(std::log(v));
  return logs;
}

/// Returns the claim of G8 about a placement, if it says anything.
std::optional<judge::Claim> depth_claim_of(const StackSpec& spec) {
  if (spec.model.placement.name == "post") return judge::Claim{.id = "G8", .claimed = 0.0};
  if (spec.model.placement.name == "pre") return judge::Claim{.id = "G8", .claimed = -0.5};
  return std::nullopt;
}

void append_last(DepthLaw& law, const theory::Prediction& prediction) {
  const Curve curve = log_norm(prediction.profile, Weight::down);
  law.predicted.value.push_back(curve.value.back());
  law.predicted.standard_error.push_back(curve.standard_error.back());
  law.precise.push_back(log_norm_precise(prediction, Weight::down).back());
}

/// Beyond the measured depths only the trend counts: fewer patterns will do.
theory::Prediction predict_deep(const config::Config& config, const StackSpec& spec, const StackSpec& overridden,
                                const stacks::Progress& progress) {
  return theory::predict(overridden, stacks::distinct_token_ids(spec, config.run.seed, config.run.seeds),
                         {.tolerance = config.theory.wanted_tolerance(),
                          .gradient_tolerance = config.theory.wanted_gradient_tolerance(),
                          .most_samples = 256,
                          .seed = config.run.seed,
                          .labels = stacks::distinct_label_ids(spec, config.run.seed, config.run.seeds),
                          .fault = config.theory.fault,
                          .on_share = [&](double) { progress.throw_if_stop_requested(); }});
}

DepthLaw measure_law(const config::Config& config, const Backend& backend, const StackSpec& spec,
                     const StackSpec& overridden, const DepthResult& result, stacks::Progress& progress) {
  DepthLaw law{.spec = spec,
               .refusal = {},
               .gradient = {},
               .predicted = {},
               .precise = {},
               .exponent = {},
               .late_exponent = {},
               .claim = depth_claim_of(spec)};
  config::RunOptions run = config.run;
  run.backward = true;
  std::vector<std::vector<double>> rows(static_cast<std::size_t>(run.seeds));
  std::vector<theory::Prediction> predictions;
  for (const double layers : result.layers) {
    const StackSpec stack = at_depth(spec, layers);
    predictions.push_back(predict_gradients(config, stack, at_depth(overridden, layers), progress));
    if (law.refusal.empty()) law.refusal = predictions.back().refusal;
    std::size_t seed = 0;
    const std::string label = fmt::format("{}, {} layers", config::short_label(spec), layers);
    stacks::measure_stack(backend, stack, run, run.seeds, label, progress, [&](const Reading& reading) {
      rows[seed++].push_back(log_norm(reading.profile, Weight::down).value.back());
    });
  }
  for (std::vector<double>& row : rows) law.gradient.add(std::move(row));
  if (!law.refusal.empty()) return law;
  for (const theory::Prediction& p : predictions) append_last(law, p);
  for (std::size_t i = result.layers.size(); i < result.theory_layers.size(); ++i) {
    const double layers = result.theory_layers[i];
    const theory::Prediction deep =
        predict_deep(config, at_depth(spec, layers), at_depth(overridden, layers), progress);
    if (!deep.refusal.empty() || !deep.gradient_refusal.empty())
      break;  // a stack that grows with depth: its limit is unknown, its exponents are not
    append_last(law, deep);
  }
  const Curve measured = law.gradient.curve();
  std::vector<double> bias;
  for (std::size_t i = 0; i < result.layers.size(); ++i) {
    const double variance = run.seeds * measured.standard_error[i] * measured.standard_error[i];
    const auto last_layer = static_cast<std::size_t>(2 * (result.layers[i] - 1));
    bias.push_back(log_norm_bias(config, at_depth(spec, result.layers[i]), predictions[i], last_layer, variance));
  }
  const int replicates = predictions.front().replicates;
  const std::vector<double> x = logarithms(result.layers);
  law.exponent = judge::sum_test(law.gradient, law.predicted, law.precise, replicates, judge::slope_weights(x), bias);
  const std::size_t from = x.size() - std::min(x.size(), late_points);
  law.late_exponent =
      judge::sum_test(law.gradient, law.predicted, law.precise, replicates, judge::slope_weights(x, from), bias);
  if (law.predicted.value.size() < result.theory_layers.size()) return law;
  const std::size_t last = result.theory_layers.size() - 1;
  law.limit = (law.predicted.value[last] - law.predicted.value[last - 1]) /
              std::log(result.theory_layers[last] / result.theory_layers[last - 1]);
  return law;
}

}  // namespace

void require_depths(const GradientConfig& config) {
  if (config.layers.size() < late_points || !std::ranges::is_sorted(config.layers, std::ranges::less_equal())) {
    throw ConfigError(fmt::format("gradients.layers: expected at least {} rising depths", late_points));
  }
}

DepthResult gradient_depth(const GradientConfig& config, stacks::Progress& progress) {
  require_depths(config);
  const std::unique_ptr<Backend> backend = make_backend(config.run.device);
  DepthResult result;
  result.layers.assign(config.layers.begin(), config.layers.end());
  result.theory_layers = result.layers;
  for (const int factor : deeper) result.theory_layers.push_back(factor * result.layers.back());
  const std::vector<StackSpec> stacks = config.stacks();
  const std::vector<StackSpec> overridden = config.predicted_stacks();
  for (const auto* all : {&stacks, &overridden}) {
    for (const StackSpec& spec : *all) validate(at_depth(spec, result.theory_layers.back()));
  }
  progress.begin("gradients depth", tasks_of(config, stacks.size() * result.layers.size()));
  result.stopped_early = stacks::until_stopped([&] {
    for (std::size_t i = 0; i < stacks.size(); ++i) {
      progress.throw_if_stop_requested();
      result.laws.push_back(measure_law(config, *backend, stacks[i], overridden[i], result, progress));
    }
  });
  if (result.stopped_early) return result;
  std::vector<judge::Test*> tests;
  std::vector<judge::Claim*> claims;
  for (DepthLaw& law : result.laws) {
    if (!law.refusal.empty()) continue;
    tests.insert(tests.end(), {&law.exponent, &law.late_exponent});
    for (judge::Test* test : {&law.exponent, &law.late_exponent}) test->limit = exponent_power_limit;
    if (!law.claim) continue;
    law.claim->test = judge::test_of_claim(law.late_exponent, law.claim->claimed);
    law.claim->correction = law.late_exponent.predicted.value - law.limit;
    claims.push_back(&*law.claim);
  }
  judge::judge(tests, {config.agreement.familywise_error, config.base.model.width});
  judge::judge(claims, config.agreement.familywise_error);
  return result;
}

}  // namespace periscope::gradients
