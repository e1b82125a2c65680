#include <limits>
#include <vector>

#include "experiments/train/cell.h"
#include "tests/support/doctest.h"

namespace periscope::testing {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();

train::CellHistory history_of(const std::vector<double>& loss) {
  train::CellHistory history;
  for (const double x : loss) history.add({.loss = x, .grad_norm = 1.0, .last_layer_norm = 0.5, .rate = 0.1});
  return history;
}

/// A run that learns for `good` steps after the first one, and then has the loss `after` for `bad` steps.
std::vector<double> run(int good, int bad, double after) {
  std::vector<double> loss{3.0};
  loss.insert(loss.end(), static_cast<std::size_t>(good), 2.0);
  loss.insert(loss.end(), static_cast<std::size_t>(bad), after);
  return loss;
}

TEST_CASE("a run that learns did not diverge") {
  CHECK(train::divergence_step(history_of(run(50, 0, 0.0))) == std::nullopt);
  CHECK(train::divergence_step({}) == std::nullopt);
  CHECK(train::divergence_step(history_of({3.0})) == std::nullopt);
}

TEST_CASE("a loss or a gradient that is not finite is a divergence at its step") {
  for (const double bad : {nan, infinity, -infinity}) {
    CHECK(train::divergence_step(history_of(run(4, 1, bad))) == 6);
    CHECK(train::divergence_step(history_of({bad})) == 1);
    train::CellHistory history = history_of(run(4, 1, 2.0));
    CHECK(history.is_finite());
    history.grad_norm.back() = bad;
    CHECK(train::divergence_step(history) == 6);
    CHECK_FALSE(history.is_finite());
  }
}

TEST_CASE("a loss that stays above the first one for twenty steps and to the end is a divergence where that begins") {
  CHECK(train::divergence_step(history_of(run(10, 20, 3.5))) == 12);
  CHECK(train::divergence_step(history_of(run(10, 19, 3.5))) == std::nullopt);
  CHECK(train::divergence_step(history_of(run(10, 20, 3.0))) == 12);  // not below is enough
  std::vector<double> recovers = run(10, 40, 3.5);
  recovers.push_back(2.9);
  CHECK(train::divergence_step(history_of(recovers)) == std::nullopt);
  std::vector<double> twice = run(10, 30, 3.5);
  twice.push_back(2.9);
  twice.insert(twice.end(), 25, 4.0);
  CHECK(train::divergence_step(history_of(twice)) == 43);
}

TEST_CASE("a run that never learned diverged if its last twenty losses are 5 % above the first one on average") {
  const auto stays = [](double after, std::size_t steps) {
    std::vector<double> loss(steps, after);
    loss.front() = 3.0;
    return train::divergence_step(history_of(loss));
  };
  CHECK(stays(3.0 * 1.0501, 40) == 2);
  CHECK(stays(3.0 * 1.0499, 40) == std::nullopt);
  CHECK(stays(3.0 * 1.2, 20) == 2);
  CHECK(stays(3.0 * 1.2, 19) == std::nullopt);
  std::vector<double> late(60, 3.1);
  late.front() = 3.0;
  late.insert(late.end(), 20, 3.2);  // the average is of the last twenty alone
  CHECK(train::divergence_step(history_of(late)) == 2);
}

}  // namespace
}  // namespace periscope::testing
