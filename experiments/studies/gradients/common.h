#pragma once

#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "experiments/engine/judge/claims.h"
#include "experiments/engine/judge/judge.h"
#include "experiments/engine/judge/seed_rows.h"
#include "experiments/engine/result/table.h"
#include "experiments/engine/run/override_effect.h"
#include "experiments/engine/run/progress.h"
#include "experiments/engine/run/stacks.h"
#include "experiments/engine/study/study.h"
#include "sim/core/backend.h"
#include "theory/predict/predict.h"

/// Shared by the experiments about gradients: results by the names of their columns, predictions, tolerated biases.
namespace periscope::gradients {

/// [gradients]: values that the commands of `periscope gradients` sweep.
struct GradientConfig : config::Config {
  std::vector<int> layers{4, 8, 16, 32};             ///< depth: L
  std::vector<double> qk_factors{0.0, 1.0};          ///< attenuation: init.qk_factor
  std::vector<double> down_factors{0.1, 1.0, 10.0};  ///< crossover: init.down_factor
};

extern const Section<GradientConfig> gradients_section;

/// Results of one stack, by the names of their columns.
struct Case {
  StackSpec spec;
  std::string unsupported = {};                      ///< why there is no prediction
  std::map<std::string, judge::SeedRows> rows = {};  ///< measured, a row per seed
  /// Curves, and single numbers; NaN where nothing was measured or predicted. Those with seeds are judged.
  std::map<std::string, std::vector<judge::Test>> tests = {};
  std::map<std::string, judge::Claim> claims = {};
  double limit_exponent = std::numeric_limits<double>::quiet_NaN();  ///< depth: theory's, at its greatest depths
  double identity_error = 0.0;  ///< identity path: largest ‖g − s − r‖/‖g‖
  double identity_bound = 0.0;  ///< bound of that by rounding
  bool has_gradient = true;     ///< false if a gradient is zero or not finite for some seed and depth

  /// Makes tests of predicted `points` and the means over seeds of `rows`; either may be fewer.
  void compare(const std::string& name, std::vector<judge::Test> points = {});
  /// Adds what the literature claims of the stack's placement, if anything, about the measured number of `test`.
  void add_claim(const std::string& name, const std::map<std::string_view, judge::Claim>& of_placements,
                 const judge::Test& test, double correction = 0.0);
  /// Returns the test that decides `name`, or one of NaN that was not checked if there is none.
  [[nodiscard]] judge::Test test(const std::string& name) const;
};

inline constexpr judge::Estimate nan_estimate{std::numeric_limits<double>::quiet_NaN(),
                                              std::numeric_limits<double>::quiet_NaN()};

struct Result {
  std::vector<Case> cases = {};
  std::map<std::string, std::string> facts = {};  ///< of all cases together, by column
};

/// The columns of a case. Each function adds those of one result, whose name, dimensions, units and meaning it is
/// given.
using Columns = dataset::Table<Case>;
/// Returns placement and unsupported on the dimension `row`.
Columns columns_of(const std::string& row);
/// NAME_measured and NAME_stderr of the case's tests.
void add_measured(Columns& columns, const dataset::ColumnSpec& curve);
/// NAME_predicted and NAME_predicted_stderr of the case's tests.
void add_predicted(Columns& columns, const dataset::ColumnSpec& curve);
void add_compared(Columns& columns, const dataset::ColumnSpec& curve);
/// judge::test_columns of the deciding test, NAME_verdict and NAME_verdict_reason.
void add_test(Columns& columns, const dataset::ColumnSpec& test);
/// NAME and NAME_reason, of the test that decides `tests`.
void add_verdict(Columns& columns, const std::string& name, const std::string& tests, const std::string& row,
                 const std::string& question);
/// NAME, the claim's name in the ledger of claims, NAME_number, which it claims in `units`, and NAME_verdict.
void add_claim(Columns& columns, const std::string& name, const std::string& row, const std::string& units);

/// Measures and predicts the stacks of an experiment. Each seed and each prediction is a task of progress.
struct Work {
  const GradientConfig& config;
  const Backend& backend;
  stacks::Progress& progress;

  /// As stacks::measure_stack. `factor` is added to the label of the task: "qk_factor 0.5".
  SeedAverage measure(const StackSpec& spec, const std::string& factor,
                      const std::function<void(const Reading&)>& on_seed) const;

