#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "experiments/engine/result/text_table.h"
#include "experiments/engine/settings/theory_override.h"
#include "experiments/studies/gradients/experiments.h"
#include "sim/base/error.h"

namespace periscope::gradients {
namespace {

/// Weights of the slope towards the input.
std::vector<double> slope_to_the_input(std::size_t points) {
  std::vector<double> x;
  for (std::size_t i = 0; i < points; ++i) x.push_back(static_cast<double>(points - 1 - i));
  return judge::slope_weights(x);
}

/// Fills the rate alone, where there is no prediction.
void fit_measured(Slope& slope) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  const judge::SeedRows& rows = slope.logs.measured;
  slope.rate = {.measured = rows.sum(slope_to_the_input(rows.curve().value.size())),
                .predicted = {nan, nan},
                .seeds = rows.seeds()};
}

void fit(const config::Config& config, const StackSpec& spec, const theory::Prediction& prediction,
         const Curve& predicted, const std::vector<bool>& precise, Slope& slope) {
  const judge::SeedRows& rows = slope.logs.measured;
  const Curve measured = rows.curve();
  std::vector<double> bias;
  for (std::size_t i = 0; i < measured.value.size(); ++i) {
    bias.push_back(log_norm_bias(config, spec, prediction, 2 * i, variance_of(measured, i, rows.seeds())));
  }
  slope.logs.predicted = predicted;
  slope.rate = judge::sum_test(rows, predicted, precise, prediction.replicates, slope_to_the_input(bias.size()), bias);
  // T22: half of the rate that G10 claims, so that it and none at all cannot both pass.
  slope.rate.limit = -0.5 * claimed_attenuation_rate();
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
  Attenuation a{.spec = spec, .refusal = {}, .stream = {.claim = claim_of(spec)}, .down = {.claim = claim_of(spec)}};
  const std::string label = fmt::format("{}, qk_factor {:g}", config::short_label(spec), spec.init.qk_factor);
  stacks::measure_stack(backend, spec, config.run, config.run.seeds, label, progress, [&](const Reading& reading) {
    a.stream.logs.measured.add(every_layer(log_norm(reading.profile, Signal::x_out).value));
    a.down.logs.measured.add(log_norm(reading.profile, Weight::down).value);
  });
  const theory::Prediction prediction = predict_gradients(config, spec, overridden, progress);
  a.refusal = prediction.refusal;
  if (!a.refusal.empty()) {
    fit_measured(a.stream);
    fit_measured(a.down);
    return a;
  }
  fit(config, spec, prediction, every_layer(log_norm(prediction.profile, Signal::x_out)),
      every_layer(log_norm_precise(prediction, Signal::x_out)), a.stream);
  fit(config, spec, prediction, log_norm(prediction.profile, Weight::down), log_norm_precise(prediction, Weight::down),
      a.down);
  return a;
}

std::vector<StackSpec> swept(const GradientConfig& config, const std::vector<StackSpec>& specs) {
  std::vector<StackSpec> all;
  for (const double factor : config.qk_factors) {
    for (StackSpec spec : specs) {
      spec.init.qk_factor = factor;
      validate(spec);
      all.push_back(spec);
    }
  }
  return all;
}

std::string table_of(const std::vector<Attenuation>& results) {
  dataset::TextTable table({"placement", "q·k", "gradient of", "rate per layer", "predicted", "theory", "claim"});
  for (const Attenuation& a : results) {
    const auto row = [&](const char* what, const Slope& slope) {
      const judge::Claim& claim = slope.claim;
      table.add({config::placement_label(a.spec), fmt::format("{:g}", a.spec.init.qk_factor), what,
                 judge::plus_minus(slope.rate.measured), judge::shown(slope.rate.predicted.value, "{:.4f}"),
                 a.refusal.empty() ? judge::verdict_words(slope.rate) : a.refusal,
                 a.is_claimed() ? fmt::format("{}: {:.4f}: {}", claim.id, claim.claimed, judge::name_of(claim.verdict))
                                : "-"});
    };
    row("the stream", a.stream);
    row("W_down", a.down);
  }
  return table.text() +
         "rate: slope of log ‖∂loss/∂·‖ per layer towards the input, ± standard error over seeds; below 0: "
         "attenuation.\n"
         "q·k: init.qk_factor; 0 is uniform attention.\n";
}

/// log_NAME, NAME_rate and NAME_claim_verdict.
void add_slope(Table<Attenuation>& table, const std::string& name, const std::string& gradient,
               const std::string& along, Slope Attenuation::*slope) {
  Table<Slope> columns;
  add_curve(columns, {"log_" + name, "case " + along, "nat", "log norm of the gradient of " + gradient}, &Slope::logs);
  add_test(columns, {name + "_rate", "case", "nat", "slope per layer towards the input, " + gradient}, &Slope::rate);
  table.part(columns, [slope](const Attenuation& a) { return &(a.*slope); });
  table.column({name + "_claim_verdict", "case", "", "verdict on the claim, " + gradient},
               [slope](const Attenuation& a) {
                 return a.is_claimed() ? std::optional(judge::name_of((a.*slope).claim.verdict)) : std::nullopt;
               });
}

const Table<Attenuation>& attenuation_table() {
  static const Table<Attenuation> all = [] {
    using A = Attenuation;
    Table<A> table;
    add_stack(table, "case");
    table
        .column({"qk_factor", "case", "1", "init.qk_factor; 0: uniform attention"},
                [](const A& a) { return a.spec.init.qk_factor; })
        .column({"claim", "case", "", "claim about this placement"}, [](const A& a) { return a.stream.claim.id; })
        .column({"claimed_rate", "case", "nat", "rate that it claims"},
                [](const A& a) { return a.is_claimed() ? std::optional(a.stream.claim.claimed) : std::nullopt; });
    add_slope(table, "stream", "the stream", "layers_passed", &A::stream);
    add_slope(table, "down", "W_down", "layer", &A::down);
    return table;
  }();
  return all;
}

}  // namespace

