#pragma once

#include <cmath>
#include <initializer_list>
#include <string>
#include <vector>

#include "experiments/engine/judge/gradient_allowance.h"
#include "experiments/engine/run/stacks.h"
#include "experiments/studies/gradients/config.h"
#include "sim/backends.h"
#include "sim/numerics/allowances.h"
#include "tests/agreement/by_hand.h"
#include "tests/support/doctest.h"

/// Small runs of the gradient experiments: what they find, from the readings of every seed and from predictions that
/// the test asks for itself.
namespace periscope::testing::gradient_runs {

using namespace gradients;
using Rows = std::vector<std::vector<double>>;

inline constexpr int seeds = 5;
inline constexpr double finite_width = 0.7;  // agreement.finite_width_gradient
inline constexpr double error_rate = 0.02;

inline GradientConfig tiny(std::initializer_list<const char*> placements, double qk_factor) {
  GradientConfig config;
  config.base.model = {.layers = 3, .width = 8, .heads = 2, .kv_heads = 2, .head_dim = 4, .mlp_width = 12};
  config.base.init.scheme = InitScheme::lecun;
  config.base.init.qk_factor = qk_factor;
  config.base.input.tokens = 3;
  config.inputs = {InputKind::gaussian};
  for (const char* name : placements) config.placements.push_back(*find_placement(name));
  config.run.seeds = seeds;
  config.run.seed = 11;
  config.run.dtype = DType::f64;
  config.run.backward = true;
  config.theory.gradient_tolerance = 0.3;
  config.agreement.finite_width_gradient = finite_width;
  config.agreement.familywise_error = error_rate;
  return config;
}

/// The readings of every seed.
inline std::vector<Profile> read(const config::Config& config, const StackSpec& spec) {
  std::vector<Profile> all;
  stacks::Progress progress;
  (void)stacks::measure_stack(*make_backend("cpu"), spec, config.run, seeds, "", progress,
                              [&](const Reading& reading) { all.push_back(reading.profile); });
  return all;
}

/// ½ log_grad_sq, a row per seed, of every `step`-th entry.
template <class Place>
Rows log_norms(const std::vector<Profile>& profiles, Place place, std::size_t step = 1) {
  Rows rows;
  for (const Profile& p : profiles) {
    const std::vector<double>& log = p.find(Statistic::log_grad_sq, place)->value;
    auto& row = rows.emplace_back();
    for (std::size_t i = 0; i < log.size(); i += step) row.push_back(0.5 * log[i]);
  }
  return rows;
}

template <class Place>
Curve log_norms(const Profile& predicted, Place place, std::size_t step = 1) {
  const Curve& log = *predicted.find(Statistic::log_grad_sq, place);
  Curve half;
  for (std::size_t i = 0; i < log.value.size(); i += step) {
    half.value.push_back(0.5 * log.value[i]);
    half.standard_error.push_back(0.5 * log.standard_error[i]);
  }
  return half;
}

inline std::vector<double> column(const Rows& rows, std::size_t i) {
  std::vector<double> values;
  for (const auto& row : rows) values.push_back(row[i]);
  return values;
}

/// T19: what a mean log norm at `depth` may differ by, besides its variance over seeds.
inline double width_allowance(const StackSpec& spec, const theory::Prediction& p, std::size_t depth,
                              bool attention = false) {
  return 0.5 * finite_width * judge::gradient_width_term(spec, p.finite_width, depth, attention) +
         backward_allowance(format_of(DType::f64));
}

/// Σ weights_i y_i of rows and of a prediction; `bias` is what each point may differ by.
inline judge::Test sum_by_hand(const Rows& rows, const Curve& predicted, const std::vector<double>& weights,
                               const std::vector<double>& bias) {
  std::vector<double> sums;
  for (const auto& row : rows) {
    double sum = 0.0;
    for (std::size_t i = 0; i < weights.size(); ++i) sum += weights[i] * row[i];
    sums.push_back(sum);
  }
  judge::Test f{.measured = {mean_of(sums), error_of(sums)}, .seeds = seeds};
  double drift = 0.0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    f.predicted.value += weights[i] * predicted.value[i];
    f.predicted.error += std::abs(weights[i]) * predicted.standard_error[i];
    drift += weights[i] * bias[i];
  }
  f.tolerated_bias = std::abs(drift);
  return f;
}

inline std::vector<double> slope_of(const std::vector<double>& x, std::size_t from = 0) {
  const std::vector<double> used(x.begin() + static_cast<long>(from), x.end());
  std::vector<double> weights(x.size(), 0.0);
  const double squares = variance_of(used) * (static_cast<double>(used.size()) - 1.0);
  for (std::size_t i = from; i < x.size(); ++i) weights[i] = (x[i] - mean_of(used)) / squares;
  return weights;
}

#define CHECK_NEAR(what, found, expected) \
  CHECK_MESSAGE(near(found, expected), what << ": found " << (found) << ", expected " << (expected))

/// `tests`: how many share the familywise error; `limit`: of the detectable error.
inline void check_test(const std::string& what, const judge::Test& found, const judge::Test& expected, int replicates,
                       std::size_t tests, double limit) {
  CAPTURE(what);
  CHECK(found.seeds == seeds);
  CHECK(found.replicates == replicates);
  CHECK_NEAR(what << " measured", found.measured.value, expected.measured.value);
  CHECK_NEAR(what << " stderr", found.measured.error, expected.measured.error);
  CHECK_NEAR(what << " predicted", found.predicted.value, expected.predicted.value);
  CHECK_NEAR(what << " predicted stderr", found.predicted.error, expected.predicted.error);
  if (std::isinf(expected.tolerated_bias)) {
    CHECK(std::isinf(found.tolerated_bias));
    return;
  }
  CHECK_NEAR(what << " tolerated bias", found.tolerated_bias, expected.tolerated_bias);
  CHECK_NEAR(what << " limit", found.limit, limit);
  const double error = std::hypot(expected.measured.error, expected.predicted.error);
  const double degrees = expected.predicted.error == 0.0 ? seeds - 1.0
                                                         : degrees_by_hand(expected.measured.error, seeds - 1.0,
                                                                           expected.predicted.error, replicates - 1.0);
  const double level = 1.0 - std::pow(1.0 - error_rate, 1.0 / static_cast<double>(tests));
  CHECK_NEAR(what << " critical", found.critical, critical_by_hand(degrees, level));
  CHECK_NEAR(what << " detectable", found.detectable,
             detectable_by_hand(expected.tolerated_bias, error, degrees, 1.0, level));
}

}  // namespace periscope::testing::gradient_runs
