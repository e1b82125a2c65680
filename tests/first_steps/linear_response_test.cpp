#include <cmath>
#include <functional>
#include <set>
#include <vector>

#include "sim/measure/running_moments.h"
#include "tests/first_steps/small_case.h"
#include "tests/support/doctest.h"
#include "theory/first_steps/trained_stack.h"

/// Identities that are exact to first order in the rate. An SGD step −η∇L changes the loss on its batch by −η‖∇L‖² in
/// any stack. The change is predicted from all updates, the norm from the gradients of all entries. Scores here are
/// nearly constant, because the theory neglects the response of patterns to W_q and W_k.
namespace periscope::theory {
namespace {

constexpr std::size_t replicates = 64;

/// Mean over replicates and its standard error.
struct Mean {
  double value = 0.0;
  double error = 0.0;
};
Mean mean_over_replicates(const std::function<double(const ReplicateDraws&)>& number) {
  std::vector<double> all(replicates);
#pragma omp parallel for schedule(dynamic, 1)
  for (std::size_t c = 0; c < replicates; ++c) {
    all[c] = number({.neurons = 128, .seed = 7, .replicate = c});
  }
  RunningMoments moments;
  for (const double x : all) moments.add(x);
  return {moments.mean(), moments.standard_error()};
}

/// Returns ‖∇L‖² of the first batch.
double gradient_square(const StackSpec& spec, const OptimizerLaw& law, const ReplicateDraws& draws) {
  const TrainingTokens tokens = tokens_of(spec, seen_input(law), 0);
  const auto readings = trained_stack(spec, tokens, law, draws, StepFault::none, [](double) {});
  return std::pow(readings.front().gradient_norm, 2);
}

/// Returns −∂loss/∂η after the last step, as a central difference in the rate.
double fall(const StackSpec& spec, OptimizerLaw law, const ReplicateDraws& draws) {
  const auto loss = [&](double sign) {
    OptimizerLaw signed_law = law;
    for (double& rate : signed_law.rates) rate *= sign;
    signed_law.weight_decay *= sign;
    const TrainingTokens tokens = tokens_of(spec, seen_input(signed_law), 0);
    return trained_stack(spec, tokens, signed_law, draws, StepFault::none, [](double) {}).back().loss;
  };
  return (loss(-1.0) - loss(1.0)) / (2.0 * law.rates.front());
}

/// Returns true if the difference is at most five standard errors (1 false alarm in 2e6) plus 1 %, which allows for
/// finite samples of channels and third-order terms.
bool agree(const Mean& mean, double expected) { return std::abs(mean.value - expected) < 5.0 * mean.error + 0.01; }

void check_fall(const char* placement, double second_moment) {
  StackSpec spec = flat_stack(placement);
  spec.input.second_moment = second_moment;
  const OptimizerLaw law = sgd({1e-4 * std::sqrt(second_moment)});
  const Mean ratio = mean_over_replicates(
      [&](const ReplicateDraws& draws) { return fall(spec, law, draws) / gradient_square(spec, law, draws); });
  INFO(placement << ", embedding second moment " << second_moment << ": " << ratio.value << " +- " << ratio.error);
  CHECK(ratio.error < 0.05);
  CHECK(agree(ratio, 1.0));
}

TEST_CASE("first steps: the first step of SGD lowers the loss on its batch by the squared gradient norm") {
  for (const char* placement : {"pre", "peri", "post", "beam", "parallel", "hyper"}) check_fall(placement, 1.0);
  // With a small table, the gradient of the embedding dominates.
  check_fall("pre", 4e-4);
}

TEST_CASE("first steps: every clipped step of SGD lowers the loss by the gradient norm times the clipping threshold") {
  const StackSpec spec = flat_stack("pre");
  for (const int steps : {1, 2}) {
    OptimizerLaw law = sgd(std::vector<double>(static_cast<std::size_t>(steps), 1e-3));
    law.clip = 0.5;
    const Mean ratio = mean_over_replicates([&](const ReplicateDraws& draws) {
      return fall(spec, law, draws) / (law.clip * std::sqrt(gradient_square(spec, law, draws)));
    });
    INFO(steps << " steps: " << ratio.value << " +- " << ratio.error);
    CHECK(ratio.error < 0.05);
    CHECK(agree(ratio, steps));
  }
  FirstStepsInput input = seen_input(sgd({1e-3}));
  const StepReading plain = predict_first_steps(spec, input, few()).steps[1];
  input.optimizer.clip = 1e6;  // smaller gradients are not scaled
  CHECK(predict_first_steps(spec, input, few()).steps[1].change.value == plain.change.value);
}

TEST_CASE("first steps: decay between norms does not change the effect of an SGD step on the loss") {
  // With small entries, scores, logits and gates are linear. Norms cancel a factor c of W, so the gradient at cW is
  // g/c, where g is the gradient at W. Only W_U has no norm after it and passes back a gradient c times as large. A
  // step with the gradient at W or at cW therefore lowers the loss at c'W by η‖g‖².
  StackSpec spec = flat_stack("peri");
  spec.model.embedding_norm = true;
  spec.model.norm_eps = 1e-30;
  spec.init.std = 1e-3;
  constexpr double rate = 1e-7;
  for (const double remaining : {1.0, 0.5}) {
    for (const int steps : {1, 2}) {
      OptimizerLaw law = sgd(std::vector<double>(static_cast<std::size_t>(steps), rate));
      law.weight_decay = (1.0 - remaining) / rate;
      const Mean ratio = mean_over_replicates(
          [&](const ReplicateDraws& draws) { return fall(spec, law, draws) / gradient_square(spec, law, draws); });
      INFO(steps << " steps, remaining weight " << remaining << ": " << ratio.value << " +- " << ratio.error);
      CHECK(ratio.error < 0.05);
      CHECK(agree(ratio, steps == 1 ? 1.0 : remaining + 1.0));  // the second decay also shrinks the first update
    }
  }
}

TEST_CASE("first steps: AdamW's first step moves only the embedding rows of the batch, each by the rate") {
  constexpr double rate = 1e-3;
  const FirstStepsInput input = small_input({rate});
  const std::vector<int>& batch = input.runs.front().inputs.front();
  const std::set<int> trained(batch.begin(), batch.end());
  double seen = 0.0;
  for (const int id : input.ids) seen += trained.contains(id) ? 1.0 : 0.0;
  const FirstSteps p = predict_first_steps(small_stack("pre"), input, few());
  const double expected = rate * rate * seen / static_cast<double>(input.ids.size());
  CHECK(p.steps[1].coherent.value.front() / expected == approx(1.0).epsilon(1e-4));  // float rounding
}

TEST_CASE("first steps: an SGD step moves the stream by the square of the embedding scale") {
  const FirstStepsInput input = seen_input(sgd({1e-3}));
  StackSpec spec = small_stack("pre");
  const Curve whole = predict_first_steps(spec, input, few()).steps[1].coherent;
  spec.model.embedding.scale = 2.0;
  spec.input.second_moment = 0.25;
  const FirstSteps scaled = predict_first_steps(spec, input, few());
  CHECK(scaled.steps[0].second_moment.value.front() == approx(1.0).epsilon(0.2));
  CHECK(scaled.steps[1].coherent.value.front() / whole.value.front() == approx(16.0).epsilon(1e-4));
}

TEST_CASE("first steps: the change of the stream does not depend on the number of sampled channels") {
  StackSpec spec = flat_stack("pre");
  const FirstStepsInput input = seen_input(sgd({0.05}));
  const auto change = [&](int neurons, int count) {
    FirstStepsOptions options = few();
    options.neurons = neurons;
    options.replicates = count;
    const Curve all = predict_first_steps(spec, input, options).steps[1].change;
    return Mean{all.value.back(), all.standard_error.back()};
  };
  const Mean sparse = change(16, 512);
  const Mean dense = change(128, 256);
  INFO(sparse.value << " +- " << sparse.error << ", " << dense.value << " +- " << dense.error);
  // Five standard errors of the difference. Without the correction the update of W_down from 16 rows would have 8 times
  // the noise.
  CHECK(std::hypot(sparse.error, dense.error) < 0.1 * dense.value);
  CHECK(std::abs(sparse.value - dense.value) < 5.0 * std::hypot(sparse.error, dense.error));
}

}  // namespace
}  // namespace periscope::theory
