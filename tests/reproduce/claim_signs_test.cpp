#include <array>
#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "experiments/studies/reproduce/metrics.h"
#include "experiments/studies/reproduce/reproduce.h"
#include "tests/reproduce/made_up_runs.h"
#include "tests/support/doctest.h"

/// The number of every claim, of runs that were made up so that it is known: what is subtracted from what, and of which
/// groups.
namespace periscope::testing {
namespace {

using Make = std::function<training::TrainingResult(int)>;
using Values = std::vector<double>;

/// Seeds differ by a percent, so that every claim has a spread.
double of_seed(double value, int seed) { return value * (1.0 + 0.01 * seed); }

Make loss(double value) {
  return [value](int seed) { return run_with_loss(of_seed(value, seed)); };
}

Make recorded(const std::string& column, const Values& start, const Values& end) {
  return [=](int seed) {
    training::TrainingResult run = run_with_loss(3.0);
    const auto put = [&](training::RecordedValues& record, Values values) {
      for (double& value : values) value = of_seed(value, seed);
      record.at(column) = std::move(values);
    };
    put(run.history.records.begin()->second, start);
    put(run.history.records.rbegin()->second, end);
    return run;
  };
}

Make at_end(const std::string& column, const Values& values) { return recorded(column, values, values); }
Make top_variance(double value) { return at_end("variance.x_out", {1, 1, 1, 1, 1, 1, value}); }

Make surging(double factor) {
  return [factor](int seed) {
    training::TrainingResult run = run_with_loss(3.0);
    run.history.records.rbegin()->second.at("variance.x_out").back() *= of_seed(factor, seed);
    return run;
  };
}

/// Neighbouring depths of three that are so far apart.
Make angles(double start, double end) {
  const auto matrix = [](double step) { return Values{0, step, 0, step, 0, step, 0, step, 0}; };
  return recorded("angular_distance", matrix(start), matrix(end));
}

Make last_layer(double norm) {
  return [norm](int seed) {
    training::TrainingResult run = run_with_loss(3.0);
    run.history.last_layer_norm.assign(40, norm * std::pow(1.01, seed * norm));
    return run;
  };
}

/// Gradients of three layers, seeds with another slope.
Make gradients(const Values& start) {
  return [start](int seed) {
    training::TrainingResult run = run_with_loss(3.0);
    for (std::size_t l = 0; l < 3; ++l)
      run.history.records.begin()->second.at("grad_sq.weight.q")[l] = std::pow(start[l], 1.0 + 0.01 * seed);
    return run;
  };
}

/// A loss of 120 steps that alternates, with so many spikes, far from each other, and one more for every seed.
Make spikes(int count, int more) {
  return [=](int seed) {
    training::TrainingResult run = run_with_loss(3.0);
    run.task.train.steps = 120;
    run.history.grad_norm.assign(120, 1.0);
    run.history.loss.assign(120, 3.0);
    for (std::size_t i = 0; i < 120; ++i) run.history.loss[i] += i % 2 == 0 ? 0.1 : -0.1;
    for (int s = 0; s < count + more * seed; ++s) run.history.loss[static_cast<std::size_t>(20 + 20 * s)] = 9.0;
    return run;
  };
}

/// A loss that falls from 10 to 2 after so many steps, and for every further seed a step later.
Make falls_after(int steps, int later) {
  return [=](int seed) {
    training::TrainingResult run = run_with_loss(2.0);
    for (int i = 0; i < steps + later * seed; ++i) run.history.loss[static_cast<std::size_t>(i)] = 10.0;
    return run;
  };
}

/// Eq. 4 has 7 at the top, where `top` was measured.
Make grown_to(double top) {
  return [top](int seed) {
    training::TrainingResult run = run_with_loss(3.0);
    auto& record = run.history.records.rbegin()->second;
    const double q = of_seed(top, seed);
    record["second_moment.x_out"] = {1, 3, 6, 10, 15, 21, q};
    record["growth_stream"] = {1, 3, 6, 10, 15, 21};
    record["growth_sum"] = {3, 6, 10, 15, 21, q};
    return run;
  };
}

struct Row {
  std::string id;
  std::vector<std::pair<std::string, Make>> groups;
  double value;  ///< of the first seed
};

/// Pre-LN's and Peri-LN's losses at two rates, of which Peri-LN's best one is 1 below Pre-LN's.
std::vector<std::pair<std::string, Make>> at_rates(const std::string& setting, const std::string& one,
                                                   const std::string& other) {
  return {{"pre, " + setting + one, loss(3)},
          {"pre, " + setting + other, loss(4)},
          {"peri, " + setting + one, loss(5)},
          {"peri, " + setting + other, loss(2)}};
}

std::vector<Row> rows() {
  const double ln2 = std::log(2.0), ln10 = std::log(10.0);
  std::vector<Row> all{
      {"F4a", {{"pre", surging(4.0)}, {"peri", [](int) { return run_with_loss(3.0); }}}, 2.0 * ln2},
      {"F9a", {{"pre", at_end("top_magnitudes", {20, 1})}, {"peri", loss(3)}}, std::log(20.0 / 9.0)},
      {"F9b", {{"pre", at_end("top_magnitudes", {180, 1})}, {"peri", loss(3)}}, ln2},
      {"F9c", {{"pre", at_end("largest", {1, 131008, 1})}}, ln2},
      {"F10a", {{"pre", angles(0.1, 0.1)}, {"peri", angles(0.1, 0.3)}}, 0.2},
      {"F10b", {{"pre", angles(0.10, 0.1)}, {"peri", angles(0.11, 0.3)}}, 0.1 - 0.01},
      {"F11a", {{"peri", at_end("gain_mean.norm_b", {1.0, 1.1, 1.2, 1.3, 1.4, 1.5})}}, 0.6},
      {"F11b",
       {{"peri", at_end("growth_stream", {0, 0, 0, 4.5, 5.4, 6.3})},
        {"peri, output gains frozen", at_end("growth_sum", {1, 1, 1, 5, 6, 7})}},
       0.9 - (4.0 / 5 + 5.0 / 6 + 6.0 / 7) / 3},
      {"F12",
       {{"pre, variance 10/d", top_variance(100)},
        {"pre, variance 0.1/d", loss(3)},
        {"peri, variance 10/d", loss(3)},
        {"peri, variance 0.1/d", loss(3)}},
       std::log(100.0 / 7.0)},
      {"F13a", {{"pre", top_variance(14)}, {"pre, weight decay 0.33", loss(3)}}, ln2},
      {"F13b",
       {{"pre", top_variance(14)},
        {"pre, weight decay 0.33", loss(3)},
        {"peri", loss(3)},
        {"peri, weight decay 0.33", loss(3)}},
       ln2},
      {"T15a", {{"pre", grown_to(28)}}, 2.0 * ln2},
      {"T15b", {{"peri", grown_to(28)}}, 2.0 * ln2},
      {"T15c", {{"pre", grown_to(28)}}, 2.0 * ln2},
      {"T15d", {{"peri", grown_to(28)}}, 2.0 * ln2},
      {"G6a", {{"post", last_layer(2)}, {"pre", last_layer(1)}}, ln2},
      {"G6b", {{"pre", last_layer(2)}, {"peri", last_layer(1)}}, ln2},
      {"G7b", {{"pre", gradients({100, 10, 1})}}, 3.0 * ln10},
      {"G7c", {{"pre", gradients({100, 10, 1})}, {"peri", gradients({1, 2, 4})}}, 3.0 * (ln10 - ln2)},
      {"G12", {{"pre", spikes(1, 1)}, {"peri", spikes(0, 0)}}, 1.0},
      {"R1a", {{"a+c", loss(3)}, {"peri", loss(2)}}, 1.0},
      {"R1b", {{"post", loss(3)}, {"a+c", loss(2)}}, 1.0},
      {"R1c", {{"b-only", loss(3)}, {"peri", loss(2)}}, 1.0},
      {"R1d", {{"pre", loss(3)}, {"peri", loss(2)}}, 1.0},
      {"R1e", {{"pre, embedding norm", loss(3)}, {"peri, embedding norm", loss(2)}}, 1.0},
      {"R2a", {{"peri", loss(3)}, {"peri, QK-norm", loss(2)}}, 1.0},
      {"R2b",
       {{"pre", loss(3)}, {"peri", loss(2)}, {"peri, QK-norm", loss(1.5)}, {"b-only, QK-norm (OLMo 2)", loss(1.6)}},
       0.5 - 0.1},
      {"R3c", at_rates("warm-up x 3, rate ", "x 1", "x 3"), 1.0},
      {"R3d", at_rates("half the length, rate ", "x 1", "x 3"), 1.0},
      {"R4 0", {{"pre, weight decay 0", loss(3)}, {"peri, weight decay 0", loss(2)}}, 1.0},
      {"R5 Xavier", {{"pre, Xavier", loss(3)}, {"peri, Xavier", loss(2)}}, 1.0},
      {"R6a", {{"pre", loss(3)}, {"peri, output gains frozen", loss(2)}}, 1.0},
      {"R6b", {{"peri, output gains frozen", loss(3)}, {"peri", loss(2)}}, 1.0},
      {"R7b", {{"peri", loss(3)}, {"peri, embedding norm", loss(2)}}, 1.0},
      {"R8", at_rates("SGD, rate ", "0.1", "1"), 1.0},
      {"R10a", {{"post, no warm-up, rate x 1", loss(3)}, {"post", loss(2)}}, 1.0},
      {"R10b",
       {{"post, no warm-up, rate x 1", loss(3.5)},
        {"post", loss(2)},
        {"pre, no warm-up, rate x 1", loss(3)},
        {"pre", loss(2.5)}},
       1.0},
      {"R11", {{"post", falls_after(10, 2)}, {"pre", falls_after(4, 0)}}, 6.0}};
  return all;
}

TEST_CASE("every claim's number is what its statement says is positive") {
  for (const Row& row : rows()) {
    std::vector<reproduce::GroupRuns> runs;
    for (const auto& [name, make] : row.groups) runs.push_back(group_of(name, name.ends_with('1') ? 1.0 : 3.0, make));
    const std::vector<judge::SignClaim> claims = reproduce::judge_claims(runs);
    const judge::SignClaim& found = claim(claims, row.id);
    INFO(row.id, ": ", found.statement, " ", found.reason);
    REQUIRE(found.values.size() == 3);
    CHECK(found.values[0] == doctest::Approx(row.value));
    CHECK(found.verdict == judge::ClaimVerdict::holds);
  }
}

TEST_CASE("that two are alike is not shown by noise of what they are held against") {
  // Pre-LN and Peri-LN differ by noise alone, with a mean of nearly zero, the two others by less noise.
  const auto noisy = [](double a, double b, double c) {
    return [=](int seed) { return run_with_loss(std::array{a, b, c}[static_cast<std::size_t>(seed)]); };
  };
  const auto claims =
      reproduce::judge_claims({group_of("pre", 1.0, noisy(3.0, 3.2, 2.81)), group_of("peri", 1.0, noisy(3.0, 3.0, 3.0)),
                               group_of("peri, LayerNorm", 1.0, noisy(3.01, 2.99, 3.012))});
  CHECK(claim(claims, "R7a").verdict == judge::ClaimVerdict::not_shown);
}

TEST_CASE("claims say which runs ended early") {
  const auto short_run = [](int seed) {
    training::TrainingResult run = run_with_loss(3.0 + seed);
    run.history.loss.resize(30);
    return run;
  };
  const auto claims = reproduce::judge_claims({group_of("pre", 1.0, short_run), group_of("peri", 1.0, loss(2))});
  CHECK(claim(claims, "F4a").reason ==
        "3 of 3 runs of pre ended early: their final loss counts as ln V, other numbers are from the steps done; no "
        "spread over "
        "seeds");
}

TEST_CASE("the last layer's gradient is that of the second half of the steps") {
  training::TrainingResult run = run_with_loss(3.0);
  for (std::size_t i = 0; i < 20; ++i) run.history.last_layer_norm[i] = 1000.0;
  for (std::size_t i = 20; i < 40; ++i) run.history.last_layer_norm[i] = i % 2 == 0 ? 1.0 : std::exp(2.0);
  CHECK(reproduce::last_layer_gradient(run) == doctest::Approx(1.0));
}

TEST_CASE("spikes of a run that ended early count for all steps at the rate of those done") {
  training::TrainingResult run = spikes(2, 0)(0);
  run.history.loss.resize(90);
  run.history.grad_norm.resize(90);
  CHECK(reproduce::spikes(run) == doctest::Approx(2.0 * 120.0 / 90.0));
}

TEST_CASE("a spike of loss and gradient, at one step or a few apart, is one event") {
  training::TrainingResult run = spikes(2, 0)(0);  // at steps 21 and 41 of the loss
  run.history.grad_norm[21] = 5.0;
  CHECK(reproduce::spikes(run) == 2.0);
  run.history.grad_norm[100] = 5.0;
  CHECK(reproduce::spikes(run) == 3.0);
}

TEST_CASE("steps to a loss are those of the first window of 16 whose mean is as low") {
  training::TrainingResult run = run_with_loss(2.0);
  for (std::size_t i = 0; i < 10; ++i) run.history.loss[i] = 10.0;
  CHECK(reproduce::steps_to_loss(run, 2.0) == 26.0);
  CHECK(reproduce::steps_to_loss(run, 2.5) == 25.0);  // one of 16 is 10, fifteen are 2
  CHECK(reproduce::steps_to_loss(run, 2.49) == 26.0);
  CHECK(reproduce::steps_to_loss(run, 7.0) == 16.0);  // the first window that there is: ten of 10 and six of 2
  CHECK(reproduce::steps_to_loss(run, 1.99) == 41.0);
}

TEST_CASE("the end of a run that diverged is no spike, in its loss or its gradient") {
  training::TrainingResult run = spikes(0, 0)(0);
  run.history.loss.resize(40);
  run.history.grad_norm.resize(40);
  run.history.loss.back() = run.history.grad_norm.back() = std::nan("");
  CHECK(reproduce::spikes(run) == 0.0);
}

TEST_CASE("without the cosine Eq. 4 keeps alpha^2 of the stream, and norm C scales the sum") {
  // alpha^2 = 1/4, branch 1, norm C makes the measured sums 3 and 5 into 6 and 1.
  const training::RecordedValues record{{"second_moment.x_out", {4.0, 6.0, 1.0}},
                                        {"growth_stream", {1.0, 1.5}},
                                        {"growth_branch", {1.0, 1.0}},
                                        {"growth_sum", {3.0, 5.0}}};
  const Values eq4 = reproduce::without_cosine(record);
  REQUIRE(eq4.size() == 3);
  CHECK(eq4[1] == doctest::Approx((0.25 * 4.0 + 1.0) * 2.0));
  CHECK(eq4[2] == doctest::Approx((0.25 * 4.0 + 1.0) * 0.2));
  CHECK(reproduce::cosine_share(record) == doctest::Approx(std::log(1.0 / 0.4)));
}

TEST_CASE("two seeds say nothing of a spread") {
  auto pre = group_of("pre", 1.0, loss(3)), peri = group_of("peri", 1.0, loss(2));
  pre.tasks.pop_back();
  peri.tasks.pop_back();
  CHECK(claim(reproduce::judge_claims({pre, peri}), "R9").verdict == judge::ClaimVerdict::not_shown);
}

}  // namespace
}  // namespace periscope::testing
