#include <fmt/format.h>

#include <array>
#include <type_traits>

#include "experiments/engine/result/text_table.h"
#include "experiments/engine/settings/theory_override.h"
#include "experiments/studies/gradients/common.h"
#include "sim/base/error.h"

/// Rate per layer at which gradients change from the top of a stack to its input (G7, G9, G10), for every
/// init.qk_factor of gradients.qk_factors; 0 is uniform attention.
namespace periscope::gradients {
namespace {

/// Returns weights such that the weighted sum of the layers' values is the slope of these values towards the input.
std::vector<double> slope_to_the_input(std::size_t points) {
  std::vector<double> x;
  for (std::size_t i = 0; i < points; ++i) x.push_back(static_cast<double>(points - 1 - i));
  return judge::slope_weights(x);
}

/// G10 claims a rate for Post-LN. G9 (Pre-LN) and G7 (Peri-LN) claim that gradients are about uniform over layers.
const std::map<std::string_view, judge::Claim> attenuation_claims{
    {"post", {.id = "G10", .claimed = claimed_attenuation_rate}}, {"pre", {.id = "G9"}}, {"peri", {.id = "G7"}}};

/// Adds the log norm at every layer and its slope per layer. Without a prediction, adds only the measured values.
template <class Place>
void add_slope(const config::Config& config, const theory::Prediction& prediction, const std::string& name, Place place,
               Case& c) {
  constexpr std::size_t stride = std::is_same_v<Place, Signal> ? 2 : 1;
  const judge::SeedRows& rows = c.rows.at("log_" + name);
  const std::vector<double> weights = slope_to_the_input(rows.rows().front().size());
  judge::Test rate{.measured = rows.sum(weights), .predicted = nan_estimate, .seeds = rows.seeds()};
  std::vector<judge::Test> points;
  if (c.unsupported.empty()) {
    points = every(stride, log_norms(config, c.spec, prediction, place));
    // Power limit (T22): half of the rate of G10, so that this rate and 0 cannot both agree.
    rate = sum_of_logs(rows, points, weights, -0.5 * claimed_attenuation_rate);
  }
  c.compare("log_" + name, points);
  c.tests[name + "_rate"] = {rate};
  c.add_claim(name + "_claim", attenuation_claims, rate);
}

Case measure_rates(const Work& work, const StackSpec& spec, const StackSpec& overridden) {
  Case c{.spec = spec};
  work.measure(spec, fmt::format("qk_factor {:g}", spec.init.qk_factor), [&](const Reading& reading) {
    c.rows["log_stream"].add(every(2, log_norms(reading.profile, Signal::x_out)));
    c.rows["log_down"].add(log_norms(reading.profile, Weight::down));
  });
  const theory::Prediction prediction = work.predict(spec, overridden);
  c.unsupported = prediction.unsupported;
  add_slope(work.config, prediction, "stream", Signal::x_out, c);
  add_slope(work.config, prediction, "down", Weight::down, c);
  return c;
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

std::string attenuation_table(const GradientConfig&, const Result& result) {
  dataset::TextTable table({"placement", "q·k", "gradient of", "rate per layer", "predicted", "theory", "claim"});
  for (const Case& c : result.cases) {
    for (const std::string name : {"stream", "down"}) {
      const judge::Test rate = c.test(name + "_rate");
      table.add({config::placement_label(c.spec), fmt::format("{:g}", c.spec.init.qk_factor),
                 name == "down" ? "W_down" : "the stream", judge::plus_minus(rate.measured),
                 judge::number_or_dash(rate.predicted.value, "{:.4f}"),
                 c.unsupported.empty() ? judge::verdict_words(rate) : c.unsupported,
                 claim_words(c, name + "_claim", "{:.4f}")});
    }
  }
  return table.text() +
         "rate: slope of log ‖∂loss/∂·‖ per layer towards the input, ± standard error over seeds; below 0: "
         "attenuation.\nq·k: init.qk_factor; 0 is uniform attention.\n";
}

void require_rate(const GradientConfig& config) {
  if (config.base.model.layers < 2) throw ConfigError("model.layers = 1: expected at least 2, for a rate per layer");
  config::require_swept_is_one_value(config, "init.qk_factor", "gradients.qk_factors",
                                     [](const StackSpec& spec) { return spec.init.qk_factor; });
}

}  // namespace

Experiment attenuation_experiment() {
  using dataset::Type;
  Columns columns = columns_of("case");
  columns.column({"qk_factor", "case", "1", "init.qk_factor; 0: uniform attention"},
                 [](const Case& c) { return c.spec.init.qk_factor; });
  for (const auto& [name, along, gradient] :
       {std::array<std::string, 3>{"stream", "layers_passed", "the stream"}, {"down", "layer", "W_down"}}) {
    add_compared(columns, {"log_" + name, "case " + along, "nat", "log norm of the gradient of " + gradient});
    add_test(columns, {name + "_rate", "case", "nat", "slope per layer towards the input, " + gradient});
    add_claim(columns, name + "_claim", "case", "nat");
  }
  return {.name = "gradients attenuation",
          .question = "Rate per layer at which gradients shrink towards the input, for uniform and real attention",
          .configuration = "gradient_attenuation.toml",
          .columns = columns,
          .schema = dataset::Schema("gradient_attenuation", 4,
                                    {{"case"},
                                     {"layers_passed", Type::integer, "1", "number of layers below"},
                                     {"layer", Type::integer, "1", "layer, from 0"}},
                                    columns.specs()),
          .compared = [](const Profile& p) { return stream_and(p, Statistic::grad_sq, Weight::down); },
          .require = require_rate,
          .swept = swept,
          .measure = measure_rates,
          .table = attenuation_table};
}

}  // namespace periscope::gradients
