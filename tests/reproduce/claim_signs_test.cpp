#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "experiments/studies/reproduce/metrics.h"
#include "experiments/studies/reproduce/reproduce.h"
#include "tests/reproduce/made_up_runs.h"
#include "tests/support/doctest.h"

/// Compares the tested value of every claim with its known value for planted runs.
namespace periscope::testing {
namespace {

using Make = std::function<training::TrainingResult(int)>;
using Values = std::vector<double>;

/// Makes values of consecutive seeds differ by 1 %, so that every claim has a spread.
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

/// Angular distances of three depths. Neighbouring depths are `start` apart in the first record and `end` in the last.
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

/// Gradients of three layers, with a different slope for every seed.
Make gradients(const Values& start) {
  return [start](int seed) {
    training::TrainingResult run = run_with_loss(3.0);
    for (auto& [step, record] : run.history.records) {
      for (std::size_t l = 0; l < 3; ++l) record.at("grad_sq.weight.q")[l] = std::pow(start[l], 1.0 + 0.01 * seed);
    }
    return run;
  };
}

/// An alternating loss of 120 steps with `count` separate spikes, plus `more` for every further seed.
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

/// A loss that falls from 10 to 2 after `steps` steps for the first seed and `later` more steps for each further seed.
Make falls_after(int steps, int later) {
  return [=](int seed) {
    training::TrainingResult run = run_with_loss(2.0);
    for (int i = 0; i < steps + later * seed; ++i) run.history.loss[static_cast<std::size_t>(i)] = 10.0;
    return run;
  };
}

/// A stream whose second moment after the last sublayer is `top`; Eq. 4 predicts 7.
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
  double value;  ///< expected for the first seed
};

/// Losses at two learning rates; the best loss of Peri-LN is 1 below the best loss of Pre-LN.
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
      {"G7a", {{"post", gradients({1, 10, 100})}}, 3.0 * ln10},
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

TEST_CASE("the tested value of every claim is positive if the statement holds") {
  for (const Row& row : rows()) {
    std::vector<reproduce::GroupRuns> runs;
    for (const auto& [name, make] : row.groups) runs.push_back(group_of(name, name.ends_with('1') ? 1.0 : 3.0, make));
    const std::vector<judge::SignClaim> claims = reproduce::judge_claims(runs);
    const judge::SignClaim& found = claim(claims, row.id);
    INFO(row.id, ": ", found.statement, " ", found.reason);
    REQUIRE(found.values.size() == 3);
    CHECK(found.values[0] == approx(row.value));
    CHECK(found.verdict == judge::ClaimVerdict::holds);
  }
}

TEST_CASE("the gradient of the last layer is averaged over the second half of the steps") {
  training::TrainingResult run = run_with_loss(3.0);
  for (std::size_t i = 0; i < 20; ++i) run.history.last_layer_norm[i] = 1000.0;
  for (std::size_t i = 20; i < 40; ++i) run.history.last_layer_norm[i] = i % 2 == 0 ? 1.0 : std::exp(2.0);
  CHECK(reproduce::last_layer_gradient(run) == approx(1.0));
}

TEST_CASE("spikes of loss and gradient within a few steps are one event; shorter runs are scaled to all steps") {
  training::TrainingResult run = spikes(2, 0)(0);  // loss spikes at steps 21 and 41
  run.history.grad_norm[21] = 5.0;
  CHECK(reproduce::spikes(run) == 2.0);
  run.history.grad_norm[100] = 5.0;
  CHECK(reproduce::spikes(run) == 3.0);
  run.history.loss.resize(90);
  run.history.grad_norm.resize(90);
  CHECK(reproduce::spikes(run) == approx(2.0 * 120.0 / 90.0));
  // The NaN that ends a diverged run is not a spike.
  run = spikes(0, 0)(0);
  run.history.loss.resize(40);
  run.history.grad_norm.resize(40);
  run.history.loss.back() = run.history.grad_norm.back() = std::nan("");
  CHECK(reproduce::spikes(run) == 0.0);
}

TEST_CASE("steps to a loss end with the first window of 16 steps whose mean is at most that loss") {
  training::TrainingResult run = run_with_loss(2.0);
  for (std::size_t i = 0; i < 10; ++i) run.history.loss[i] = 10.0;
  CHECK(reproduce::steps_to_loss(run, 2.0) == 26.0);
  CHECK(reproduce::steps_to_loss(run, 2.5) == 25.0);  // mean of one 10 and fifteen 2s
  CHECK(reproduce::steps_to_loss(run, 2.49) == 26.0);
  CHECK(reproduce::steps_to_loss(run, 7.0) == 16.0);  // mean of ten 10s and six 2s, in the first window
  CHECK(reproduce::steps_to_loss(run, 1.99) == 41.0);
}

TEST_CASE("growth without the cosine includes alpha^2 of the stream, and norm C scales the sum (Eq. 4)") {
  // alpha^2 is 1/4 and the branch adds 1; norm C scales the sums 3 and 5 to 6 and 1.
  const training::RecordedValues record{{"second_moment.x_out", {4.0, 6.0, 1.0}},
                                        {"growth_stream", {1.0, 1.5}},
                                        {"growth_branch", {1.0, 1.0}},
                                        {"growth_sum", {3.0, 5.0}}};
  const Values eq4 = reproduce::without_cosine(record);
  REQUIRE(eq4.size() == 3);
  CHECK(eq4[1] == approx((0.25 * 4.0 + 1.0) * 2.0));
  CHECK(eq4[2] == approx((0.25 * 4.0 + 1.0) * 0.2));
  CHECK(reproduce::cosine_share(record) == approx(std::log(1.0 / 0.4)));
}

}  // namespace
}  // namespace periscope::testing
