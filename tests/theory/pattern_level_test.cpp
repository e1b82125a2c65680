#include "theory/predict/pattern_level.h"

#include "tests/support/doctest.h"

#include <cmath>
#include <limits>
#include <vector>

#include "tests/theory/xiong.h"

namespace periscope::theory {
namespace {

TEST_CASE("extrapolation from two levels reduces the bias, and the error covers the remaining bias") {
  for (const double limit : {3.0, 2e-9, 5e40}) {
    for (const double a : {-1.0, -0.1, 0.3, 1.0}) {
      const auto mean = [&](double patterns) { return limit * std::exp(a / patterns); };
      Curve curve{{mean(16)}, {0.0}};
      const std::vector<double> fixed = extrapolate(curve, {{mean(2)}, {0.0}}, 8.0, true);
      const double bias = std::abs(curve.value[0] - limit);
      CHECK(bias < 0.3 * std::abs(mean(16) - limit));
      CHECK(bias < 2.0 * curve.standard_error[0]);
      CHECK(fixed[0] == curve.standard_error[0]);
    }
  }
}

TEST_CASE("equal levels stay exact; a non-finite level has an infinite error") {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  Curve curve{{2.0, 0.0, nan, 1.0}, {0.0, 0.0, nan, 0.1}};
  const std::vector<double> fixed =
      extrapolate(curve, {{2.0, 0.0, nan, infinity}, {0.0, 0.0, nan, infinity}}, 8.0, true);
  CHECK(curve.value[0] == 2.0);
  CHECK(curve.standard_error[0] == 0.0);
  CHECK(curve.value[1] == 0.0);
  CHECK(std::isnan(curve.value[2]));
  CHECK(curve.value[3] == 1.0);
  CHECK(curve.standard_error[3] == infinity);
  CHECK(fixed[0] == 0.0);
  CHECK(fixed[3] == infinity);
}

TEST_CASE("growing a level in steps gives the same replicates; levels share no random numbers") {
  StackSpec spec = testing::placed(testing::tiny_stack(), "pre");
  const ReplicateInputs inputs{.ids = std::vector<std::vector<int>>(1)};
  const PredictionOptions options;
  const auto top = [](const PatternLevel& level) {
    return level.mean().find(Statistic::second_moment, Signal::x_out)->value.back();
  };
  PatternLevel grown(spec, inputs, options, 1, 2, 2);
  grown.grow(3);
  grown.grow(6);
  PatternLevel whole(spec, inputs, options, 1, 2, 2);
  whole.grow(6);
  PatternLevel other(spec, inputs, options, 2, 2, 2);
  other.grow(6);
  CHECK(top(grown) == top(whole));
  CHECK(top(other) != top(whole));
}

TEST_CASE("standard errors over replicates equal hand-computed values, also for a sample of sequences") {
  const auto curve_of = [](const std::vector<std::vector<double>>& sequences, std::size_t population) {
    std::vector<ProfileMoments> inputs(sequences.size());
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      for (const double value : sequences[i]) {
        Profile chain;
        chain.curves[{Statistic::second_moment, Signal::x_out}] = {{value}, {}};
        inputs[i].add(chain);
      }
    }
    return *combined(inputs, population).find(Statistic::second_moment, Signal::x_out);
  };
  // 2, 4, 9 have mean 5 and squared deviations 9 + 1 + 16 = 26; the squared error of the mean is 26/(3·2).
  const Curve one = curve_of({{2.0, 4.0, 9.0}}, 1);
  CHECK(one.value[0] == approx(5.0).epsilon(1e-12));
  CHECK(one.standard_error[0] == approx(std::sqrt(26.0 / 6.0)).epsilon(1e-12));
  // Two sequences have means 2 and 6 with squared errors 2/(2·1) and 8/(2·1). Their mean has a quarter of the sum.
  const Curve two = curve_of({{1.0, 3.0}, {4.0, 8.0}}, 2);
  CHECK(two.value[0] == approx(4.0).epsilon(1e-12));
  CHECK(two.standard_error[0] == approx(std::sqrt(1.25)).epsilon(1e-12));
  // Sampling two of four sequences adds the variance of their means, 8/1, times 1/2 − 1/4.
  const Curve some = curve_of({{1.0, 3.0}, {4.0, 8.0}}, 4);
  CHECK(some.standard_error[0] == approx(std::sqrt(1.25 + 2.0)).epsilon(1e-12));
}

}  // namespace
}  // namespace periscope::theory
