#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "experiments/engine/result/text_table.h"
#include "experiments/engine/run/token_ids.h"
#include "experiments/studies/gradients/common.h"
#include "sim/base/error.h"

/// Dependence of the last MLP matrix's gradient, ‖∂loss/∂W_down‖_F of layer L, on the depth L (G8, T12h). Every stack
/// is measured at every depth of gradients.layers with the same seeds. Each seed's exponent is fitted; its error is the
/// spread over seeds.
namespace periscope::gradients {
namespace {

constexpr std::size_t late_points = 3;
constexpr int deeper[] = {2, 4, 8, 16};  // further predicted depths, in multiples of the largest measured one
// Power limit (T22): half of the difference between G8's exponents, 0 for Post-LN and −½ for Pre-LN.
constexpr double exponent_power_limit = 0.25;

StackSpec at_depth(StackSpec spec, int layers) {
  spec.model.layers = layers;
  return spec;
}

const std::map<std::string_view, judge::Claim> depth_claims{{"post", {.id = "G8"}},
                                                            {"pre", {.id = "G8", .claimed = -0.5}}};

/// Predicts a depth beyond the measured ones from fewer attention patterns, because only the trend matters.
theory::Prediction predict_deep(const Work& work, const StackSpec& spec, const StackSpec& overridden) {
  const config::RunOptions& run = work.config.run;
  theory::PredictionOptions options = stacks::prediction_options(work.config);
  options.max_samples = 256;
  options.labels = stacks::distinct_label_ids(spec, run.seed, run.seeds);
  options.on_progress = [&](double) { work.progress.throw_if_stop_requested(); };
  return theory::predict(overridden, stacks::distinct_token_ids(spec, run.seed, run.seeds), options);
}

/// Fits the exponents over the measured depths. `points` are predictions at the depths of theory_layers, in order. If
/// complete, sets limit_exponent to the predicted exponent between the two largest depths.
void fit_exponents(const GradientConfig& config, const std::vector<judge::Test>& points, Case& law) {
  std::vector<double> x;
  for (const int layers : config.layers) x.push_back(std::log(layers));
  for (const auto& [name, from] : {std::pair("exponent", std::size_t{0}), {"late_exponent", x.size() - late_points}}) {
    law.tests[name] = {
        sum_of_logs(law.rows.at("log_gradient"), points, judge::slope_weights(x, from), exponent_power_limit)};
  }
  const std::vector<int> layers = theory_layers(config);
  if (points.size() < layers.size()) return;
  const std::size_t last = layers.size() - 1;
  law.limit_exponent = (points[last].predicted.value - points[last - 1].predicted.value) /
                       std::log(static_cast<double>(layers[last]) / layers[last - 1]);
}

Case measure_law(const Work& work, const StackSpec& spec, const StackSpec& overridden) {
  const GradientConfig& config = work.config;
  Case law{.spec = spec};
  std::vector<judge::Test> points;
  const auto add = [&](const StackSpec& stack, const theory::Prediction& prediction) {
    points.push_back(log_norms(config, stack, prediction, Weight::down).back());
  };
  for (const int layers : config.layers) {
    const StackSpec stack = at_depth(spec, layers);
    const theory::Prediction prediction = work.predict(stack, at_depth(overridden, layers));
    if (law.unsupported.empty()) law.unsupported = prediction.unsupported;
    if (law.unsupported.empty()) add(stack, prediction);
    std::size_t seed = 0;
    work.measure(stack, fmt::format("{} layers", layers), [&](const Reading& reading) {
      law.rows["log_gradient"].append(seed++, log_norms(reading.profile, Weight::down).back());
    });
  }
  if (law.unsupported.empty()) {
    const std::vector<int> all = theory_layers(config);
    for (std::size_t i = config.layers.size(); i < all.size(); ++i) {
      const StackSpec stack = at_depth(spec, all[i]);
      const theory::Prediction deep = predict_deep(work, stack, at_depth(overridden, all[i]));
      // A stack that grows with depth may be unsupported: then only its limit exponent is missing.
      if (!deep.unsupported.empty() || !deep.gradient_unsupported.empty()) break;
      add(stack, deep);
    }
    fit_exponents(config, points, law);
  } else {
    points.clear();  // drops the depths before the unsupported one
  }
  const judge::Test late = law.test("late_exponent");
  law.add_claim("claim", depth_claims, late, late.predicted.value - law.limit_exponent);
  law.compare("log_gradient", points);
  return law;
}

std::string depth_table(const GradientConfig& config, const Result& result) {
  const std::vector<int>& layers = config.layers;
  dataset::TextTable table({"placement", fmt::format("exponent, {}–{}", layers.front(), layers.back()), "predicted",
                            "theory", fmt::format("exponent, {}–{}", layers[layers.size() - 3], layers.back()),
                            "predicted", "theory", "deepest", "claim"});
  for (const Case& law : result.cases) {
    if (!law.unsupported.empty()) {
      table.add_note(config::placement_label(law.spec), law.unsupported);
      continue;
    }
    std::vector<std::string> row{config::placement_label(law.spec)};
    for (const char* name : {"exponent", "late_exponent"}) {
      const judge::Test test = law.test(name);
      row.insert(row.end(), {judge::plus_minus(test.measured), judge::number_or_dash(test.predicted.value, "{:.3f}"),
                             judge::verdict_words(test)});
    }
    row.push_back(judge::number_or_dash(law.limit_exponent, "{:.3f}"));
    row.push_back(claim_words(law, "claim", "{:g}"));
    table.add(row);
  }
  const std::vector<int> all = theory_layers(config);
  return table.text() +
         fmt::format(
             "‖∂loss/∂W_down‖ of the last layer ∝ L^exponent, ± standard error over seeds. deepest: theory's exponent "
             "between {} and {} layers.\nholds-with-condition: the claim fails at these depths, but holds for many "
             "layers, after subtracting the predicted finite-depth part.\n",
             all[all.size() - 2], all.back());
}

void require_depths(const GradientConfig& config) {
  if (config.layers.size() < late_points || !std::ranges::is_sorted(config.layers, std::ranges::less_equal())) {
    throw ConfigError(fmt::format("gradients.layers: expected at least {} strictly increasing depths", late_points));
  }
  for (const auto& all : {config.stacks(), config.predicted_stacks()}) {
    for (const StackSpec& spec : all) validate(at_depth(spec, theory_layers(config).back()));
  }
}

}  // namespace

std::vector<int> theory_layers(const GradientConfig& config) {
  std::vector<int> all = config.layers;
  for (const int factor : deeper) all.push_back(factor * config.layers.back());
  return all;
}

Experiment depth_experiment() {
  using dataset::Type;
  const std::string gradient = "log norm of the last W_down's gradient";
  Columns columns = columns_of("law");
  add_measured(columns, {"log_gradient", "law layers", "nat", gradient});
  add_predicted(columns, {"log_gradient", "law theory_layers", "nat", gradient});
  add_test(columns, {"exponent", "law", "1", "exponent of L, all measured depths"});
  add_test(columns, {"late_exponent", "law", "1", "exponent of L, last three measured depths"});
  columns.column({"limit_exponent", "law", "1", "predicted exponent at the two largest depths"}, &Case::limit_exponent);
  add_claim(columns, "claim", "law", "1");
  return {.name = "gradients depth",
          .question = "The last MLP matrix's gradient against the number of layers, with fitted exponents",
          .configuration = "gradient_depth.toml",
          .columns = columns,
          .schema = dataset::Schema("gradient_depth", 4,
                                    {{"law"},
                                     {"layers", Type::integer, "1", "L, measured"},
                                     {"theory_layers", Type::integer, "1", "L, predicted"}},
                                    columns.specs()),
          .compared = last_down,
          .over_depths = true,
          .values = [](const GradientConfig& config) { return config.layers.size(); },
          .require = require_depths,
          .measure = measure_law,
          .table = depth_table};
}

}  // namespace periscope::gradients
