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

/// Common code of the gradient experiments: results by column name, predictions, tolerated biases.
namespace periscope::gradients {

/// Section [gradients]: values that the commands of `periscope gradients` sweep.
struct GradientConfig : config::Config {
  std::vector<int> layers{4, 8, 16, 32};             ///< L in `gradients depth`
  std::vector<double> qk_factors{0.0, 1.0};          ///< init.qk_factor in `gradients attenuation`
  std::vector<double> down_factors{0.1, 1.0, 10.0};  ///< init.down_factor in `gradients crossover`
};

extern const Section<GradientConfig> gradients_section;

/// Results of one stack, by column name.
struct Case {
  StackSpec spec;
  std::string unsupported = {};                      ///< why there is no prediction
  std::map<std::string, judge::SeedRows> rows = {};  ///< measured values, one row per seed
  /// Curves and single numbers; NaN where not measured or not predicted. Only tests with `seeds` > 0 are judged.
  std::map<std::string, std::vector<judge::Test>> tests = {};
  std::map<std::string, judge::Claim> claims = {};
  double limit_exponent = std::numeric_limits<double>::quiet_NaN();  ///< predicted exponent at the two largest depths
  double identity_error = 0.0;  ///< largest ‖g − s − r‖/‖g‖ (`gradients identity-path`)
  double identity_bound = 0.0;  ///< bound on identity_error due to rounding
  bool has_gradient = true;     ///< false if a gradient is zero or not finite for some seed and depth

  /// Sets tests[name] from the predicted `points` and the measured means of rows[name]; pads the shorter with NaN.
  void compare(const std::string& name, std::vector<judge::Test> points = {});
  /// Adds the claim that `of_placements` has for the stack's placement, if any, with the measured value of `test`.
  void add_claim(const std::string& name, const std::map<std::string_view, judge::Claim>& of_placements,
                 const judge::Test& test, double correction = 0.0);
  /// Returns the deciding test of `name`. If there are no tests, returns a test with NaN values, which is not judged.
  [[nodiscard]] judge::Test test(const std::string& name) const;
};

inline constexpr judge::Estimate nan_estimate{std::numeric_limits<double>::quiet_NaN(),
                                              std::numeric_limits<double>::quiet_NaN()};

struct Result {
  std::vector<Case> cases = {};
  std::map<std::string, std::string> texts = {};  ///< columns that describe all cases together
};

/// Columns of a case. Each function below adds the columns of one quantity.
using Columns = dataset::Table<Case>;
/// Returns the columns placement and unsupported on the dimension `row`.
Columns columns_of(const std::string& row);
/// Adds columns with the suffixes _measured and _stderr.
void add_measured(Columns& columns, const dataset::ColumnSpec& curve);
/// Adds columns with the suffixes _predicted and _predicted_stderr.
void add_predicted(Columns& columns, const dataset::ColumnSpec& curve);
void add_compared(Columns& columns, const dataset::ColumnSpec& curve);
/// Adds judge::test_columns of the deciding test, its verdict (suffix _verdict) and the reason (_verdict_reason).
void add_test(Columns& columns, const dataset::ColumnSpec& test);
/// Adds the verdict of the test that decides `tests` (column `name`) and its reason (suffix _reason).
void add_verdict(Columns& columns, const std::string& name, const std::string& tests, const std::string& row,
                 const std::string& question);
/// Adds the claim's id (column `name`), the claimed number in `units` (suffix _number) and the verdict (_verdict).
void add_claim(Columns& columns, const std::string& name, const std::string& row, const std::string& units);

/// Measures and predicts the stacks of an experiment. Each seed and each prediction is one progress task.
struct Work {
  const GradientConfig& config;
  const Backend& backend;
  stacks::Progress& progress;

  /// Calls stacks::measure_stack. `factor`, such as "qk_factor 0.5", is appended to the task's label.
  SeedAverage measure(const StackSpec& spec, const std::string& factor,
                      const std::function<void(const Reading&)>& on_seed) const;

