#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "experiments/engine/result/text_table.h"
#include "experiments/engine/run/token_ids.h"
#include "experiments/studies/gradients/experiments.h"
#include "sim/base/error.h"

namespace periscope::gradients {
namespace {

constexpr std::size_t late_points = 3;
constexpr int deeper[] = {2, 4, 8, 16};  // theory goes on to these multiples of the greatest measured depth

StackSpec at_depth(StackSpec spec, double layers) {
  spec.model.layers = static_cast<int>(layers);
  return spec;
}

/// Returns the claim of G8 about a placement, if it says anything.
std::optional<judge::Claim> depth_claim_of(const StackSpec& spec) {
  if (spec.model.placement.name == "post") return judge::Claim{.id = "G8", .claimed = 0.0};
  if (spec.model.placement.name == "pre") return judge::Claim{.id = "G8", .claimed = -0.5};
  return std::nullopt;
}

void append_last(DepthLaw& law, const theory::Prediction& prediction) {
  const Curve curve = log_norm(prediction.profile, Weight::down);
  law.gradient.predicted.value.push_back(curve.value.back());
  law.gradient.predicted.standard_error.push_back(curve.standard_error.back());
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

/// Fits the exponents of measured depths and theory's between its two greatest ones.
void fit_exponents(const config::Config& config, const std::vector<theory::Prediction>& predictions,
                   const DepthResult& result, DepthLaw& law) {
  const Curve measured = law.gradient.measured.curve();
  const Curve& predicted = law.gradient.predicted;
  std::vector<double> bias, x;
  for (std::size_t i = 0; i < result.layers.size(); ++i) {
    const auto last_layer = static_cast<std::size_t>(2 * (result.layers[i] - 1));
    bias.push_back(log_norm_bias(config, at_depth(law.spec, result.layers[i]), predictions[i], last_layer,
                                 variance_of(measured, i, config.run.seeds)));
    x.push_back(std::log(result.layers[i]));
  }
  const auto exponent = [&](std::size_t from) {
    judge::Test test = judge::sum_test(law.gradient.measured, predicted, law.precise, predictions.front().replicates,
                                       judge::slope_weights(x, from), bias);
    test.limit = exponent_power_limit;
    return test;
  };
  law.exponent = exponent(0);
  law.late_exponent = exponent(x.size() - std::min(x.size(), late_points));
  if (predicted.value.size() < result.theory_layers.size()) return;
  const std::size_t last = result.theory_layers.size() - 1;
  law.limit = (predicted.value[last] - predicted.value[last - 1]) /
              std::log(result.theory_layers[last] / result.theory_layers[last - 1]);
}

DepthLaw measure_law(const DepthResult& result, const config::Config& config, const Backend& backend,
                     const StackSpec& spec, const StackSpec& overridden, stacks::Progress& progress) {
  DepthLaw law{.spec = spec, .claim = depth_claim_of(spec)};
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
  for (std::vector<double>& row : rows) law.gradient.measured.add(std::move(row));
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
  fit_exponents(config, predictions, result, law);
  return law;
}

std::string table_of(const DepthResult& result) {
  const auto& layers = result.layers;
  dataset::TextTable table({"placement", fmt::format("exponent, {}–{}", layers.front(), layers.back()), "predicted",
                            "theory", fmt::format("exponent, {}–{}", layers[layers.size() - 3], layers.back()),
                            "predicted", "theory", "deepest", "claim"});
  for (const DepthLaw& law : result.cases) {
    if (!law.refusal.empty()) {
      table.add_note(config::placement_label(law.spec), law.refusal);
      continue;
    }
    const std::string claim =
        law.claim ? fmt::format("{}: {:g}: {}", law.claim->id, law.claim->claimed, judge::name_of(law.claim->verdict))
                  : "-";
    table.add({config::placement_label(law.spec), judge::plus_minus(law.exponent.measured),
               judge::shown(law.exponent.predicted.value, "{:.3f}"), judge::verdict_words(law.exponent),
               judge::plus_minus(law.late_exponent.measured), judge::shown(law.late_exponent.predicted.value, "{:.3f}"),
               judge::verdict_words(law.late_exponent), judge::shown(law.limit, "{:.3f}"), claim});
  }
  return table.text() +
         fmt::format(
             "‖∂loss/∂W_down‖ of the last layer ∝ L^exponent, ± standard error over seeds. deepest: theory's "
             "exponent between {:g} and {:g} layers.\nholds-with-condition: not at these depths, but less "
             "theory's finite-depth part, in the limit of many layers.\n",
             result.theory_layers[result.theory_layers.size() - 2], result.theory_layers.back());
}

const Table<DepthLaw>& law_table() {
  static const Table<DepthLaw> all = [] {
    using L = DepthLaw;
    const std::string words = "log norm of the last W_down's gradient";
    Table<L> table;
    add_stack(table, "law");
    add_measured(table, {"log_gradient", "law layers", "nat", words},
                 [](const L& l) { return l.gradient.measured.curve(); });
    add_predicted(table, {"log_gradient", "law theory_layers", "nat", words},
                  [](const L& l) -> const Curve& { return l.gradient.predicted; });
    add_test(table, {"exponent", "law", "1", "exponent of L, all measured depths"}, &L::exponent);
    add_test(table, {"late_exponent", "law", "1", "exponent of L, last three measured depths"}, &L::late_exponent);
    table.column({"limit_exponent", "law", "1", "theory's exponent at its greatest depths"}, &L::limit)
        .column({"claimed_exponent", "law", "1", "exponent of claim G8"},
                [](const L& l) { return l.claim ? std::optional(l.claim->claimed) : std::nullopt; })
        .column({"claim_verdict", "law", "", "verdict on G8"},
                [](const L& l) { return l.claim ? std::optional(judge::name_of(l.claim->verdict)) : std::nullopt; });
    return table;
  }();
  return all;
}

std::vector<int> whole(const std::vector<double>& layers) {
  std::vector<int> all;
  for (const double l : layers) all.push_back(static_cast<int>(l));
  return all;
}

}  // namespace

void require_depths(const GradientConfig& config) {
  if (config.layers.size() < late_points || !std::ranges::is_sorted(config.layers, std::ranges::less_equal())) {
    throw ConfigError(fmt::format("gradients.layers: expected at least {} rising depths", late_points));
  }
}

DepthResult gradient_depth(const GradientConfig& config, stacks::Progress& progress) {
  require_depths(config);
  DepthResult result;
  result.layers.assign(config.layers.begin(), config.layers.end());
  result.theory_layers = result.layers;
  for (const int factor : deeper) result.theory_layers.push_back(factor * result.layers.back());
  const std::vector<StackSpec> stacks = config.stacks();
  const std::vector<StackSpec> overridden = config.predicted_stacks();
  for (const auto* all : {&stacks, &overridden}) {
    for (const StackSpec& spec : *all) validate(at_depth(spec, result.theory_layers.back()));
  }
  over_stacks("depth", config, stacks, overridden, static_cast<int>(result.layers.size()) * (config.run.seeds + 1),
              progress, result, [&](auto&&... all) { return measure_law(result, all...); });
  if (result.stopped_early) return result;
  std::vector<judge::Test*> tests;
  std::vector<judge::Claim*> claims;
  for (DepthLaw& law : result.cases) {
    if (!law.refusal.empty()) continue;
    tests.insert(tests.end(), {&law.exponent, &law.late_exponent});
    if (!law.claim) continue;
    law.claim->test = judge::test_of_claim(law.late_exponent, law.claim->claimed);
    law.claim->correction = law.late_exponent.predicted.value - law.limit;
    claims.push_back(&*law.claim);
  }
  judge_together(config, tests);
  judge::judge(claims, config.agreement.familywise_error);
  return result;
}

const dataset::Schema& depth_schema() {
  using dataset::Type;
  static const dataset::Schema schema(
      "gradient_depth", 3,
      {{"law"}, {"layers", Type::integer, "1", "L, measured"}, {"theory_layers", Type::integer, "1", "L, predicted"}},
      law_table().specs());
  return schema;
}

study::Outcome depth_outcome(const GradientConfig&, const DepthResult& result) {
  dataset::Builder builder(depth_schema());
  builder.put("layers", whole(result.layers));
  builder.put("theory_layers", whole(result.theory_layers));
  return outcome_of(builder, law_table(), "law", result.cases, table_of(result), [](const DepthLaw& l) {
    return judge::disagrees(l.exponent) || judge::disagrees(l.late_exponent);
  });
}

}  // namespace periscope::gradients
