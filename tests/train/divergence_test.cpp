#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "experiments/engine/training/task.h"
#include "tests/support/doctest.h"

namespace periscope::testing {
namespace {

using Losses = std::vector<double>;
constexpr double infinite_loss = std::numeric_limits<double>::infinity();

training::TrainingHistory history_of(const Losses& loss) {
  training::TrainingHistory history;
  for (const double x : loss) history.add({.loss = x, .grad_norm = 1.0, .last_layer_norm = 0.5, .rate = 0.1});
  return history;
}

/// Returns the loss 3, then `good` steps at 2, `bad` steps at `after`, and further losses.
Losses run(int good, int bad, double after, const Losses& further = {}) {
  Losses loss{3.0};
  loss.insert(loss.end(), static_cast<std::size_t>(good), 2.0);
  loss.insert(loss.end(), static_cast<std::size_t>(bad), after);
  loss.insert(loss.end(), further.begin(), further.end());
  return loss;
}

TEST_CASE("the final loss is the mean of the last tenth of the steps, at least one") {
  Losses loss(39, 0.0);
  for (std::size_t i = 0; i < loss.size(); ++i) loss[i] = static_cast<double>(i * i);
  CHECK(training::mean_of_last_tenth(history_of(loss), 39) == approx((36.0 * 36 + 37.0 * 37 + 38.0 * 38) / 3));
  CHECK(training::mean_of_last_tenth(history_of({5.0, 4.0, 3.0}), 3) == 3.0);
  CHECK(std::isnan(training::mean_of_last_tenth(history_of({5.0, 4.0, 3.0}), 4)));
}

TEST_CASE("divergence starts at the first non-finite loss or gradient, or where a high final loss starts") {
  struct Row {
    const char* what;
    Losses loss;
    std::optional<int> step;
  };
  Losses twice = run(10, 30, 3.5, {2.9});
  twice.insert(twice.end(), 25, 4.0);
  const Row rows[] = {
      {"a run that learns", run(50, 0, 0.0), std::nullopt},
      {"no step", {}, std::nullopt},
      {"one step", {3.0}, std::nullopt},
      {"NaN", run(4, 1, NAN), 6},
      {"infinite", run(4, 1, -infinite_loss), 6},
      {"infinite first loss", {infinite_loss}, 1},
      {"20 final steps above the first loss", run(10, 20, 3.5), 12},
      {"19 final steps", run(10, 19, 3.5), std::nullopt},
      {"above the limit of 5 %", run(10, 20, 3.0 * 1.0501), 12},
      {"below the limit", run(10, 20, 3.0 * 1.0499), std::nullopt},
      {"recovers", run(10, 40, 3.5, {2.9}), std::nullopt},
      {"diverges twice", twice, 43},
      {"never learned", run(0, 39, 3.0 * 1.0501), 2},
      {"never learned, below the limit", run(0, 39, 3.0 * 1.0499), std::nullopt},
      {"never learned, 20 steps", run(0, 19, 3.5), 2},
      {"never learned, 19 steps", run(0, 18, 3.5), std::nullopt},
      {"only the last 20 steps average above the limit", run(0, 59, 3.1, Losses(20, 3.2)), 2},
      {"a short run that ends above ten times its first loss", run(5, 2, 30.1), 7},
      {"the same without learning", run(0, 2, 30.1), 2},
      {"a short run that ends below ten times its first loss", run(5, 2, 29.9), std::nullopt},
      {"a short run that recovers", run(5, 2, 300.0, {2.0}), std::nullopt},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    CHECK(training::divergence_step(history_of(row.loss)) == row.step);
  }
  training::TrainingHistory history = history_of(run(4, 1, 2.0));
  CHECK(history.is_finite());
  history.grad_norm.back() = NAN;
  CHECK(training::divergence_step(history) == 6);
  CHECK_FALSE(history.is_finite());
}

}  // namespace
}  // namespace periscope::testing
