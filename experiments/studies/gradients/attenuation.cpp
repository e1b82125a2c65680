#include "experiments/studies/gradients/attenuation.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "experiments/engine/run/progress.h"
#include "experiments/engine/run/stacks.h"
#include "experiments/engine/settings/theory_override.h"
#include "sim/backends.h"
#include "sim/base/error.h"

namespace periscope::gradients {
namespace {

/// Every other entry: a curve over sublayers at the layers' ends.
template <class T>
std::vector<T> every_layer(const std::vector<T>& depths) {
  std::vector<T> layers;
  for (std::size_t i = 0; i < depths.size(); i += 2) layers.push_back(depths[i]);
  return layers;
}

std::vector<double> to_the_input(std::size_t points) {
  std::vector<double> x;
  for (std::size_t i = 0; i < points; ++i) x.push_back(static_cast<double>(points - 1 - i));
  return x;
}

judge::Test rate_of(const config::Config& config, const StackSpec& spec, const theory::Prediction& prediction,
                    const judge::SeedRows& rows, const Curve& predicted, const std::vector<bool>& precise) {
  const Curve measured = rows.curve();
  std::vector<double> bias;
  for (std::size_t i = 0; i < measured.value.size(); ++i) {
    const double variance = rows.seeds() * measured.standard_error[i] * measured.standard_error[i];
    bias.push_back(log_norm_bias(config, spec, prediction, 2 * i, variance));
  }
  return judge::sum_test(rows, predicted, precise, prediction.replicates,
                         judge::slope_weights(to_the_input(measured.value.size())), bias);
}

/// The rate alone, where there is no prediction.
judge::Test unpredicted_rate(const judge::SeedRows& rows) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  return {.measured = rows.sum(judge::slope_weights(to_the_input(rows.curve().value.size()))),
          .predicted = {nan, nan},
          .seeds = rows.seeds()};
}

/// Post-LN: G10. "About uniform over layers" is what G9 says of Pre-LN and G7 of Peri-LN.
judge::Claim claim_of(const StackSpec& spec) {
  const std::string_view name = spec.model.placement.name;
  if (name == "post") return {.id = "G10", .claimed = claimed_attenuation_rate()};
  if (name == "pre") return {.id = "G9", .claimed = 0.0};
  if (name == "peri") return {.id = "G7", .claimed = 0.0};
  return {};
}

Attenuation measure_attenuation(const config::Config& config, const Backend& backend, const StackSpec& spec,
                                const StackSpec& overridden, stacks::Progress& progress) {
  Attenuation a{.spec = spec,
                .refusal = {},
                .stream = {},
                .down = {},
                .stream_predicted = {},
                .down_predicted = {},
                .stream_rate = {},
                .down_rate = {},
                .stream_claim = claim_of(spec),
                .down_claim = claim_of(spec)};
  const std::string label = fmt::format("{}, qk_factor {:g}", config::short_label(spec), spec.init.qk_factor);
  stacks::measure_stack(backend, spec, config.run, config.run.seeds, label, progress, [&](const Reading& reading) {
    a.stream.add(every_layer(log_norm(reading.profile, Signal::x_out).value));
    a.down.add(log_norm(reading.profile, Weight::down).value);
  });
  const theory::Prediction prediction = predict_gradients(config, spec, overridden, progress);
  a.refusal = prediction.refusal;
  if (!a.refusal.empty()) {
    a.stream_rate = unpredicted_rate(a.stream);
    a.down_rate = unpredicted_rate(a.down);
    return a;
  }
  const Curve stream = log_norm(prediction.profile, Signal::x_out);
  a.stream_predicted = {every_layer(stream.value), every_layer(stream.standard_error)};
  a.down_predicted = log_norm(prediction.profile, Weight::down);
  a.stream_rate = rate_of(config, spec, prediction, a.stream, a.stream_predicted,
                          every_layer(log_norm_precise(prediction, Signal::x_out)));
  a.down_rate = rate_of(config, spec, prediction, a.down, a.down_predicted, log_norm_precise(prediction, Weight::down));
  return a;
}

}  // namespace

double claimed_attenuation_rate() { return 0.5 * std::log(2.0 / 3.0); }

void require_rate(const GradientConfig& config) {
  if (config.base.model.layers < 2) throw ConfigError("model.layers = 1: expected at least 2, for a rate per layer");
  config::require_swept_is_one_value(config, "init.qk_factor", "gradients.qk_factors",
                                     [](const StackSpec& spec) { return spec.init.qk_factor; });
}

AttenuationResult gradient_attenuation(const GradientConfig& config, stacks::Progress& progress) {
  require_rate(config);
  const std::unique_ptr<Backend> backend = make_backend(config.run.device);
  const auto swept = [&](const std::vector<StackSpec>& specs) {
    std::vector<StackSpec> all;
    for (const double factor : config.qk_factors) {
      for (StackSpec spec : specs) {
        spec.init.qk_factor = factor;
        validate(spec);
        all.push_back(spec);
      }
    }
    return all;
  };
  const std::vector<StackSpec> stacks = swept(config.stacks());
  const std::vector<StackSpec> overridden = swept(config.predicted_stacks());
  progress.begin("gradients attenuation", tasks_of(config, stacks.size()));
  AttenuationResult result;
  result.stopped_early = stacks::until_stopped([&] {
    for (std::size_t i = 0; i < stacks.size(); ++i) {
      progress.throw_if_stop_requested();
      result.cases.push_back(measure_attenuation(config, *backend, stacks[i], overridden[i], progress));
    }
  });
  if (result.stopped_early) return result;
  std::vector<judge::Test*> tests;
  std::vector<judge::Claim*> claims;
  for (Attenuation& a : result.cases) {
    if (!a.refusal.empty()) continue;
    tests.insert(tests.end(), {&a.stream_rate, &a.down_rate});
    // T22: half of the rate that G10 claims, so that it and none at all cannot both pass.
    for (judge::Test* test : {&a.stream_rate, &a.down_rate}) test->limit = -0.5 * claimed_attenuation_rate();
    if (!a.is_claimed()) continue;
    a.stream_claim.test = judge::test_of_claim(a.stream_rate, a.stream_claim.claimed);
    a.down_claim.test = judge::test_of_claim(a.down_rate, a.down_claim.claimed);
    claims.insert(claims.end(), {&a.stream_claim, &a.down_claim});
  }
  judge::judge(tests, {config.agreement.familywise_error, config.base.model.width});
  judge::judge(claims, config.agreement.familywise_error);
  return result;
}

}  // namespace periscope::gradients
