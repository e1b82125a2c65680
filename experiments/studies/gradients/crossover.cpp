#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include "experiments/engine/result/text_table.h"
#include "experiments/engine/settings/theory_override.h"
#include "experiments/studies/gradients/common.h"
#include "sim/base/error.h"
#include "sim/base/mapped.h"
#include "sim/numerics/larger.h"

/// Ratio of the last W_down's gradient to its value in Pre-LN with the same weights (G6, T14). init.down_factor sweeps
/// the size of the last MLP's output a. Ratios are taken per seed, because all stacks of a seed share weights.
namespace periscope::gradients {
namespace {

/// Returns the log of the factor by which the gradient changes from the stack's output to the last MLP's output a
/// (T14), from measured sizes: γ/rms(input) of every norm in between. Stream and branch are taken as orthogonal.
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

/// Measures and predicts one placement at every factor. Curves run over the factors.
Case measure_sweep(const Work& work, StackSpec spec, StackSpec overridden) {
  const GradientConfig& config = work.config;
  Case sweep{.spec = spec};
  for (const double factor : config.down_factors) {
    spec.init.down_factor = factor;
    overridden.init.down_factor = factor;
    std::size_t seed = 0;
    work.measure(spec, fmt::format("down_factor {:g}", factor), [&](const Reading& reading) {
      const Profile& p = reading.profile;
      sweep.rows["log_gradient"].append(seed, log_norms(p, Weight::down).back());
      sweep.rows["log_rms_a"].append(seed,
                                     0.5 * std::log(p.find(Statistic::second_moment, Signal::f_out)->value.back()));
      sweep.rows["log_gain"].append(seed++, log_gain(spec, p));
    });
    const theory::Prediction prediction = work.predict(spec, overridden);
    if (sweep.unsupported.empty()) sweep.unsupported = prediction.unsupported;
    if (!sweep.unsupported.empty()) continue;
    sweep.tests["log_gradient"].push_back(log_norms(config, sweep.spec, prediction, Weight::down).back());
    const Curve& a = *prediction.profile.find(Statistic::second_moment, Signal::f_out);
    const double square = a.value.back();
    sweep.tests["log_rms_a"].push_back(
        {.predicted = {0.5 * std::log(square), 0.5 * a.standard_error.back() / square},
         .precise = theory::is_precise(prediction, Statistic::second_moment, a, a.value.size() - 1)});
  }
  return sweep;
}

/// Returns the test of the log rms of a at which the ratio is 1. If the predicted ratio is never 1, the test has no
/// seeds and is not judged.
judge::Test crossing_of(const Case& c) {
  const std::vector<judge::Test>&ratios = c.tests.at("log_ratio"), &sizes = c.tests.at("log_rms_a");
  const auto predicted_value = [](const judge::Test& test) { return test.predicted.value; };
  const std::vector<double> ratio = mapped(ratios, predicted_value), rms_a = mapped(sizes, predicted_value);
  const double predicted = first_crossing(rms_a, ratio);
  std::vector<double> crossings;
  for (std::size_t s = 0; s < c.rows.at("log_ratio").rows().size(); ++s) {
    crossings.push_back(first_crossing(c.rows.at("log_rms_a").rows()[s], c.rows.at("log_ratio").rows()[s]));
  }
  // An error e of the log ratio moves the crossing by e divided by the curve's slope.
  std::size_t i = 0;
  while (i + 2 < ratio.size() && rms_a[i + 1] < predicted) ++i;
  const double slope = std::abs((ratio[i + 1] - ratio[i]) / (rms_a[i + 1] - rms_a[i]));
  return {.measured = judge::mean_over_seeds(crossings),
          .predicted = {predicted, ratios[i].predicted.error / slope},
          .tolerated_bias = ratios[i].tolerated_bias / slope,
          .limit = ratios[i].limit,
          .seeds = std::isfinite(predicted) ? ratios[i].seeds : 0,
          .replicates = ratios[i].replicates,
          .precise = ratios[i].precise && ratios[i + 1].precise && sizes[i].precise && sizes[i + 1].precise};
}

/// Returns a case with the ratios of a placement to Pre-LN.
Case compare(const GradientConfig& config, const Case& own, const Case& pre) {
  const auto ratio_of = [&](const char* name) {
    const auto &above = own.rows.at(name).rows(), &below = pre.rows.at(name).rows();
    judge::SeedRows rows;
    for (std::size_t s = 0; s < above.size(); ++s) {
      for (std::size_t i = 0; i < above[s].size(); ++i) rows.append(s, above[s][i] - below[s][i]);
    }
    return rows;
  };
  Case c{.spec = own.spec,
         .unsupported = own.unsupported.empty() ? pre.unsupported : own.unsupported,
         .rows = {{"log_ratio", ratio_of("log_gradient")},
                  {"log_rms_a", own.rows.at("log_rms_a")},
                  {"log_law", ratio_of("log_gain")}}};
  std::vector<judge::Test> ratios;
  const bool is_predicted = c.unsupported.empty();
  for (std::size_t i = 0; is_predicted && i < config.down_factors.size(); ++i) {
    const judge::Test &top = own.tests.at("log_gradient")[i], &below = pre.tests.at("log_gradient")[i];
    // power_limits.log_grad_sq applies to logarithms of squares; logarithms of norms are half as large.
    ratios.push_back({.predicted = {top.predicted.value - below.predicted.value,
                                    std::hypot(top.predicted.error, below.predicted.error)},
                      .tolerated_bias = top.tolerated_bias + below.tolerated_bias,
                      .limit = 0.5 * config.agreement.power_limits.log_grad_sq,
                      .seeds = config.run.seeds,
                      .replicates = top.replicates,
                      .precise = top.precise && below.precise});
  }
  c.compare("log_ratio", ratios);
  c.compare("log_rms_a", is_predicted ? own.tests.at("log_rms_a") : std::vector<judge::Test>());
  c.compare("log_law");
  if (is_predicted) c.tests["log_crossing"] = {crossing_of(c)};
  return c;
}

/// Converts an estimate of a logarithm to an estimate of the number.
judge::Estimate exponential(const judge::Estimate& log) {
  return {std::exp(log.value), std::exp(log.value) * log.error};
}

/// Judges claim G6 at every factor of the sweep: is Post > Pre > Peri significant?
void judge_order(const GradientConfig& config, Result& result) {
  judge::ClaimVerdict verdict = judge::ClaimVerdict::not_testable;
  const auto find = [&](std::string_view name) {
    return std::ranges::find_if(result.cases, [=](const Case& c) { return c.spec.model.placement.name == name; });
  };
  const auto peri = find("peri");
  const auto post = find("post");
  std::string& condition = result.texts["order_condition"];
  if (peri != result.cases.end() && post != result.cases.end() && config.run.seeds >= judge::fewest_seeds) {
    // Tests of both ratios against 1; a rejection determines the sign of the logarithm.
    const auto against_1 = [&](const judge::Test& ratio) {
      return judge::Test{.measured = ratio.measured, .seeds = config.run.seeds};
    };
    std::vector<judge::Test> of_peri = mapped(peri->tests.at("log_ratio"), against_1);
    std::vector<judge::Test> of_post = mapped(post->tests.at("log_ratio"), against_1);
    std::vector<judge::Test*> all;
    for (auto* tests : {&of_peri, &of_post}) {
      for (judge::Test& test : *tests) all.push_back(&test);
    }
    judge::judge(all, {config.agreement.familywise_error});
    const auto above_1 = [](const judge::Test& t) { return judge::disagrees(t) && t.measured.value > 0.0; };
    const auto below_1 = [](const judge::Test& t) { return judge::disagrees(t) && !(t.measured.value > 0.0); };
    const std::size_t factors = of_peri.size();
    std::size_t holds = 0, fails = 0;
    for (std::size_t i = 0; i < factors; ++i) {
      holds += below_1(of_peri[i]) && above_1(of_post[i]) ? 1 : 0;
      fails += above_1(of_peri[i]) || below_1(of_post[i]) ? 1 : 0;
    }
    verdict = holds == factors ? judge::ClaimVerdict::holds
              : holds > 0      ? judge::ClaimVerdict::holds_with_condition
              : fails > 0      ? judge::ClaimVerdict::fails
                               : judge::ClaimVerdict::not_shown;
    condition = fmt::format("holds at {} of {} sizes of the MLP's output", holds, factors);
    const judge::Estimate crossing = peri->test("log_crossing").measured;
    if (std::isfinite(crossing.value)) {
      condition += fmt::format("; Peri < Pre needs rms a > {}", judge::plus_minus(exponential(crossing)));
    }
  }
  result.texts["order_claim"] = judge::name_of(verdict);
}

bool is_pre(const StackSpec& spec) { return spec.model.placement.name == "pre"; }

/// Formats a share in percent; "NaN" for a diverged stack.
std::string percent(double share) {
  if (!std::isfinite(share)) return judge::number_words(share);
  return share < 100.0 ? fmt::format("{:.1f} %", 100.0 * share) : fmt::format("{:.3g} %", 100.0 * share);
}

std::string crossover_table(const GradientConfig&, const Result& result) {
  dataset::TextTable table({"placement", "ratio, smallest a", "ratio, largest a", "theory", "ratio 1 at rms a",
                            "predicted", "theory", "largest error of T14"});
  for (const Case& c : result.cases) {
    const auto words = [](const judge::Estimate& log) { return judge::plus_minus(exponential(log)); };
    const std::vector<judge::Test>& ratios = c.tests.at("log_ratio");
    const judge::Test crossing = c.test("log_crossing");
    const bool crosses = crossing.seeds > 0;
    double law_error = 0.0;  // largest |log(ratio predicted by T14 / measured ratio)|
    for (std::size_t i = 0; i < ratios.size(); ++i) {
      law_error = larger(law_error, std::abs(ratios[i].measured.value - c.tests.at("log_law")[i].measured.value));
    }
    table.add({config::placement_label(c.spec), words(ratios.front().measured), words(ratios.back().measured),
               c.unsupported.empty() ? judge::verdict_words(c.test("log_ratio")) : c.unsupported,
               crosses ? words(crossing.measured) : "none",
               crosses ? judge::number_or_dash(std::exp(crossing.predicted.value), "{:.4g}") : "none",
               crosses ? judge::verdict_words(crossing) : "-", percent(std::expm1(law_error))});
  }
  const std::string& condition = result.texts.at("order_condition");
  return table.text() +
         "ratio: ‖∂loss/∂W_down‖ of the last layer over that of Pre-LN with the same weights; a: the last MLP's "
         "output. T14: the ratio from measured sizes alone.\n" +
         fmt::format("G6: Post > Pre > Peri: {}{}\n", result.texts.at("order_claim"),
                     condition.empty() ? "" : " (" + condition + ")");
}

void require_ratios(const GradientConfig& config) {
  const std::vector<double>& factors = config.down_factors;
  const bool rising = std::ranges::is_sorted(factors, std::ranges::less_equal());
  if (factors.size() < 2 || !rising || !(factors.front() > 0.0)) {
    throw ConfigError("gradients.down_factors: expected at least 2 strictly increasing positive numbers");
  }
  const std::vector<StackSpec> stacks = config.stacks();
  if (std::ranges::none_of(stacks, is_pre))
    throw ConfigError("model.placement: expected \"pre\" among the values, as the reference of all ratios");
  if (std::ranges::all_of(stacks, is_pre)) {
    throw ConfigError("model.placement = \"pre\": expected at least one other placement to compare with it");
  }
  std::set<std::string> seen;
  for (StackSpec spec : stacks) {
    spec.label.clear();  // the label may name other swept keys
    const std::string placement = config::placement_label(spec);
    if (seen.insert(placement).second) continue;
    throw ConfigError(
        fmt::format("gradients crossover: two stacks of placement \"{}\": expected one, as each placement is paired "
                    "with \"pre\"; sweep no other key than model.placement",
                    placement));
  }
  config::require_swept_is_one_value(config, "init.down_factor", "gradients.down_factors",
                                     [](const StackSpec& spec) { return spec.init.down_factor; });
}

/// Replaces the cases by their ratios to Pre-LN.
void combine(const GradientConfig& config, Result& result) {
  const std::vector<Case> sweeps = std::exchange(result.cases, {});
  const Case& pre = *std::ranges::find_if(sweeps, is_pre, &Case::spec);
  for (const Case& own : sweeps) {
    if (!is_pre(own.spec)) result.cases.push_back(compare(config, own, pre));
  }
  judge_order(config, result);
}

}  // namespace

double first_crossing(const std::vector<double>& x, const std::vector<double>& y) {
  for (std::size_t i = 0; i + 1 < x.size(); ++i) {
    if (y[i] == 0.0) return x[i];
    if ((y[i] > 0.0) != (y[i + 1] > 0.0)) return x[i] + (x[i + 1] - x[i]) * y[i] / (y[i] - y[i + 1]);
  }
  return std::numeric_limits<double>::quiet_NaN();
}

Experiment crossover_experiment() {
  using dataset::Type;
  const std::string swept = "case down_factor";
  Columns columns = columns_of("case");
  add_compared(columns, {"log_ratio", swept, "nat", "log of the last W_down's gradient norm over its value in Pre-LN"});
  add_compared(columns, {"log_rms_a", swept, "nat", "log rms of the last MLP's output"});
  add_measured(columns, {"log_law", swept, "nat", "log ratio by the closed form (T14) from measured sizes"});
  add_test(columns, {"log_crossing", "case", "nat", "log rms a at which the ratio is 1"});
  add_verdict(columns, "verdict", "log_ratio", "case", "verdict on the ratio, over all factors (T19)");
  std::vector<dataset::ColumnSpec> all{{"order_claim", "", "", "verdict on Post > Pre > Peri (G6)", Type::text},
                                       {"order_condition", "", "", "when the claim holds", Type::text}};
  std::ranges::copy(columns.specs(), std::back_inserter(all));
  return {.name = "gradients crossover",
          .question = "The last MLP matrix's gradient relative to Pre-LN's, against the size of the MLP's output",
          .configuration = "crossover.toml",
          .columns = columns,
          .schema = dataset::Schema("gradient_crossover", 4,
                                    {{"case"}, {"down_factor", Type::real, "1", "init.down_factor"}}, std::move(all)),
          .compared =
              [](const Profile& p) {
                std::vector<double> numbers = last_down(p);
                numbers.push_back(p.find(Statistic::second_moment, Signal::f_out)->value.back());
                return numbers;
              },
          .values = [](const GradientConfig& config) { return config.down_factors.size(); },
          .require = require_ratios,
          .measure = measure_sweep,
          .combine = combine,
          .table = crossover_table};
}

}  // namespace periscope::gradients
