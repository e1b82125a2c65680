#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "experiments/engine/judge/claims.h"
#include "experiments/engine/judge/judge.h"
#include "experiments/engine/judge/seed_rows.h"
#include "experiments/engine/result/table.h"
#include "experiments/engine/run/progress.h"
#include "experiments/engine/run/stacks.h"
#include "experiments/engine/study/study.h"
#include "sim/backends.h"
#include "theory/predict/predict.h"

/// What the experiments about gradients share: predictions, tolerated biases, loops over stacks, columns.
namespace periscope::gradients {

/// [gradients]: what the commands of `periscope gradients` run through.
struct GradientConfig : config::Config {
  std::vector<int> layers{4, 8, 16, 32};             ///< depth: L
  std::vector<double> qk_factors{0.0, 1.0};          ///< attenuation: init.qk_factor
  std::vector<double> down_factors{0.1, 1.0, 10.0};  ///< crossover: init.down_factor
};

extern const Section<GradientConfig> gradients_section;

/// A curve, measured with a row per seed, and its prediction, which may have more points, or none.
struct Compared {
  judge::SeedRows measured = {};
  Curve predicted = {};
};

/// Theory's gradients of the stack `overridden`, which --theory-set may have changed, for the token ids and labels of
/// the run's seeds of the measured stack, `spec`: the same unless --theory-set says otherwise. Unsupported too where
/// the run's dtype cannot show what is predicted (out_of_range). One task of progress.
theory::Prediction predict_gradients(const config::Config& config, const StackSpec& spec, const StackSpec& overridden,
                                     stacks::Progress& progress,
                                     theory::GradientPaths paths = theory::GradientPaths::all);

/// log ‖∂loss/∂·‖ = ½ log_grad_sq of a place (a Signal or a Weight), measured or predicted.
template <class Place>
Curve log_norm(const Profile& profile, Place place) {
  Curve curve = *profile.find(Statistic::log_grad_sq, place);
  for (double& v : curve.value) v *= 0.5;
  for (double& e : curve.standard_error) e *= 0.5;
  return curve;
}

/// Says of every point of that prediction whether it is as precise as was wanted.
template <class Place>
std::vector<bool> log_norm_precise(const theory::Prediction& prediction, Place place) {
  const Curve& curve = *prediction.profile.find(Statistic::log_grad_sq, place);
  std::vector<bool> precise;
  for (std::size_t i = 0; i < curve.value.size(); ++i) {
    precise.push_back(theory::is_precise(prediction, Statistic::log_grad_sq, curve, i));
  }
  return precise;
}

/// Every other entry: a curve over sublayers at attention, or at the layers' ends.
template <class T>
std::vector<T> every_layer(const std::vector<T>& sublayers) {
  std::vector<T> layers;
  for (std::size_t i = 0; i < sublayers.size(); i += 2) layers.push_back(sublayers[i]);
  return layers;
}
Curve every_layer(const Curve& sublayers);

/// Returns the variance over seeds of number i of a mean over seeds.
double variance_of(const Curve& measured, std::size_t i, int seeds);

/// The bias that T19 tolerates in the mean over seeds of a log norm at `depth`: half of that of log_grad_sq, and
/// `variance`, that of the log norm over seeds.
double log_norm_bias(const config::Config& config, const StackSpec& spec, const theory::Prediction& prediction,
                     std::size_t depth, double variance, bool of_attention = false);

/// Returns the tolerated bias of a share p = S/(S+V), from that of log(S/V) and the variance of p over seeds:
/// dp = p(1−p) d log(S/V).
double share_bias(double p, double bias_of_log, double variance);

/// Judges tests of stacks of one width together.
void judge_together(const GradientConfig& config, const std::vector<judge::Test*>& tests);

/// The results of an experiment by stack.
template <class T>
struct Cases {
  std::vector<T> cases = {};
  bool stopped_early = false;  ///< cases are those that were finished, and not judged
};

/// Appends measure(backend, spec, overridden) of every stack to `result`, until the run is stopped. `tasks` are those
/// of one stack.
template <class T, class Measure>
void over_stacks(const std::string& name, const GradientConfig& config, const std::vector<StackSpec>& stacks,
                 const std::vector<StackSpec>& overridden, int tasks, stacks::Progress& progress, Cases<T>& result,
                 const Measure& measure) {
  const std::unique_ptr<Backend> backend = make_backend(config.run.device);
  progress.begin("gradients " + name, static_cast<std::int64_t>(stacks.size()) * tasks);
  result.stopped_early = stacks::until_stopped([&] {
    for (std::size_t i = 0; i < stacks.size(); ++i) {
      progress.throw_if_stop_requested();
      result.cases.push_back(measure(config, *backend, stacks[i], overridden[i], progress));
    }
  });
}

using dataset::ColumnText;
using dataset::Table;

/// N_suffix of a quantity N, its meaning followed by `words`.
ColumnText version_of(const ColumnText& says, const std::string& suffix, const std::string& words);

/// "placement" and "refusal" of an S.
template <class S>
void add_stack(Table<S>& table, const std::string& row) {
  table
      .column({"placement", row, "", "normalization placement (T1)"},
              [](const S& s) { return config::placement_label(s.spec); })
      .column({"refusal", row, "", "why there is no prediction"}, &S::refusal);
}

/// The values and the standard errors of the curve `curve(s)`, which may be shorter than its dimension is long.
template <class S, class F>
void add_series(Table<S>& table, ColumnText values, ColumnText errors, F curve) {
  table.column(std::move(values), [curve](const S& s) { return curve(s).value; });
  table.column(std::move(errors), [curve](const S& s) { return curve(s).standard_error; });
}
/// N and N_stderr of rows by seed.
template <class S>
void add_rows(Table<S>& table, const ColumnText& says, judge::SeedRows S::*rows) {
  add_series(table, says, {says.name + "_stderr", says.dimensions, says.units, "its standard error over seeds"},
             [rows](const S& s) { return (s.*rows).curve(); });
}
/// N_measured and N_stderr.
template <class S, class F>
void add_measured(Table<S>& table, const ColumnText& says, F curve) {
  add_series(table, version_of(says, "measured", "mean over seeds"),
             version_of(says, "stderr", "standard error over seeds"), std::move(curve));
}
/// N_predicted and N_predicted_stderr.
template <class S, class F>
void add_predicted(Table<S>& table, const ColumnText& says, F curve) {
  add_series(table, version_of(says, "predicted", "prediction"),
             version_of(says, "predicted_stderr", "standard error of the prediction"), std::move(curve));
}
template <class S>
void add_curve(Table<S>& table, const ColumnText& says, Compared S::*curve) {
  add_measured(table, says, [curve](const S& s) { return (s.*curve).measured.curve(); });
  add_predicted(table, says, [curve](const S& s) -> const Curve& { return (s.*curve).predicted; });
}

/// N_measured, N_stderr, N_predicted, N_predicted_stderr, N_power, N_verdict and N_verdict_reason.
Table<judge::Test> test_table(const ColumnText& says);
template <class S>
void add_test(Table<S>& table, const ColumnText& says, judge::Test S::*test) {
  table.part(test_table(says), [test](const S& s) { return &(s.*test); });
}
/// N and N_reason, of the deciding test; not checked where there are none.
template <class S>
void add_verdict(Table<S>& table, const ColumnText& says, std::vector<judge::Test> S::*tests) {
  table.column(says, [tests](const S& s) {
    const judge::Test* test = judge::deciding(s.*tests);
    return judge::name_of(test != nullptr ? test->verdict : judge::Verdict::not_checked);
  });
  table.column(version_of(says, "reason", "why it is inconclusive"), [tests](const S& s) {
    const judge::Test* test = judge::deciding(s.*tests);
    return test != nullptr ? test->reason : "";
  });
}

/// Returns the outcome of a result whose rows stand in their order on the dimension `row`: rejected if one of them is.
template <class S, class Rejects>
study::Outcome outcome_of(dataset::Builder& builder, const Table<S>& table, const std::string& row,
                          const std::vector<S>& rows, std::string text, const Rejects& is_rejected) {
  for (std::size_t i = 0; i < rows.size(); ++i) table.put(rows[i], builder.at(row, i));
  return {.data = builder.finish(),
          .table = std::move(text),
          .code = study::code_of(std::ranges::none_of(rows, is_rejected))};
}

}  // namespace periscope::gradients
