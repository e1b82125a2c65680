#include <algorithm>
#include <cmath>

#include "sim/model/input.h"
#include "sim/model/loss.h"
#include "sim/model/parameters.h"
#include "tests/support/compare.h"
#include "tests/support/doctest.h"
#include "tests/support/finite_difference.h"
#include "tests/support/tolerances.h"
#include "tests/train/tiny_training.h"

/// Gradients of the trainer, measured as the change of the weights in one step of gradient descent with rate 1.
namespace periscope::testing {
namespace {

/// A stack with parameters of every kind: all norms, LayerNorm biases, QK-norm.
StackSpec full_stack() {
  StackSpec spec = trained_stack("peri");
  spec.model.placement = custom_placement({.norm_a = true, .norm_b = true, .norm_c = true, .alpha = 0.7, .beta = 1.3});
  spec.model.norm = NormKind::layer;
  spec.model.qk_norm = QkNorm::head;
  spec.model.embedding_norm = true;
  spec.model.final_norm = true;
  validate(spec);
  return spec;
}

TrainSpec plain_descent() {
  return {.steps = 1,
          .batch = 4,
          .optimizer = OptimizerKind::sgd,
          .lr = 1.0,
          .schedule = ScheduleKind::constant,
          .momentum = 0.0,
          .weight_decay = 0.0,
          .clip = 0.0};
}

/// Randomizes gains and biases, since equal ones would hide a mix-up of norms.
TrainingState random_state(const Target& target, const StackSpec& spec, const TrainSpec& train) {
  TrainingState state = trainer_of(target, spec, train).state();
  std::uint32_t number = 0;
  for (auto& [id, x] : state.parameters) {
    if (id.part == ParameterId::Part::matrix) continue;
    const Tensor noise = target.backend->normal(x.rows(), x.cols(), target.dtype, {9, number++, Stream{}}, 0.3);
    x = target.backend->axpby(1.0, x, 1.0, noise);
  }
  return state;
}

StepOutcome step_from(const Target& target, const StackSpec& spec, const TrainSpec& train, const TrainingState& state,
                      NamedNumbers* after = nullptr) {
  Trainer trainer = trainer_of(target, spec, train);
  trainer.restore(state);
  const StepOutcome outcome = trainer.step();
  if (after != nullptr) *after = parameters_of(*target.backend, trainer.state());
  return outcome;
}

/// Returns the weights before minus the weights after one step.
NamedNumbers change_of_step(const Target& target, const StackSpec& spec, const TrainSpec& train,
                            const TrainingState& state, StepOutcome* outcome = nullptr) {
  NamedNumbers after;
  const StepOutcome seen = step_from(target, spec, train, state, &after);
  if (outcome != nullptr) *outcome = seen;
  NamedNumbers difference = parameters_of(*target.backend, state);
  for (auto& [name, numbers] : difference) {
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] -= after.at(name)[i];
  }
  return difference;
}

double rounding_of_loss(const StackSpec& spec, double loss) {
  const ModelSpec& m = spec.model;
  return stack_error(m.sublayers(), std::max({m.width, m.query_width(0), m.mlp_width}), DType::f64) * (1.0 + loss);
}

TEST_CASE("trainer: gradients of every parameter match finite differences of the loss, over micro-batches") {
  const Target target = truth_target();
  const StackSpec spec = full_stack();
  TrainSpec train = plain_descent();
  train.accumulate = 2;
  const TrainingState state = random_state(target, spec, train);
  StepOutcome outcome{};
  const NamedNumbers gradient = change_of_step(target, spec, train, state, &outcome);
  CHECK(gradient.size() == all_parameters_of(spec).size());
  for (const auto& entry : state.parameters) {
    const ParameterId id = entry.first;
    const Tensor& x = entry.second;
    const auto loss_at = [&](std::span<const double> values) {
      TrainingState moved = state;
      moved.parameters.at(id) = truth().from_host(x.rows(), x.cols(), DType::f64, values);
      return step_from(target, spec, train, moved).loss;
    };
    check_gradient(name_of(id),
                   {.loss = loss_at,
                    .point = truth().to_host(x),
                    .gradient = gradient.at(name_of(id)),
                    .loss_error = rounding_of_loss(spec, outcome.loss),
                    .step = 1e-4},
                   1, 1);
  }
}

class GradientStore final : public GradientRecorder {
 public:
  void on_gradient(const ParameterId& id, const ParameterGradient& gradient) override {
    gradients[name_of(id)] = truth().to_host(gradient.whole());
  }
  NamedNumbers gradients;
};

TEST_CASE("trainer: loss and gradients of concurrent parts equal one pass over the whole batch") {
  StackSpec spec = full_stack();
  spec.input.tokens = 64;
  TrainSpec train = plain_descent();
  train.batch = 32;
  train.accumulate = 2;
  const TrainingState start = random_state(truth_target(), spec, train);
  const ResidentWeights weights(spec.model, start.parameters);
  const StackContext context{.ops = truth(), .model = spec.model, .weights = weights, .sequences = train.batch};
  const Windows batch = training_batch(synthetic_language(), spec.input.tokens + 1, train.batch, 3, 1);
  const std::vector<int> ids = batch.inputs(0, train.batch);
  GradientStore store;
  const Hooks hooks{.gradients = {&store}};
  const Loss whole = backpropagate(context, embedding_forward(context, ids), batch.labels(0, train.batch), hooks);
  embedding_backward(context, ids, whole.gradient, hooks);
  for (const Target& target : targets()) {
    if (target.backend->device() == Device::host) {
      train.batch = 32;
      CHECK(parts_of_micro_batch(spec, train, target.dtype) == 2);
    }
    TrainingState state = trainer_of(target, spec, train).state();
    for (auto& [id, x] : state.parameters) {
      x = target.backend->from_host(x.rows(), x.cols(), target.dtype, truth().to_host(start.parameters.at(id)));
    }
    StepOutcome outcome{};
    const NamedNumbers gradient = change_of_step(target, spec, train, state, &outcome);
    const double relative = stack_error(spec.model.sublayers(), 2048.0, target.dtype);
    CHECK(outcome.loss == approx(whole.value).epsilon(relative));
    // The change has the rounding error of the weights, which are about 1.
    for (const auto& [name, numbers] : store.gradients) {
      double largest = 0.0;
      for (const double g : numbers) largest = std::max(largest, std::abs(g));
      check_close(target.name() + " " + name, gradient.at(name), numbers,
                  relative * largest + 4.0 * unit_roundoff(target.dtype));
    }
  }
}

/// Returns the norm of parameters whose names start with `prefix` and do not end with `without`.
double norm_of(const NamedNumbers& numbers, const std::string& prefix, const std::string& without = "none") {
  double sum = 0.0;
  for (const auto& [name, all] : numbers) {
    if (!name.starts_with(prefix) || name.ends_with(without)) continue;
    for (const double x : all) sum += x * x;
  }
  return std::sqrt(sum);
}

TEST_CASE("trainer: norms are reported before clipping, and clipping preserves the direction") {
  const Target target = truth_target();
  const StackSpec spec = full_stack();
  for (const int accumulate : {1, 4}) {
    TrainSpec train = plain_descent();
    train.accumulate = accumulate;
    const TrainingState state = random_state(target, spec, train);
    StepOutcome plain{};
    const NamedNumbers gradient = change_of_step(target, spec, train, state, &plain);
    CHECK(plain.grad_norm == approx(norm_of(gradient, "")).epsilon(1e-12));
    CHECK(plain.last_layer_norm == approx(norm_of(gradient, "layers.1.")).epsilon(1e-12));
    CHECK(plain.last_layer_norm < 0.99 * plain.grad_norm);
    CHECK(plain.rate == 1.0);
    train.clip = 0.25 * plain.grad_norm;
    StepOutcome clipped{};
    const NamedNumbers shorter = change_of_step(target, spec, train, state, &clipped);
    CHECK(clipped.grad_norm == plain.grad_norm);
    for (const auto& [name, numbers] : gradient) {
      std::vector<double> quarter = numbers;
      for (double& x : quarter) x *= 0.25;
      check_close(name, shorter.at(name), quarter, 4.0 * unit_roundoff(DType::f64) * 4.0);
    }
    train.clip = 1.001 * plain.grad_norm;
    check_same_numbers("a gradient below the clip threshold", change_of_step(target, spec, train, state), gradient);
    train.frozen = {"down"};
    const StepOutcome frozen = step_from(target, spec, train, state);
    CHECK(frozen.grad_norm == approx(norm_of(gradient, "", ".down.weight")).epsilon(1e-12));
    CHECK(frozen.last_layer_norm == approx(norm_of(gradient, "layers.1.", ".down.weight")).epsilon(1e-12));
    CHECK(frozen.grad_norm < 0.9999 * plain.grad_norm);
  }
}

}  // namespace
}  // namespace periscope::testing
