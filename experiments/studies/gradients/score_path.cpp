#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "experiments/engine/judge/gradient_floor.h"
#include "experiments/engine/judge/stack_tests.h"
#include "experiments/engine/result/text_table.h"
#include "experiments/studies/gradients/experiments.h"

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

/// The tests of `path`, from its curves: against the whole theory, `all`, and one without the score path, `values`.
void add_tests(const config::Config& config, const theory::Prediction& all, const theory::Prediction& values,
               ScorePath& path) {
  const int seeds = config.run.seeds;
  const Curve& log = path.log_measured;
  const Curve& share = path.share_measured;
  // As `judge` does: where half the variance of one logarithm is 1 or more, few seeds see what its mean rests on, and
  // allowances of first order in 1/width say nothing about any gradient of the stack.
  bool wild = false;
  for (std::size_t i = 0; i < log.value.size(); ++i) {
    wild = wild || !(variance_of(log, i, seeds) < judge::largest_fluctuation);
  }
  const double withdrawn = wild ? std::numeric_limits<double>::infinity() : 0.0;
  for (std::size_t i = 0; i < log.value.size(); ++i) {
    const double variance = variance_of(log, i, seeds) / 4.0;
    const double bias = withdrawn + 2.0 * log_norm_bias(config, path.spec, all, i, variance);
    path.with.push_back(test_of(log, path.log_predicted, i, config, all, Statistic::log_grad_sq, bias));
    path.without.push_back(test_of(log, path.without_scores, i, config, values, Statistic::log_grad_sq, bias));
  }
  for (std::size_t l = 0; l < share.value.size(); ++l) {
    const double bias_of_log = 2.0 * log_norm_bias(config, path.spec, all, 2 * l, 0.0, true);
    const double bias = share_bias(path.share_predicted.value[l], bias_of_log, variance_of(share, l, seeds));
    path.shares.push_back(test_of(share, path.share_predicted, l, config, all, Statistic::score_share,
                                  bias + judge::share_floor + withdrawn));
  }
}

ScorePath measure_shares(const config::Config& config, const Backend& backend, const StackSpec& spec,
                         const StackSpec& overridden, stacks::Progress& progress) {
  ScorePath path;
  path.spec = spec;
  const std::string label(config::short_label(spec));
  const auto share_of = [](const Profile& p) -> const Curve& { return *p.find(Statistic::score_share, Signal::A_out); };
  const auto log_of = [](const Profile& p) -> const Curve& { return *p.find(Statistic::log_grad_sq, Signal::x_out); };
  const Profile measured =
      stacks::measure_stack(backend, spec, config.run, config.run.seeds, label, progress, [](const Reading&) {
      }).profile();
  path.share_measured = every_layer(share_of(measured));
  path.log_measured = log_of(measured);
  const theory::Prediction all = predict_gradients(config, spec, overridden, progress);
  path.refusal = all.refusal;
  if (!path.refusal.empty()) return path;
  const theory::Prediction values =
      predict_gradients(config, spec, overridden, progress, theory::GradientPaths::without_scores);
  path.share_predicted = every_layer(share_of(all.profile));
  path.log_predicted = log_of(all.profile);
  path.without_scores = log_of(values.profile);
  add_tests(config, all, values, path);
  return path;
}

