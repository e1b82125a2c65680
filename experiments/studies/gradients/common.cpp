#include "experiments/studies/gradients/common.h"

#include <fmt/format.h>

#include "experiments/engine/judge/stack_tests.h"
#include "experiments/engine/judge/width_bias.h"
#include "experiments/engine/run/cached.h"
#include "experiments/engine/run/parts.h"
#include "experiments/engine/run/token_ids.h"
#include "sim/numerics/allowances.h"

namespace periscope::gradients {
namespace {

// clang-format off
constexpr Key<GradientConfig> keys[] = {
    {.name = "layers", .field = &GradientConfig::layers, .range = from_to(1, 10'000), .meaning = "depths of `gradients depth`"},
    {.name = "qk_factors", .field = &GradientConfig::qk_factors, .meaning = "values of init.qk_factor in `gradients attenuation`"},
    {.name = "down_factors", .field = &GradientConfig::down_factors, .meaning = "values of init.down_factor in `gradients crossover`"},
};
// clang-format on

}  // namespace

const Section<GradientConfig> gradients_section{"gradients", keys};

theory::Prediction predict_gradients(const config::Config& config, const StackSpec& spec, const StackSpec& overridden,
                                     stacks::Progress& progress, theory::GradientPaths paths) {
  const auto task = [&] {
    const std::string what = fmt::format("gradients{}", static_cast<int>(paths));
    return stacks::prediction_task(what, spec, overridden, config);
  };
  theory::Prediction prediction = stacks::cached(progress, config::short_label(spec) + ": theory", task, [&] {
    return theory::predict(overridden, stacks::distinct_token_ids(spec, config.run.seed, config.run.seeds),
                           {.tolerance = config.theory.wanted_tolerance(),
                            .gradient_tolerance = config.theory.wanted_gradient_tolerance(),
                            .seed = config.run.seed,
                            .labels = stacks::distinct_label_ids(spec, config.run.seed, config.run.seeds),
                            .paths = paths,
                            .fault = config.theory.fault,
                            .on_share = progress.on_share()});
  });
  if (prediction.refusal.empty()) prediction.refusal = prediction.gradient_refusal;
  if (prediction.refusal.empty())
    prediction.refusal = judge::out_of_range(overridden, prediction.profile, config.run.dtype);
  return prediction;
}

Curve every_layer(const Curve& sublayers) {
  return {every_layer(sublayers.value), every_layer(sublayers.standard_error)};
}

double variance_of(const Curve& measured, std::size_t i, int seeds) {
  return seeds * measured.standard_error[i] * measured.standard_error[i];
}

double log_norm_bias(const config::Config& config, const StackSpec& spec, const theory::Prediction& prediction,
                     std::size_t depth, double variance, bool of_attention) {
  const judge::WidthBias bias(spec, prediction.finite_width, config.agreement);
  return 0.5 * bias.of_log_gradient(depth, of_attention) + variance + backward_allowance(format_of(config.run.dtype));
}

double share_bias(double p, double bias_of_log, double variance) {
  const double derivative = p * (1.0 - p);
  return derivative * bias_of_log + (derivative > 0.0 ? variance / (2.0 * derivative) : 0.0);
}

void judge_together(const GradientConfig& config, const std::vector<judge::Test*>& tests) {
  judge::judge(tests, {config.agreement.familywise_error, config.base.model.width});
}

ColumnText version_of(const ColumnText& says, const std::string& suffix, const std::string& words) {
  ColumnText version = says;
  version.name += "_" + suffix;
  version.meaning += ": " + words;
  return version;
}

Table<judge::Test> test_table(const ColumnText& says) {
  using T = judge::Test;
  ColumnText text = says;
  text.units.clear();
  Table<T> table;
  table.column(version_of(says, "measured", "mean over seeds"), [](const T& t) { return t.measured.value; })
      .column(version_of(says, "stderr", "standard error over seeds"), [](const T& t) { return t.measured.error; })
      .column(version_of(says, "predicted", "prediction"), [](const T& t) { return t.predicted.value; })
      .column(version_of(says, "predicted_stderr", "standard error of the prediction"),
              [](const T& t) { return t.predicted.error; })
      .column(version_of(says, "power", "error that would have been rejected with 95 % probability (T22)"),
              &T::detectable)
      .column(version_of(text, "verdict", "agreement with theory (T19)"),
              [](const T& t) { return judge::name_of(t.verdict); })
      .column(version_of(text, "verdict_reason", "why it is inconclusive"), &T::reason);
  return table;
}

}  // namespace periscope::gradients