double claimed_attenuation_rate() { return 0.5 * std::log(2.0 / 3.0); }

void require_rate(const GradientConfig& config) {
  if (config.base.model.layers < 2) throw ConfigError("model.layers = 1: expected at least 2, for a rate per layer");
  config::require_swept_is_one_value(config, "init.qk_factor", "gradients.qk_factors",
                                     [](const StackSpec& spec) { return spec.init.qk_factor; });
}

Cases<Attenuation> gradient_attenuation(const GradientConfig& config, stacks::Progress& progress) {
  require_rate(config);
  Cases<Attenuation> result;
  over_stacks("attenuation", config, swept(config, config.stacks()), swept(config, config.predicted_stacks()),
              config.run.seeds + 1, progress, result, measure_attenuation);
  if (result.stopped_early) return result;
  std::vector<judge::Test*> tests;
  std::vector<judge::Claim*> claims;
  for (Attenuation& a : result.cases) {
    if (!a.refusal.empty()) continue;
    for (Slope* slope : {&a.stream, &a.down}) {
      tests.push_back(&slope->rate);
      if (!a.is_claimed()) continue;
      slope->claim.test = judge::test_of_claim(slope->rate, slope->claim.claimed);
      claims.push_back(&slope->claim);
    }
  }
  judge_together(config, tests);
  judge::judge(claims, config.agreement.familywise_error);
  return result;
}

const dataset::Schema& attenuation_schema() {
  using dataset::Type;
  static const dataset::Schema schema("gradient_attenuation", 3,
                                      {{"case"},
                                       {"layers_passed", Type::integer, "1", "whole layers below"},
                                       {"layer", Type::integer, "1", "layer, from 0"}},
                                      attenuation_table().specs());
  return schema;
}

study::Outcome attenuation_outcome(const GradientConfig& config, const Cases<Attenuation>& result) {
  dataset::Builder builder(attenuation_schema());
  const auto layers = static_cast<std::size_t>(config.base.model.layers);
  builder.count("layers_passed", layers + 1);
  builder.count("layer", layers);
  return outcome_of(
      builder, attenuation_table(), "case", result.cases, table_of(result.cases),
      [](const Attenuation& a) { return judge::disagrees(a.stream.rate) || judge::disagrees(a.down.rate); });
}

}  // namespace periscope::gradients