std::string table_of(const std::vector<ScorePath>& results) {
  dataset::TextTable table({"placement", "largest share: measured", "predicted, verdict",
                            "gradient without it, at the input", "theory, with and without"});
  for (const ScorePath& path : results) {
    if (!path.refusal.empty()) {
      table.add_note(config::placement_label(path.spec), path.refusal);
      continue;
    }
    const Curve& share = path.share_measured;
    const std::vector<double>& shares = share.value;
    // A share that is no number is the one to show.
    const auto size = [](double value) { return std::isnan(value) ? HUGE_VAL : value; };
    const auto top = static_cast<std::size_t>(std::ranges::max_element(shares, {}, size) - shares.begin());
    const double missing = std::expm1(path.without_scores.value.front() - path.log_predicted.value.front());
    table.add({config::placement_label(path.spec),
               fmt::format("{} (layer {})", judge::plus_minus(judge::entry(share, top)), top),
               fmt::format("{}, {}", judge::shown(path.share_predicted.value[top], "{:.3f}"),
                           judge::name_of(judge::deciding(path.shares)->verdict)),
               fmt::format("predicted {} % of ‖∂loss/∂x₀‖²", judge::shown(100.0 * missing, "{:+.0f}")),
               fmt::format("{}, {}", judge::verdict_words(*judge::deciding(path.with)),
                           judge::verdict_words(*judge::deciding(path.without)))});
  }
  return table.text() +
         "share: S/(S+V), S the squared gradient that reaches attention's input through queries and keys, V through "
         "values.\nWithout the score path a theory of gradients is expected to disagree; only the whole theory's "
         "verdicts count.\n";
}

const Table<ScorePath>& score_path_table() {
  static const Table<ScorePath> all = [] {
    using P = ScorePath;
    Table<P> table;
    add_stack(table, "case");
    const ColumnText share{"score_share", "case layer", "1", "share of the score path S/(S+V)"};
    const ColumnText log{"log_grad_sq", "case depth", "nat", "log of the stream's squared gradient"};
    add_measured(table, share, [](const P& p) -> const Curve& { return p.share_measured; });
    add_predicted(table, share, [](const P& p) -> const Curve& { return p.share_predicted; });
    add_measured(table, log, [](const P& p) -> const Curve& { return p.log_measured; });
    add_predicted(table, log, [](const P& p) -> const Curve& { return p.log_predicted; });
    add_predicted(table, {"log_grad_sq_without_scores", "case depth", "nat", "the same without the score path"},
                  [](const P& p) -> const Curve& { return p.without_scores; });
    add_verdict(table, {"share_verdict", "case", "", "agreement of the share with theory (T19)"}, &P::shares);
    add_verdict(table, {"verdict", "case", "", "agreement of the stream's gradient with theory (T19)"}, &P::with);
    add_verdict(table, {"without_scores_verdict", "case", "", "the same for a theory without the score path"},
                &P::without);
    return table;
  }();
  return all;
}

bool share_rejects(const ScorePath& path) {
  return std::ranges::any_of(path.shares, judge::disagrees) || std::ranges::any_of(path.with, judge::disagrees);
}

}  // namespace

Cases<ScorePath> score_path(const GradientConfig& config, stacks::Progress& progress) {
  Cases<ScorePath> result;
  const int tasks = config.run.seeds + 2;  // predictions with the score path and without
  over_stacks("score-path", config, config.stacks(), config.predicted_stacks(), tasks, progress, result,
              measure_shares);
  if (result.stopped_early) return result;
  std::vector<judge::Test*> theory, control;
  for (ScorePath& path : result.cases) {
    for (judge::Test& test : path.shares) theory.push_back(&test);
    for (judge::Test& test : path.with) theory.push_back(&test);
    for (judge::Test& test : path.without) control.push_back(&test);
  }
  judge_together(config, theory);
  judge_together(config, control);
  return result;
}

const dataset::Schema& score_path_schema() {
  using dataset::Type;
  static const dataset::Schema schema("score_path", 3,
                                      {{"case"},
                                       {"depth", Type::integer, "1", "sublayers passed; 0 is the stack's input"},
                                       {"layer", Type::integer, "1", "layer, from 0"}},
                                      score_path_table().specs());
  return schema;
}

study::Outcome score_path_outcome(const GradientConfig& config, const Cases<ScorePath>& result) {
  dataset::Builder builder(score_path_schema());
  const ModelSpec& model = config.base.model;
  builder.count("depth", static_cast<std::size_t>(model.sublayers()) + 1);
  builder.count("layer", static_cast<std::size_t>(model.layers));
  return outcome_of(builder, score_path_table(), "case", result.cases, table_of(result.cases), share_rejects);
}

}  // namespace periscope::gradients
