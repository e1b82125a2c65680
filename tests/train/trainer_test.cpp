#include "sim/train/trainer.h"

#include <array>
#include <cmath>
#include <limits>

#include "sim/model/parameters.h"
#include "tests/support/compare.h"
#include "tests/support/doctest.h"
#include "tests/support/threads.h"
#include "tests/support/tolerances.h"
#include "tests/train/tiny_training.h"

namespace periscope::testing {
namespace {

/// Loss, gradient norm, gradient norm of the last layer and learning rate of every step.
using Outcomes = std::vector<double>;

Outcomes take_steps(Trainer& trainer, int count) {
  Outcomes all;
  for (int i = 0; i < count; ++i) {
    const StepOutcome outcome = trainer.step();
    all.insert(all.end(), {outcome.loss, outcome.grad_norm, outcome.last_layer_norm, outcome.rate});
  }
  return all;
}

constexpr std::array optimizers{OptimizerKind::adamw, OptimizerKind::sgd};

void check_any_number_of_threads(const Target& target, const StackSpec& spec, const TrainSpec& train) {
  const auto result = [&](int count) {
    const Threads threads(count);
    Trainer trainer = trainer_of(target, spec, train);
    NamedNumbers numbers{{"outcomes", take_steps(trainer, 2)}};
    numbers.merge(parameters_of(*target.backend, trainer.state()));
    return numbers;
  };
  const NamedNumbers one = result(1);
  for (const int count : {2, 4}) check_same_numbers(target.name(), result(count), one);
}

// run_task_test.cpp covers serial micro-batches.
TEST_CASE("trainer: concurrent parts of a micro-batch give the same bits for any number of threads") {
  StackSpec spec = trained_stack("peri");
  spec.input.tokens = 64;
  TrainSpec train = few_steps(OptimizerKind::adamw);
  train.batch = 48;
  for (const DType dtype : {DType::f64, DType::f32}) {
    for (const int accumulate : {1, 2}) {
      train.accumulate = accumulate;
      CHECK(parts_of_micro_batch(spec, train, dtype) == 6 / accumulate);
      check_any_number_of_threads({targets().front().backend, dtype}, spec, train);
    }
  }
}

TEST_CASE("trainer: a non-finite step is counted but changes neither weights nor optimizer state") {
  for (const Target& target : targets()) {
    const Backend& ops = *target.backend;
    for (const OptimizerKind optimizer : optimizers) {
      for (const double poison : {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
        Trainer trainer = trainer_of(target, trained_stack("peri"), few_steps(optimizer));
        CHECK(trainer.step().is_finite());
        TrainingState state = trainer.state();
        Tensor& table = state.parameters.at(matrix_id(0, Weight::unembedding));
        std::vector<double> numbers = ops.to_host(table);
        numbers[17] = poison;
        table = ops.from_host(table.rows(), table.cols(), target.dtype, numbers);
        const NamedNumbers parameters = parameters_of(ops, state);
        const NamedNumbers memory = memory_of(ops, state);
        trainer.restore(state);
        CHECK_FALSE(trainer.step().is_finite());
        CHECK(trainer.steps() == 2);
        check_same_numbers(target.name(), parameters_of(ops, trainer.state()), parameters);
        check_same_numbers(target.name(), memory_of(ops, trainer.state()), memory);
      }
    }
  }
}

TEST_CASE("trainer: frozen weights are unchanged and have no optimizer state") {
  for (const OptimizerKind optimizer : optimizers) {
    TrainSpec train = few_steps(optimizer);
    train.frozen = {"norm_b", "q"};
    Trainer trainer = trainer_of(truth_target(), trained_stack("peri"), train);
    const NamedNumbers before = parameters_of(truth(), trainer.state());
    (void)take_steps(trainer, 2);
    const TrainingState state = trainer.state();
    for (const auto& entry : parameters_of(truth(), state)) {
      const std::string& name = entry.first;
      const std::vector<double>& numbers = entry.second;
      CAPTURE(name);
      const bool frozen = name.find(".norm_b.") != std::string::npos || name.find(".q.") != std::string::npos;
      CHECK((numbers == before.at(name)) == frozen);
      CHECK(memory_of(truth(), state).contains("mean." + name) != frozen);
    }
    Trainer second = trainer_of(truth_target(), trained_stack("peri"), train);
    second.restore(state);
    check_same_bits("outcomes", take_steps(second, 2), take_steps(trainer, 2));
  }
}

TEST_CASE("trainer: bf16 and f16 passes use rounded weights, while f32 master weights accumulate small steps") {
  StackSpec spec = trained_stack("peri");
  TrainSpec train = few_steps(OptimizerKind::adamw);
  train.lr = 1e-6;  // weights are near 0.1, where bf16 has spacing 0.0005
  for (const Target& target : narrow_targets()) {
    const Backend& ops = *target.backend;
    const std::string what = target.name();
    Trainer trainer = trainer_of(target, spec, train);
    const NamedNumbers before = parameters_of(ops, trainer.state());
    const NamedNumbers outcomes{{"outcomes", take_steps(trainer, 3)}};
    const TrainingState state = trainer.state();
    const NamedNumbers after = parameters_of(ops, state);
    for (const auto& [id, master] : state.parameters) {
      const std::string name = name_of(id);
      INFO(what, " ", name);
      CHECK(master.dtype() == DType::f32);
      CHECK(before.at(name) != after.at(name));
      const Tensor& read = trainer.weights().parameters().at(id);
      CHECK(read.dtype() == target.dtype);
      CHECK(ops.to_host(read) == ops.to_host(ops.cast(master, target.dtype)));
    }
    Trainer second = trainer_of(target, spec, train);
    second.restore(state);
    check_same_numbers(what, {{"outcomes", take_steps(second, 2)}}, {{"outcomes", take_steps(trainer, 2)}});
  }
}

TEST_CASE("trainer: bf16 and f16 training follows f32 training within rounding") {
  const StackSpec spec = trained_stack("pre");
  const TrainSpec train = few_steps(OptimizerKind::adamw);
  for (const Target& target : narrow_targets()) {
    Trainer narrow = trainer_of(target, spec, train);
    Trainer exact = trainer_of({target.backend, DType::f32}, spec, train);
    for (int step = 0; step < 5; ++step) {
      const StepOutcome found = narrow.step(), expected = exact.step();
      INFO(target.name(), ", step ", step);
      const double unit = target.dtype == DType::bf16 ? 0x1p-8 : 0x1p-11;
      CHECK(std::abs(found.loss - expected.loss) <= 4.0 * unit * expected.loss);
      CHECK(std::abs(found.grad_norm - expected.grad_norm) <= 8.0 * unit * expected.grad_norm);
    }
  }
}

int parts(int tokens, int batch, int accumulate = 1) {
  StackSpec spec = trained_stack("peri");
  spec.input.tokens = tokens;
  return parts_of_micro_batch(spec, {.accumulate = accumulate, .batch = batch}, DType::f32);
}

TEST_CASE("the number of parts divides the sequences and is at most 16; a part has at least 512 tokens") {
  CHECK(parts(512, 1) == 1);
  CHECK(parts(512, 2) == 2);
  CHECK(parts(511, 2) == 1);
  CHECK(parts(128, 16) == 4);
  CHECK(parts(256, 12) == 6);
  CHECK(parts(600, 7) == 7);
  CHECK(parts(600, 34) == 2);  // 34 sequences: 17 parts would exceed the limit of 16
  CHECK(parts(600, 64) == 16);
  CHECK(parts(512, 8, 2) == 4);
  CHECK(parts(512, 8, 8) == 1);
}

TEST_CASE("gradients of all parts of a micro-batch use at most 128 MiB") {
  StackSpec spec = trained_stack("peri");
  spec.model.layers = 2;
  spec.model.width = spec.model.mlp_width = 1024;
  spec.model.heads = spec.model.kv_heads = 16;
  spec.model.head_dim = 64;
  spec.model.vocab = 1024;
  spec.input.tokens = 512;
  // 7 matrices in each of 2 layers and 2 tables, each of 4 MiB in f32: 64 MiB.
  const TrainSpec train{.batch = 12};
  CHECK(parts_of_micro_batch(spec, train, DType::f32) == 2);
  CHECK(parts_of_micro_batch(spec, train, DType::f64) == 1);
  spec.model.vocab = 1025;
  CHECK(parts_of_micro_batch(spec, train, DType::f32) == 1);
  spec.model.layers = 1;
  spec.model.vocab = 512;  // 7 matrices of 4 MiB and 2 tables of 2 MiB: 32 MiB
  CHECK(parts_of_micro_batch(spec, train, DType::f32) == 4);
}

}  // namespace
}  // namespace periscope::testing