  /// Predicts the gradients of `overridden`, the stack `spec` with --theory-set, for the token ids and labels of the
  /// seeds of `spec`. Unsupported also where the run's dtype cannot represent the prediction (out_of_range).
  [[nodiscard]] theory::Prediction predict(const StackSpec& spec, const StackSpec& overridden,
                                           theory::GradientPaths paths = theory::GradientPaths::all) const;
};

struct Experiment {
  std::string name;  ///< "gradients depth"
  std::string question;
  std::string configuration;  ///< in experiments/configs
  Columns columns;
  dataset::Schema schema;     ///< its first dimension is that of the cases
  stacks::Compared compared;  ///< predicted numbers that are compared with what is measured
  bool over_depths = false;   ///< runs through gradients.layers
  bool decomposes = false;    ///< decomposes gradients by their paths
  int predictions = 1;        ///< number of predictions of a measured stack
  /// Returns the number of values at which a case is measured and predicted.
  std::function<std::size_t(const GradientConfig&)> values = [](const GradientConfig&) { return 1; };
  std::function<void(const GradientConfig&)> require = [](const GradientConfig&) {};  ///< throws ConfigError
  /// Returns the stacks of the cases from those of the configuration.
  std::function<std::vector<StackSpec>(const GradientConfig&, const std::vector<StackSpec>&)> swept =
      [](const GradientConfig&, const std::vector<StackSpec>& all) { return all; };
  /// Returns the case of a stack, as measured and as predicted.
  std::function<Case(const Work&, const StackSpec&, const StackSpec&)> measure;
  /// Called before the cases are judged.
  std::function<void(const GradientConfig&, Result&)> combine = [](const GradientConfig&, Result&) {};
  std::function<std::string(const GradientConfig&, const Result&)> table;
};

Experiment depth_experiment();
Experiment attenuation_experiment();
Experiment identity_path_experiment();
Experiment score_path_experiment();
Experiment crossover_experiment();

/// Returns dataset, table and exit code of a finished run. It failed if a test of the whole theory disagrees, or if an
/// identity is broken beyond rounding.
study::Outcome outcome_of(const Experiment& experiment, const GradientConfig& config, const Result& result);

/// The name of tests against a theory that is expected to be wrong; they are judged apart and fail nothing.
inline const std::string control_tests = "log_grad_sq_without_scores";

/// Measures, predicts and judges all cases of an experiment.
Result run(const Experiment& experiment, const GradientConfig& config, stacks::Progress& progress);

/// Returns numbers of a prediction that a verdict compares: the stream's gradient at every depth, and a second curve.
template <class Place>
std::vector<double> stream_and(const Profile& predicted, Statistic statistic, Place place) {
  std::vector<double> numbers;
  for (const Curve* curve : {predicted.find(Statistic::grad_sq, Signal::x_out), predicted.find(statistic, place)}) {
    if (curve != nullptr) numbers.insert(numbers.end(), curve->value.begin(), curve->value.end());
  }
  return numbers;
}
/// Returns the gradient of the last layer's W_down, or nothing if it is not predicted.
std::vector<double> last_down(const Profile& predicted);

/// Returns measured log ‖∂loss/∂·‖ = ½ log_grad_sq of a place (a Signal or a Weight).
template <class Place>
std::vector<double> log_norms(const Profile& profile, Place place) {
  std::vector<double> logs = profile.find(Statistic::log_grad_sq, place)->value;
  for (double& log : logs) log *= 0.5;
  return logs;
}

/// Returns the bias that T19 tolerates in the mean over seeds of a log norm at `depth`, half of that of log_grad_sq,
/// less the variance of the log norm over seeds.
double log_norm_bias(const config::Config& config, const StackSpec& spec, const theory::Prediction& prediction,
                     std::size_t depth, bool of_attention = false);

/// Returns the predicted log norms of a place as tests without what is measured, with their log_norm_bias.
template <class Place>
std::vector<judge::Test> log_norms(const config::Config& config, const StackSpec& spec,
                                   const theory::Prediction& prediction, Place place) {
  constexpr std::size_t sublayers = std::is_same_v<Place, Weight> ? 2 : 1;  // per entry
  const Curve& curve = *prediction.profile.find(Statistic::log_grad_sq, place);
  std::vector<judge::Test> all;
  for (std::size_t i = 0; i < curve.value.size(); ++i) {
    all.push_back({.measured = nan_estimate,
                   .predicted = {0.5 * curve.value[i], 0.5 * curve.standard_error[i]},
                   .tolerated_bias = log_norm_bias(config, spec, prediction, sublayers * i),
                   .replicates = prediction.replicates,
                   .precise = theory::is_precise(prediction, Statistic::log_grad_sq, curve, i)});
  }
  return all;
}

/// Tests Σ weights_i y_i of rows of log norms against the same sum over `points`, tests without measured values.
/// The errors of the predictions are fully correlated; the biases, to which the variances over seeds add, have one
/// sign: |Σ weights_i bias_i| is tolerated. Points of weight 0 do not count.
judge::Test sum_of_logs(const judge::SeedRows& rows, const std::vector<judge::Test>& points,
                        const std::vector<double>& weights, double limit);

/// Every stride-th entry: with 2 a curve over sublayers at attention, or at the layers' ends.
template <class T>
std::vector<T> every(std::size_t stride, const std::vector<T>& sublayers) {
  std::vector<T> layers;
  for (std::size_t i = 0; i < sublayers.size(); i += stride) layers.push_back(sublayers[i]);
  return layers;
}

/// "G8: -0.5: holds", the claimed number in a format of fmt's; "-" without a claim.
std::string claim_words(const Case& c, const std::string& claim, const char* format);

/// The measured depths of `gradients depth`, and greater ones.
std::vector<int> theory_layers(const GradientConfig& config);

/// G10: a factor (2/3)^(1/2) per layer towards the input.
inline const double claimed_attenuation_rate = 0.5 * std::log(2.0 / 3.0);

/// Finds where piecewise linear y(x) first changes its sign, x rising; NaN if it does not.
double first_crossing(const std::vector<double>& x, const std::vector<double>& y);

}  // namespace periscope::gradients
