#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "experiments/engine/judge/stack_tests.h"
#include "experiments/engine/judge/tolerated_bias.h"
#include "experiments/engine/result/text_table.h"
#include "experiments/studies/gradients/common.h"

/// Share S/(S+V) of attention's score path (queries and keys) in every stack's gradient, and the error of a theory
/// without this path (T9).
namespace periscope::gradients {
namespace {

/// Returns the tests of a curve over sublayers, without tolerated bias. If `prediction` is null, predictions are NaN.
std::vector<judge::Test> tests_of(const config::Config& config, const Profile& measured,
                                  const theory::Prediction* prediction, Statistic statistic, Signal signal) {
  const Curve& curve = *measured.find(statistic, signal);
  std::vector<judge::Test> tests;
  for (std::size_t i = 0; i < curve.value.size(); ++i) {
    judge::Test& test =
        tests.emplace_back(judge::Test{.statistic = statistic,
                                       .measured = judge::entry(curve, i),
                                       .predicted = nan_estimate,
                                       .limit = judge::limit_of(config.agreement.power_limits, statistic),
                                       .seeds = config.run.seeds});
    if (prediction == nullptr) continue;
    const Curve& predicted = *prediction->profile.find(statistic, signal);
    test.predicted = judge::entry(predicted, i);
    test.replicates = prediction->replicates;
    test.precise = theory::is_precise(*prediction, statistic, predicted, i);
  }
  return tests;
}

Case measure_shares(const Work& work, const StackSpec& spec, const StackSpec& overridden) {
  const config::Config& config = work.config;
  const int seeds = config.run.seeds;
  const Profile measured = work.measure(spec, "", [](const Reading&) {}).profile();
  const theory::Prediction all = work.predict(spec, overridden);
  const theory::Prediction* predicted = all.unsupported.empty() ? &all : nullptr;
  std::vector<judge::Test> logs = tests_of(config, measured, predicted, Statistic::log_grad_sq, Signal::x_out);
  std::vector<judge::Test> shares =
      every(2, tests_of(config, measured, predicted, Statistic::score_share, Signal::A_out));
  Case c{.spec = spec, .unsupported = all.unsupported, .tests = {{"log_grad_sq", logs}, {"score_share", shares}}};
  if (predicted == nullptr) return c;
  const theory::Prediction without_scores = work.predict(spec, overridden, theory::GradientPaths::without_scores);
  std::vector<judge::Test> control = tests_of(config, measured, &without_scores, Statistic::log_grad_sq, Signal::x_out);
  // As in stack_tests.cpp: if half the variance of a logarithm is 1 or more, rare seeds dominate its mean, and biases
  // of first order in 1/width are meaningless for all gradients of the stack.
  const bool fluctuates = std::ranges::any_of(logs, [&](const judge::Test& log) {
    return !(judge::variance_of(log.measured, seeds) < judge::largest_fluctuation);
  });
  const double unbounded = fluctuates ? std::numeric_limits<double>::infinity() : 0.0;
  for (std::size_t i = 0; i < logs.size(); ++i) {
    const double variance = judge::variance_of(logs[i].measured, seeds) / 4.0;
    logs[i].tolerated_bias = unbounded + 2.0 * (log_norm_bias(config, spec, all, i) + variance);
    control[i].tolerated_bias = logs[i].tolerated_bias;
  }
  for (std::size_t l = 0; l < shares.size(); ++l) {
    const double bias_of_log = 2.0 * log_norm_bias(config, spec, all, 2 * l, true);
    const double bias =
        judge::share_bias(shares[l].predicted.value, bias_of_log, judge::variance_of(shares[l].measured, seeds));
    shares[l].tolerated_bias = bias + judge::share_accuracy + unbounded;
  }
  c.tests = {{"log_grad_sq", logs}, {"score_share", shares}, {control_tests, control}};
  return c;
}

std::string score_path_table(const GradientConfig&, const Result& result) {
  dataset::TextTable table({"placement", "largest share: measured", "predicted, verdict", "gradient without score path",
                            "verdict with, without it"});
  for (const Case& c : result.cases) {
    if (!c.unsupported.empty()) {
      table.add_note(config::placement_label(c.spec), c.unsupported);
      continue;
    }
    const std::vector<judge::Test>& shares = c.tests.at("score_share");
    // A NaN share counts as the largest, so that the table shows it.
    const auto size = [](const judge::Test& t) { return std::isnan(t.measured.value) ? HUGE_VAL : t.measured.value; };
    const auto top = std::ranges::max_element(shares, {}, size);
    const double missing = std::expm1(c.tests.at(control_tests).front().predicted.value -
                                      c.tests.at("log_grad_sq").front().predicted.value);
    table.add({config::placement_label(c.spec),
               fmt::format("{} (layer {})", judge::plus_minus(top->measured), top - shares.begin()),
               fmt::format("{}, {}", judge::number_or_dash(top->predicted.value, "{:.3f}"),
                           judge::name_of(c.test("score_share").verdict)),
               fmt::format("predicted {} % of ‖∂loss/∂x₀‖²", judge::number_or_dash(100.0 * missing, "{:+.0f}")),
               fmt::format("{}, {}", judge::verdict_words(c.test("log_grad_sq")),
                           judge::verdict_words(c.test(control_tests)))});
  }
  return table.text() +
         "share: S/(S+V), S the squared gradient that reaches attention's input through queries and keys, V through "
         "values.\nA theory without the score path is expected to disagree; only verdicts on the complete theory "
         "affect the exit code.\n";
}

}  // namespace

Experiment score_path_experiment() {
  using dataset::Type;
  Columns columns = columns_of("case");
  add_compared(columns, {"score_share", "case layer", "1", "share of the score path S/(S+V)"});
  add_compared(columns, {"log_grad_sq", "case depth", "nat", "log of the stream's squared gradient"});
  add_predicted(columns, {"log_grad_sq_without_scores", "case depth", "nat",
                          "log of the stream's squared gradient in a theory without the score path"});
  add_verdict(columns, "share_verdict", "score_share", "case", "verdict on the share (T19)");
  add_verdict(columns, "verdict", "log_grad_sq", "case", "verdict on the stream's gradient (T19)");
  add_verdict(columns, "without_scores_verdict", control_tests, "case",
              "verdict on the stream's gradient in a theory without the score path");
  return {.name = "gradients score-path",
          .question = "Share of the gradient that passes through queries and keys, and a theory without this path",
          .configuration = "score_path.toml",
          .columns = columns,
          .schema = dataset::Schema("score_path", 4,
                                    {{"case"},
                                     {"depth", Type::integer, "1", "sublayers passed; 0 is the stack's input"},
                                     {"layer", Type::integer, "1", "layer, from 0"}},
                                    columns.specs()),
          .compared = [](const Profile& p) { return stream_and(p, Statistic::score_share, Signal::A_out); },
          .predictions = 2,  // with the score path and without
          .measure = measure_shares,
          .table = score_path_table};
}

}  // namespace periscope::gradients