  /// Predicts the gradients of `overridden`, the stack `spec` with --theory-set, for the token ids and labels of the
  /// seeds of `spec`. The prediction is also unsupported if the run's dtype cannot represent it (out_of_range).
  [[nodiscard]] theory::Prediction predict(const StackSpec& spec, const StackSpec& overridden,
                                           theory::GradientPaths paths = theory::GradientPaths::all) const;
};

struct Experiment {
  std::string name;  ///< "gradients depth"
  std::string question;
  std::string configuration;  ///< file in experiments/configs
  Columns columns;
  dataset::Schema schema;     ///< the first dimension runs over the cases
  stacks::Compared compared;  ///< predicted numbers that a verdict compares
  bool over_depths = false;   ///< sweeps gradients.layers
  bool decomposes = false;    ///< splits gradients by their paths
  int predictions = 1;        ///< number of predictions per measured stack
  /// Returns the number of swept values per case.
  std::function<std::size_t(const GradientConfig&)> values = [](const GradientConfig&) { return 1; };
  std::function<void(const GradientConfig&)> require = [](const GradientConfig&) {};  ///< throws ConfigError
  /// Returns the stacks of the cases, given the stacks of the configuration.
  std::function<std::vector<StackSpec>(const GradientConfig&, const std::vector<StackSpec>&)> swept =
      [](const GradientConfig&, const std::vector<StackSpec>& all) { return all; };
  /// Returns a case, given the stack to measure and the stack to predict.
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

/// Returns dataset, table and exit code of a finished run. The check fails if a test of the complete theory disagrees,
/// or if the identity g = s + r is violated beyond rounding.
study::Outcome outcome_of(const Experiment& experiment, const GradientConfig& config, const Result& result);

/// Name of tests against a deliberately incomplete theory; judged separately, without effect on the exit code.
inline const std::string control_tests = "log_grad_sq_without_scores";

/// Measures, predicts and judges all cases of an experiment.
Result run(const Experiment& experiment, const GradientConfig& config, stacks::Progress& progress);

/// Returns the predicted numbers that a verdict compares: the stream's gradients and the curve of (statistic, place).
template <class Place>
std::vector<double> stream_and(const Profile& predicted, Statistic statistic, Place place) {
  std::vector<double> numbers;
  for (const Curve* curve : {predicted.find(Statistic::grad_sq, Signal::x_out), predicted.find(statistic, place)}) {
    if (curve != nullptr) numbers.insert(numbers.end(), curve->value.begin(), curve->value.end());
  }
  return numbers;
}
/// Returns the gradient of the last layer's W_down; empty if it is not predicted.
std::vector<double> last_down(const Profile& predicted);

/// Returns the measured log ‖∂loss/∂·‖ = ½ log_grad_sq of a place (a Signal or a Weight).
template <class Place>
std::vector<double> log_norms(const Profile& profile, Place place) {
  std::vector<double> logs = profile.find(Statistic::log_grad_sq, place)->value;
  for (double& log : logs) log *= 0.5;
  return logs;
}

/// Returns the tolerated bias (T19) of the mean over seeds of a log norm at `depth`: half the bias of log_grad_sq.
/// Excludes the variance of the log norm over seeds, which the caller adds.
double log_norm_bias(const config::Config& config, const StackSpec& spec, const theory::Prediction& prediction,
                     std::size_t depth, bool of_attention = false);

/// Returns the predicted log norms of a place as tests without measured values, with their log_norm_bias.
template <class Place>
std::vector<judge::Test> log_norms(const config::Config& config, const StackSpec& spec,
                                   const theory::Prediction& prediction, Place place) {
  constexpr std::size_t sublayers = std::is_same_v<Place, Weight> ? 2 : 1;  // sublayers per entry
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

/// Returns the test of Σ weights_i y_i, where y are log norms (`rows`), against the same sum of the predicted `points`.
/// Prediction errors are taken as fully correlated. All biases, including the variances over seeds, are taken to have
/// the same sign: |Σ weights_i bias_i| is tolerated. Points of weight 0 are ignored.
judge::Test sum_of_logs(const judge::SeedRows& rows, const std::vector<judge::Test>& points,
                        const std::vector<double>& weights, double limit);

/// Returns every stride-th entry. Stride 2 selects attention sublayers, or layer boundaries in a curve over depth.
template <class T>
std::vector<T> every(std::size_t stride, const std::vector<T>& sublayers) {
  std::vector<T> layers;
  for (std::size_t i = 0; i < sublayers.size(); i += stride) layers.push_back(sublayers[i]);
  return layers;
}

/// Returns a text such as "G8: -0.5: holds", or "-" if there is no claim. `format` formats the claimed number (fmt).
std::string claim_words(const Case& c, const std::string& claim, const char* format);

/// Returns the depths that `gradients depth` predicts: the measured depths, and larger ones.
std::vector<int> theory_layers(const GradientConfig& config);

/// Claim G10: gradients shrink by a factor (2/3)^(1/2) per layer towards the input.
inline const double claimed_attenuation_rate = 0.5 * std::log(2.0 / 3.0);

/// Returns the smallest x at which piecewise linear y(x) changes sign, or NaN. Requires ascending x.
double first_crossing(const std::vector<double>& x, const std::vector<double>& y);

}  // namespace periscope::gradients
