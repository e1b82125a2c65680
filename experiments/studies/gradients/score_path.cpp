#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "experiments/engine/judge/gradient_floor.h"
#include "experiments/engine/judge/stack_tests.h"
#include "experiments/engine/result/text_table.h"
#include "experiments/studies/gradients/common.h"

/// The share S/(S+V) that attention's score path (queries and keys) has in every stack's gradient, and what a theory
/// that leaves it out gets wrong (T9).
namespace periscope::gradients {
namespace {

judge::Test test_of(const Curve& measured, const Curve& predicted, std::size_t i, const config::Config& config,
                    const theory::Prediction& prediction, Statistic statistic, double tolerated_bias) {
  return {.statistic = statistic,
          .measured = judge::entry(measured, i),
          .predicted = judge::entry(predicted, i),
          .tolerated_bias = tolerated_bias,
          .limit = judge::limit_of(config.agreement.power_limits, statistic),
          .seeds = config.run.seeds,
          .replicates = prediction.replicates,
          .precise = theory::is_precise(prediction, statistic, predicted, i)};
}

/// Adds the tests of a case, from its curves: against the whole theory, `all`, and one without the score path.
void add_tests(const config::Config& config, const theory::Prediction& all, const theory::Prediction& without_scores,
               Case& c) {
  const int seeds = config.run.seeds;
  const Curve& log = c.measured["log_grad_sq"];
  const Curve& share = c.measured["score_share"];
  // As `judge` does: where half the variance of a logarithm is 1 or more, its mean rests on rare seeds, and biases of
  // first order in 1/width are meaningless for all gradients of the stack.
  bool wild = false;
  for (std::size_t i = 0; i < log.value.size(); ++i) {
    wild = wild || !(variance_of(log, i, seeds) < judge::largest_fluctuation);
  }
  const double withdrawn = wild ? std::numeric_limits<double>::infinity() : 0.0;
  for (std::size_t i = 0; i < log.value.size(); ++i) {
    const double variance = variance_of(log, i, seeds) / 4.0;
    const double bias = withdrawn + 2.0 * (log_norm_bias(config, c.spec, all, i) + variance);
    c.tests["verdict"].push_back(
        test_of(log, c.predicted["log_grad_sq"], i, config, all, Statistic::log_grad_sq, bias));
    c.tests[control_tests].push_back(test_of(log, c.predicted["log_grad_sq_without_scores"], i, config, without_scores,
                                             Statistic::log_grad_sq, bias));
  }
  const Curve& predicted = c.predicted["score_share"];
  for (std::size_t l = 0; l < share.value.size(); ++l) {
    const double bias_of_log = 2.0 * log_norm_bias(config, c.spec, all, 2 * l, true);
    const double bias = share_bias(predicted.value[l], bias_of_log, variance_of(share, l, seeds));
    c.tests["share_verdict"].push_back(
        test_of(share, predicted, l, config, all, Statistic::score_share, bias + judge::share_floor + withdrawn));
  }
}

Case measure_shares(const Work& work, const StackSpec& spec, const StackSpec& overridden) {
  const auto curves = [](const Profile& p) {
    return std::map<std::string, Curve>{{"score_share", every(2, *p.find(Statistic::score_share, Signal::A_out))},
                                        {"log_grad_sq", *p.find(Statistic::log_grad_sq, Signal::x_out)}};
  };
  Case c{.spec = spec};
  c.measured = curves(work.measure(spec, "", [](const Reading&) {}).profile());
  const theory::Prediction all = work.predict(spec, overridden);
  c.refusal = all.refusal;
  if (!c.refusal.empty()) return c;
  const theory::Prediction without_scores = work.predict(spec, overridden, theory::GradientPaths::without_scores);
  c.predicted = curves(all.profile);
  c.predicted["log_grad_sq_without_scores"] = *without_scores.profile.find(Statistic::log_grad_sq, Signal::x_out);
  add_tests(work.config, all, without_scores, c);
  return c;
}

std::string score_path_table(const GradientConfig&, const Result& result) {
  dataset::TextTable table({"placement", "largest share: measured", "predicted, verdict",
                            "gradient without it, at the input", "theory, with and without"});
  for (const Case& c : result.cases) {
    if (!c.refusal.empty()) {
      table.add_note(config::placement_label(c.spec), c.refusal);
      continue;
    }
    const Curve& share = c.measured.at("score_share");
    // A share that is NaN is the one to show.
    const auto size = [](double value) { return std::isnan(value) ? HUGE_VAL : value; };
    const auto top = static_cast<std::size_t>(std::ranges::max_element(share.value, {}, size) - share.value.begin());
    const double missing = std::expm1(c.predicted.at("log_grad_sq_without_scores").value.front() -
                                      c.predicted.at("log_grad_sq").value.front());
    table.add(
        {config::placement_label(c.spec),
         fmt::format("{} (layer {})", judge::plus_minus(judge::entry(share, top)), top),
         fmt::format("{}, {}", judge::shown(c.predicted.at("score_share").value[top], "{:.3f}"),
                     judge::name_of(c.test("share_verdict").verdict)),
         fmt::format("predicted {} % of ‖∂loss/∂x₀‖²", judge::shown(100.0 * missing, "{:+.0f}")),
         fmt::format("{}, {}", judge::verdict_words(c.test("verdict")), judge::verdict_words(c.test(control_tests)))});
  }
  return table.text() +
         "share: S/(S+V), S the squared gradient that reaches attention's input through queries and keys, V through "
         "values.\nWithout the score path a theory of gradients is expected to disagree; only the whole theory's "
         "verdicts count.\n";
}

}  // namespace

Experiment score_path_experiment() {
  using dataset::Type;
  Columns columns = columns_of("case");
  add_compared(columns, {"score_share", "case layer", "1", "share of the score path S/(S+V)"});
  add_compared(columns, {"log_grad_sq", "case depth", "nat", "log of the stream's squared gradient"});
  add_predicted(columns, {"log_grad_sq_without_scores", "case depth", "nat", "the same without the score path"});
  add_verdict(columns, "share_verdict", "case", "agreement of the share with theory (T19)");
  add_verdict(columns, "verdict", "case", "agreement of the stream's gradient with theory (T19)");
  add_verdict(columns, control_tests, "case", "the same for a theory without the score path");
  return {.name = "gradients score-path",
          .question = "What queries and keys carry of the gradient, and a theory that leaves it out",
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
