#include <cmath>
#include <limits>
#include <vector>

#include "experiments/engine/training/task.h"
#include "tests/support/doctest.h"

namespace periscope::testing {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double infinite_loss = std::numeric_limits<double>::infinity();

training::TrainingHistory history_of(const std::vector<double>& loss) {
  training::TrainingHistory history;
  for (const double x : loss) history.add({.loss = x, .grad_norm = 1.0, .last_layer_norm = 0.5, .rate = 0.1});
  return history;
}

/// Loss 3, then `good` steps at 2 and `bad` steps at `after`.
std::vector<double> run(int good, int bad, double after) {
  std::vector<double> loss{3.0};
  loss.insert(loss.end(), static_cast<std::size_t>(good), 2.0);
  loss.insert(loss.end(), static_cast<std::size_t>(bad), after);
  return loss;
}

TEST_CASE("final loss: mean of the last tenth of the steps, at least one") {
  std::vector<double> loss(39, 0.0);
  for (std::size_t i = 0; i < loss.size(); ++i) loss[i] = static_cast<double>(i * i);
  CHECK(training::mean_of_last_tenth(history_of(loss), 39) == doctest::Approx((36.0 * 36 + 37.0 * 37 + 38.0 * 38) / 3));
  CHECK(training::mean_of_last_tenth(history_of({5.0, 4.0, 3.0}), 3) == 3.0);
  CHECK(std::isnan(training::mean_of_last_tenth(history_of({5.0, 4.0, 3.0}), 4)));
}

TEST_CASE("divergence: none for a run that learns") {
  CHECK(training::divergence_step(history_of(run(50, 0, 0.0))) == std::nullopt);
  CHECK(training::divergence_step({}) == std::nullopt);
  CHECK(training::divergence_step(history_of({3.0})) == std::nullopt);
}

TEST_CASE("divergence: at the first non-finite loss or gradient") {
  for (const double bad : {nan, infinite_loss, -infinite_loss}) {
    CHECK(training::divergence_step(history_of(run(4, 1, bad))) == 6);
    CHECK(training::divergence_step(history_of({bad})) == 1);
    training::TrainingHistory history = history_of(run(4, 1, 2.0));
    CHECK(history.is_finite());
    history.grad_norm.back() = bad;
    CHECK(training::divergence_step(history) == 6);
    CHECK_FALSE(history.is_finite());
  }
}

TEST_CASE("divergence: at the start of at least 20 final steps with a loss above the first one") {
  CHECK(training::divergence_step(history_of(run(10, 20, 3.5))) == 12);
  CHECK(training::divergence_step(history_of(run(10, 19, 3.5))) == std::nullopt);
  CHECK(training::divergence_step(history_of(run(10, 20, 3.0 * 1.0501))) == 12);
  CHECK(training::divergence_step(history_of(run(10, 20, 3.0 * 1.0499))) == std::nullopt);
  std::vector<double> recovers = run(10, 40, 3.5);
  recovers.push_back(2.9);
  CHECK(training::divergence_step(history_of(recovers)) == std::nullopt);
  std::vector<double> twice = run(10, 30, 3.5);
  twice.push_back(2.9);
  twice.insert(twice.end(), 25, 4.0);
  CHECK(training::divergence_step(history_of(twice)) == 43);
}

TEST_CASE("divergence: a run that never learned, if its last 20 losses average 5 % above the first") {
  CHECK(training::divergence_step(history_of(run(0, 39, 3.0 * 1.0501))) == 2);
  CHECK(training::divergence_step(history_of(run(0, 39, 3.0 * 1.0499))) == std::nullopt);
  CHECK(training::divergence_step(history_of(run(0, 19, 3.5))) == 2);  // step 1 is not below itself
  CHECK(training::divergence_step(history_of(run(0, 18, 3.5))) == std::nullopt);
  std::vector<double> late = run(0, 59, 3.1);
  late.insert(late.end(), 20, 3.2);  // the average is of the last twenty alone
  CHECK(training::divergence_step(history_of(late)) == 2);
}

TEST_CASE("divergence: a short run, if it ends above ten times its first loss") {
  CHECK(training::divergence_step(history_of(run(5, 2, 30.1))) == 7);
  CHECK(training::divergence_step(history_of(run(0, 2, 30.1))) == 2);
  CHECK(training::divergence_step(history_of(run(5, 2, 29.9))) == std::nullopt);
  std::vector<double> recovers = run(5, 2, 300.0);
  recovers.push_back(2.0);
  CHECK(training::divergence_step(history_of(recovers)) == std::nullopt);
}

}  // namespace
}  // namespace periscope::testing
