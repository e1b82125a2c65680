#include "experiments/engine/training/state_file.h"

#include <filesystem>
#include <limits>

#include "sim/base/error.h"
#include "sim/model/parameters.h"
#include "tests/support/compare.h"
#include "tests/support/doctest.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/tiny_training.h"

namespace periscope::testing {
namespace {

using training::StateFile;
using training::TrainingHistory;

/// Returns a history whose values would change unless stored bit by bit.
TrainingHistory odd_history() {
  using Limits = std::numeric_limits<double>;
  TrainingHistory history;
  history.add({.loss = 1.0 / 3.0, .grad_norm = Limits::denorm_min(), .last_layer_norm = -0.0, .rate = 1.0});
  history.add({.loss = Limits::quiet_NaN(), .grad_norm = Limits::infinity(), .last_layer_norm = 1e308, .rate = 1.0});
  history.records[0] = {{"validation_loss", {0.1}}, {"variance.x_out", {1.0, Limits::quiet_NaN(), -0.0}}};
  history.records[20] = {{"weight.q.rms", {-Limits::infinity()}}, {"nothing", {}}};
  return history;
}

void check_same_history(const TrainingHistory& actual, const TrainingHistory& expected) {
  check_same_bits("loss", actual.loss, expected.loss);
  check_same_bits("grad_norm", actual.grad_norm, expected.grad_norm);
  check_same_bits("last_layer_norm", actual.last_layer_norm, expected.last_layer_norm);
  REQUIRE(actual.records.size() == expected.records.size());
  for (const auto& [step, values] : expected.records) check_same_numbers("record", actual.records.at(step), values);
}

void check_same_state(const Backend& ops, const TrainingState& actual, const TrainingState& expected) {
  CHECK(actual.steps == expected.steps);
  check_same_numbers("parameters", parameters_of(ops, actual), parameters_of(ops, expected));
  check_same_numbers("memory", memory_of(ops, actual), memory_of(ops, expected));
  for (const auto& [id, x] : expected.parameters) CHECK(actual.parameters.at(id).dtype() == x.dtype());
}

TEST_CASE("state file: round-trips to the bit, and a resumed run has the same results") {
  const TemporaryFolder folder;
  for (const Target& target : targets()) {
    for (const OptimizerKind optimizer : {OptimizerKind::adamw, OptimizerKind::sgd}) {
      const StackSpec spec = trained_stack("peri");
      const TrainSpec train = few_steps(optimizer);
      Trainer trainer = trainer_of(target, spec, train);
      const TrainingState fresh = trainer.state();
      const NamedNumbers initial = parameters_of(*target.backend, fresh);
      for (int i = 0; i < 3; ++i) (void)trainer.step();
      const StateFile file(folder.path("states/a.safetensors"), "a");
      file.write(*target.backend, trainer.state(), odd_history());
      const auto content = file.read(*target.backend, fresh);
      REQUIRE(content.has_value());
      check_same_history(content->history, odd_history());
      check_same_state(*target.backend, content->state, trainer.state());
      Trainer second = trainer_of(target, spec, train);
      second.restore(content->state);
      CHECK(second.step().loss == trainer.step().loss);
      check_same_numbers("steps do not change a copied state", parameters_of(*target.backend, fresh), initial);
      check_same_state(*target.backend, second.state(), trainer.state());
    }
  }
}

/// A state of one matrix and one gain, whose file is small enough to be corrupted at many bytes.
TrainingState small_state(double scale) {
  const auto numbers = [&](Tensor::Index rows, std::uint32_t number) {
    return truth().normal(rows, 3, DType::f64, {1, number, Stream{}}, scale);
  };
  TrainingState state{.steps = 17, .parameters = {}, .optimizer = {}};
  const ParameterId down = matrix_id(0, Weight::down);
  const ParameterId norm_a = gain_id(0, Weight::norm_a);
  state.parameters = {{down, numbers(2, 1)}, {norm_a, numbers(1, 2)}};
  state.optimizer[down] = {.mean = numbers(2, 3), .square = numbers(2, 4)};
  state.optimizer[norm_a] = {.mean = numbers(1, 5), .square = numbers(1, 6)};
  return state;
}

TEST_CASE("state file: a missing file gives no state, a file of another run is rejected") {
  const TemporaryFolder folder;
  const std::string path = folder.path("a.safetensors");
  CHECK_FALSE(StateFile(path, "a").read(truth(), small_state(1.0)).has_value());
  StateFile(path, "a").write(truth(), small_state(1.0), odd_history());
  CHECK_THROWS_AS((void)StateFile(path, "b").read(truth(), small_state(1.0)), InputError);
  CHECK(StateFile(path, "a").read(truth(), small_state(1.0)).has_value());
  StateFile(path, "b").write(truth(), small_state(1.0), odd_history());
  CHECK_THROWS_AS((void)StateFile(path, "a").read(truth(), small_state(1.0)), InputError);
}

TEST_CASE("state file: replaced atomically, without leftover files; an empty history round-trips") {
  const TemporaryFolder folder;
  const StateFile file(folder.path("a.safetensors"), "a");
  file.write(truth(), small_state(1.0), odd_history());
  file.write(truth(), small_state(3.0), {});
  check_same_state(truth(), file.read(truth(), small_state(1.0))->state, small_state(3.0));
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
}

enum class Reading { rejected, nothing, same };

Reading read_corrupted(const TemporaryFolder& folder, const std::string& bytes) {
  const std::string path = folder.write("corrupted.safetensors", bytes);
  try {
    const auto content = StateFile(path, "the run").read(truth(), small_state(2.0));
    if (!content.has_value()) return Reading::nothing;
    check_same_state(truth(), content->state, small_state(1.0));
    check_same_history(content->history, odd_history());
    return Reading::same;
  } catch (const InputError& error) {
    CHECK(std::string(error.what()).find(path) != std::string::npos);
    return Reading::rejected;
  }
}

TEST_CASE("state file: flipped bits, truncated files and trailing bytes are rejected") {
  const TemporaryFolder folder;
  const std::string path = folder.path("a.safetensors");
  StateFile(path, "the run").write(truth(), small_state(1.0), odd_history());
  const std::string good = bytes_of_file(path);
  REQUIRE(read_corrupted(folder, good) == Reading::same);
  for (std::size_t i = 0; i < good.size(); i += 5) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ (1 << (i % 8)));
    CAPTURE(i);
    CHECK(read_corrupted(folder, bad) == Reading::rejected);
    if (i % 2 == 0) CHECK(read_corrupted(folder, good.substr(0, i)) == Reading::rejected);
  }
  CHECK(read_corrupted(folder, good + '\0') == Reading::rejected);
}

}  // namespace
}  // namespace periscope::testing
