#include "sim/train/train_spec.h"

#include <algorithm>
#include <vector>

#include "sim/base/error.h"
#include "tests/support/doctest.h"

namespace periscope::testing {
namespace {

std::vector<double> rates(const TrainSpec& train) {
  std::vector<double> all;
  for (int step = 1; step <= train.steps; ++step) all.push_back(learning_rate(train, step));
  return all;
}

/// Fraction of the peak rate after 1/4 and 3/4 of the decay: 0.1 + 0.45·(1 + cos(π/4)) and 0.1 + 0.45·(1 + cos(3π/4)).
constexpr double at_quarter = 0.55 + 0.45 * 0.70710678118654752;
constexpr double at_three_quarters = 0.55 - 0.45 * 0.70710678118654752;

void check_rates(const TrainSpec& train, const std::vector<double>& expected) {
  const std::vector<double> all = rates(train);
  REQUIRE(all.size() == expected.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    CAPTURE(i);
    CHECK(all[i] == approx(expected[i]).epsilon(1e-14));
  }
}

TEST_CASE("the learning rate warms up, then decays by a cosine to a tenth or stays constant") {
  // round(0.25 · 6) = 2 steps of warm-up and 4 of decay.
  check_rates({.steps = 6, .lr = 2.0, .warmup = 0.25},
              {1.0, 2.0, 2.0 * at_quarter, 2.0 * 0.55, 2.0 * at_three_quarters, 0.2});
  check_rates({.steps = 5, .lr = 3.0, .warmup = 0.0},
              {3.0, 3.0 * at_quarter, 3.0 * 0.55, 3.0 * at_three_quarters, 0.3});
  check_rates({.steps = 4, .lr = 1.0, .warmup = 1.0}, {0.25, 0.5, 0.75, 1.0});
  check_rates({.steps = 1, .lr = 1.0, .warmup = 0.1}, {1.0});
  check_rates({.steps = 5, .lr = 3.0, .warmup = 0.6, .schedule = ScheduleKind::constant}, {1.0, 2.0, 3.0, 3.0, 3.0});
}

TEST_CASE("the warm-up is rounded to the nearest step, at least one") {
  const auto rising = [](double warmup, int steps) {
    const std::vector<double> all = rates({.steps = steps, .lr = 1.0, .warmup = warmup});
    return std::ranges::max_element(all) - all.begin() + 1;
  };
  CHECK(rising(0.24, 10) == 2);
  CHECK(rising(0.26, 10) == 3);
  CHECK(rising(0.25, 10) == 3);  // half a step rounds up
  CHECK(rising(0.04, 10) == 1);
  CHECK(rising(0.0, 10) == 1);
  CHECK(rising(1.0, 10) == 10);
}

std::vector<int> recorded(const TrainSpec& train) {
  std::vector<int> steps;
  for (int step = 0; step <= train.steps; ++step)
    if (is_recorded(train, step)) steps.push_back(step);
  return steps;
}

TEST_CASE("recorded steps are dense at the beginning, then every record_every steps, and include the last") {
  CHECK(recorded({.record_every = 100, .steps = 250}) == std::vector{0, 1, 2, 5, 10, 20, 50, 100, 200, 250});
  CHECK(recorded({.record_every = 4, .steps = 13}) == std::vector{0, 1, 2, 4, 5, 8, 10, 12, 13});
  CHECK(recorded({.record_every = 1000, .steps = 3}) == std::vector{0, 1, 2, 3});
}

TEST_CASE("train.accumulate must divide train.batch") {
  CHECK_NOTHROW(validate(TrainSpec{.accumulate = 4, .batch = 16}));
  CHECK_THROWS_WITH_AS(validate(TrainSpec{.accumulate = 3, .batch = 16}), doctest::Contains("train.accumulate = 3"),
                       ConfigError);
  CHECK_THROWS_AS(validate(TrainSpec{.accumulate = 32, .batch = 16}), ConfigError);
}

}  // namespace
}  // namespace periscope::testing
