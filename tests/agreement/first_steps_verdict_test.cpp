#include <algorithm>
#include <cmath>
#include <limits>

#include "experiments/studies/first_steps/first_steps.h"
#include "tests/support/doctest.h"

/// Verdicts on first steps for planted measurements and predictions.
namespace periscope::testing {
namespace {

using first_steps::FirstStepsConfig;
using first_steps::StackSteps;
using judge::Verdict;
using Values = std::vector<double>;

constexpr int planted_seeds = 8;
constexpr int steps = 3;
constexpr std::size_t depths = 3;

/// `values` with standard errors of 0.1 % of `unit`.
Curve with_noise(const Values& values, double unit) { return {values, Values(values.size(), 0.001 * unit)}; }

Curve exact(const Values& values) { return {.value = values, .standard_error = Values(values.size(), 0.0)}; }

/// A stack of one layer with changes of the stream, cosine and loss, a correct prediction and no tolerated error.
StackSteps right() {
  StackSteps stack;
  stack.spec.model.layers = 1;
  stack.spec.model.width = 64;
  stack.seeds = planted_seeds;
  for (int s = 0; s <= steps; ++s) {
    const double t = s;
    const Values change{0.0, 0.5 * t, t};
    const Values moment{1.0, 1.0 + 0.5 * t, 1.0 + t};
    const Values cosine{0.05 * t, 0.1 * t};
    stack.measured.push_back({.second_moment = with_noise(moment, t),
                              .coherent = {},
                              .branch_cosine = with_noise(cosine, 1.0),
                              .branch_second_moment = with_noise({1.0, 1.0}, 1.0),
                              .loss = with_noise({5.0 - t}, t),
                              .update = {},
                              .change = with_noise(change, t),
                              .loss_change = with_noise({-t}, t)});
    stack.prediction.steps.push_back({.second_moment = exact(moment),
                                      .coherent = exact({0.0, 0.1 * t, 0.2 * t}),
                                      .branch_cosine = exact(cosine),
                                      .branch_second_moment = exact({1.0, 1.0}),
                                      .loss = exact({5.0 - t}),
                                      .update = {},
                                      .change = exact(change),
                                      .loss_change = exact({-t})});
  }
  stack.prediction.holds_until = steps;
  return stack;
}

StackSteps judged(StackSteps stack, const FirstStepsConfig& config = {}) {
  std::vector<StackSteps> stacks{std::move(stack)};
  first_steps::judge_steps(stacks, config);
  return stacks.front();
}

TEST_CASE("first steps: a correct theory agrees at every step, depth and sublayer") {
  const StackSteps stack = judged(right());
  CHECK(stack.verdict.verdict == Verdict::agrees);
  CHECK(stack.verdict.rejected == 0);
  CHECK(stack.verdict.tests.size() == depths + steps * (depths + 2 + 1));
  const judge::Power power = judge::power_of(stack.verdict.tests, "change");
  CHECK(power.limit == FirstStepsConfig().change_limit);
  CHECK(power.worst > 0.0);
  CHECK(power.worst < power.limit);
}

TEST_CASE("first steps: changes are relative to the largest change or coherent part of any depth") {
  theory::FirstSteps prediction = right().prediction;
  CHECK(first_steps::change_scale(prediction, 2) == 2.0);
  prediction.steps[2].second_moment.value[1] = -3.0;
  CHECK(first_steps::change_scale(prediction, 2) == 4.0);
  prediction.steps[2].coherent.value[0] = 5.0;
  CHECK(first_steps::change_scale(prediction, 2) == 5.0);
  CHECK(first_steps::change_scale(prediction, 1) == 1.0);
}

TEST_CASE("first steps: an error of one predicted quantity is rejected at the step and place of the error") {
  const auto wrong = [](const auto& change) {
    StackSteps stack = right();
    change(stack.prediction.steps[2]);
    return judged(std::move(stack));
  };
  const auto rejects = [](const StackSteps& stack, const char* name) {
    CHECK(stack.verdict.verdict == Verdict::disagrees);
    CHECK(stack.verdict.rejected == 1);
    CHECK(stack.verdict.worst_test().name() == name);
    first_steps::FirstStepsResult result;
    result.stacks.push_back(stack);
    CHECK(first_steps::any_disagrees(result));
  };
  rejects(wrong([](auto& step) { step.change.value[1] += 0.1; }), "change of second_moment x_out[1] at step 2");
  rejects(wrong([](auto& step) { step.branch_cosine.value[1] -= 0.05; }), "branch_cosine B_out[1] at step 2");
  StackSteps lower = right();
  for (auto& step : lower.prediction.steps) step.second_moment.value[0] = 0.8;
  rejects(judged(lower), "second_moment x_out[0] at step 0");
  rejects(wrong([](auto& step) { step.loss_change.value[0] += 0.2; }), "change of the loss at step 2");
}

TEST_CASE("first steps: a tolerated error is not rejected but reduces power") {
  StackSteps stack = right();
  stack.prediction.steps[3].change.value[2] += 0.15;  // 5 % of the true change, 3
  CHECK(judged(stack).verdict.verdict == Verdict::disagrees);
  stack.tolerated = {.change = 0.1, .cosine = 0.0};
  const StackSteps allowed = judged(stack);
  CHECK(allowed.verdict.rejected == 0);
  CHECK(allowed.verdict.verdict == Verdict::inconclusive);
  CHECK(judge::power_of(allowed.verdict.tests, "change").worst > 0.2);
  stack.tolerated = {.change = 0.0, .cosine = 0.1};
  stack.prediction.steps[3].change.value[2] -= 0.15;
  const StackSteps cosine = judged(stack);
  CHECK(cosine.verdict.verdict == Verdict::inconclusive);
  CHECK(cosine.verdict.reason.find("branch_cosine") != std::string::npos);
}

TEST_CASE("first steps: the configured limit decides whether an agreement is conclusive") {
  FirstStepsConfig config;
  config.change_limit = 1e-4;
  const StackSteps stack = judged(right(), config);
  CHECK(stack.verdict.verdict == Verdict::inconclusive);
  CHECK(stack.verdict.reason.find("detectable error ") != std::string::npos);
}

TEST_CASE("first steps: an imprecise prediction recommends more replicates") {
  StackSteps stack = right();
  for (auto& step : stack.prediction.steps) step.loss_change.standard_error = {0.3};
  FirstStepsConfig config;
  config.replicates = 100;
  const StackSteps vague = judged(stack, config);
  CHECK(vague.verdict.verdict == Verdict::inconclusive);
  CHECK_MESSAGE(vague.verdict.reason.find("(first_steps.replicates)") != std::string::npos, vague.verdict.reason);
}

TEST_CASE("first steps: branch cosines are not compared for parallel branches or if alpha or beta is 0") {
  for (const Placement& placement : {*find_placement("parallel"), custom_placement({.norm_a = true, .alpha = 0.0}),
                                     custom_placement({.norm_a = true, .beta = 0.0})}) {
    CAPTURE(placement.name);
    StackSteps stack = right();
    stack.spec.model.placement = placement;
    for (auto& step : stack.measured) step.branch_cosine.value = Values(2, std::numeric_limits<double>::quiet_NaN());
    const StackSteps without = judged(stack);
    CHECK(without.verdict.tests.size() == depths + steps * (depths + 1));
    CHECK(without.verdict.verdict == Verdict::agrees);
  }
}

TEST_CASE("first steps: nothing is compared after the step at which the theory stops") {
  StackSteps stack = right();
  stack.prediction.holds_until = 1;
  stack.prediction.stopped_by = "sign stability";
  stack.prediction.steps[2].second_moment.value[1] = std::numeric_limits<double>::quiet_NaN();
  const StackSteps stopped = judged(stack);
  CHECK(stopped.verdict.verdict == Verdict::agrees);
  CHECK(stopped.verdict.tests.size() == depths + (depths + 2 + 1));
  stack.prediction.holds_until = 0;
  const StackSteps none = judged(stack);
  CHECK(none.verdict.verdict == Verdict::not_checked);
  CHECK(none.verdict.reason.find("sign stability") != std::string::npos);
}

TEST_CASE("first steps: no verdict without a prediction, with few seeds, or after a diverged run") {
  StackSteps unsupported = right();
  unsupported.prediction = {.unsupported = "because", .steps = {}, .holds_until = 0, .stopped_by = ""};
  CHECK(judged(unsupported).verdict.reason == "because");
  StackSteps few = right();
  few.seeds = 3;
  CHECK(judged(few).verdict.verdict == Verdict::not_checked);
  StackSteps ended = right();
  ended.unusable = "a seed diverged at step 2";
  CHECK(judged(ended).verdict.reason == "a seed diverged at step 2");
}

TEST_CASE("first steps: measured_steps averages records, changes since step 0 and branch cosines over seeds") {
  StackSpec spec;
  spec.model.layers = 1;
  spec.model.placement = *find_placement("pre");
  std::vector<training::TrainingHistory> runs;
  for (const double s : {1.0, 2.0}) {
    training::TrainingHistory& run = runs.emplace_back();
    for (const int step : {0, 1}) {
      run.records[step] = {{"second_moment.x_out", {s, 2.0 * s, 3.0 * s + step}},
                           {"second_moment.B_out", {0.5, 0.25}},
                           {"growth_stream", {4.0, 1.0}},
                           {"growth_branch", {1.0, 4.0}},
                           {"growth_cross", {0.8, -1.6}},
                           {"validation_loss", {5.0 - s * step}},
                           {"update.q", {s * step}}};
    }
    run.loss = {4.0};
    run.grad_norm = {1.0};
  }
  std::string unusable;
  const std::vector<theory::StepReading> all = first_steps::measured_steps(runs, spec, 1, unusable);
  CHECK(unusable.empty());
  REQUIRE(all.size() == 2);
  CHECK(all[1].second_moment.value == Values{1.5, 3.0, 5.5});
  CHECK(all[1].second_moment.standard_error == Values{0.5, 1.0, 1.5});
  CHECK(all[1].change.value == Values{0.0, 0.0, 1.0});
  CHECK(all[1].branch_cosine.value == Values{0.2, -0.4});
  CHECK(all[1].loss.value == Values{3.5});
  CHECK(all[1].loss_change.value == Values{-1.5});
  CHECK(all[1].update.at(Weight::q).value == Values{1.5});
  runs[1].loss = {std::numeric_limits<double>::infinity()};
  runs[1].records.erase(1);
  static_cast<void>(first_steps::measured_steps(runs, spec, 1, unusable));
  CHECK(unusable == "a seed diverged at step 1");
  runs[1].loss.clear();
  runs[1].grad_norm.clear();
  unusable.clear();
  static_cast<void>(first_steps::measured_steps(runs, spec, 1, unusable));
  CHECK(unusable == "a run stopped after 0 of 1 steps");
}

}  // namespace
}  // namespace periscope::testing
