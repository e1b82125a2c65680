#include "experiments/engine/training/run_task.h"

#include <set>

#include "experiments/engine/cache/cache.h"
#include "experiments/engine/run/progress.h"
#include "experiments/engine/training/train.h"
#include "tests/support/compare.h"
#include "tests/support/doctest.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/threads.h"
#include "tests/train/tiny_training.h"

namespace periscope::testing {
namespace {

using training::SavedStates;
using training::TrainingHistory;
using training::TrainingResult;
using training::TrainingTask;

TrainingTask small_task(DType dtype) {
  TrainSpec train = few_steps(OptimizerKind::adamw);
  train.steps = 12;
  train.record_every = 4;
  train.record_sequences = 2;
  return {.spec = trained_stack("peri"), .train = train, .seed = 3, .dtype = dtype, .name = "task"};
}

TrainingResult run(const Backend& ops, const TrainingTask& task, const SavedStates& states = {}) {
  stacks::Progress progress;
  return training::run_task(ops, task, synthetic_language(), states, progress);
}

/// Requests a stop from the n-th query on.
class Stopping final : public stacks::Progress {
 public:
  explicit Stopping(int from) : from_(from) {}
  [[nodiscard]] bool stop_requested() const override { return ++calls_ >= from_; }
  [[nodiscard]] double done() const { return meter_.done(); }

 private:
  int from_;
  mutable int calls_ = 0;
};

void check_same_run(const Backend& ops, const TrainingResult& actual, const TrainingResult& expected) {
  check_same_bits("loss", actual.history.loss, expected.history.loss);
  check_same_bits("grad_norm", actual.history.grad_norm, expected.history.grad_norm);
  check_same_bits("last_layer_norm", actual.history.last_layer_norm, expected.history.last_layer_norm);
  REQUIRE(actual.history.records.size() == expected.history.records.size());
  for (const auto& [step, values] : expected.history.records) {
    check_same_numbers("record", actual.history.records.at(step), values);
  }
  const auto parameters = [&](const TrainingResult& task) {
    return parameters_of(ops, {.steps = 0, .parameters = task.parameters, .optimizer = {}});
  };
  check_same_numbers("parameters", parameters(actual), parameters(expected));
}

TEST_CASE("saved states: the identity depends on corpus, device and program") {
  const auto identity = [](const std::string& corpus, const std::string& device) {
    training::TrainConfig config;
    config.run.device = device;
    config::Resolved resolved;
    resolved.hashed["train"]["corpus"] = corpus;
    return training::identity_of_runs(config, resolved);
  };
  CHECK(identity("a", "cpu") == identity("a", "cpu"));
  CHECK(identity("a", "cpu") != identity("b", "cpu"));
  CHECK(identity("a", "cpu") != identity("a", "reference"));
  CHECK(identity("a", "cpu").ends_with(cache::numerics()));
}

TEST_CASE("training: a run interrupted many times has the bits of an uninterrupted one") {
  for (const Target& target : targets()) {
    const Backend& ops = *target.backend;
    const TrainingTask task = small_task(target.dtype);
    const TrainingResult whole = run(ops, task);
    CHECK(whole.history.loss.size() == 12);
    std::vector<int> recorded;
    for (const auto& [step, values] : whole.history.records) recorded.push_back(step);
    CHECK(recorded == std::vector{0, 1, 2, 4, 5, 8, 10, 12});
    const TemporaryFolder folder;
    const SavedStates saved{.folder = folder.path("states"), .identity = "identity"};
    for (int stops = 0;; ++stops) {
      REQUIRE(stops < 20);
      Stopping progress(2 + stops % 3);
      try {
        const TrainingResult trained = training::run_task(ops, task, synthetic_language(), saved, progress);
        CHECK(progress.done() == 12);
        CHECK(stops >= 5);
        check_same_run(ops, trained, whole);
        break;
      } catch (const stacks::Stopped&) {
        CHECK(progress.is_resumable());
      }
    }
    // A finished run is read from its file.
    Stopping never(0);
    check_same_run(ops, training::run_task(ops, task, synthetic_language(), saved, never), whole);
  }
}

TEST_CASE("training: results and records have the same bits for any number of threads") {
  const Target& target = targets().front();
  TrainingTask task = small_task(target.dtype);
  task.spec.input.tokens = 64;
  task.train.batch = 32;
  task.train.steps = 3;
  const auto result = [&](int count) {
    const Threads threads(count);
    return run(*target.backend, task);
  };
  const TrainingResult one = result(1);
  for (const int count : {2, 3}) check_same_run(*target.backend, result(count), one);
}

TrainingTask diverging_task() {
  TrainingTask task = small_task(DType::f64);
  task.spec = trained_stack("none");
  task.train.lr = 1e200;
  task.train.clip = 0.0;
  task.train.warmup = 0.0;
  return task;
}

TEST_CASE("training: a run ends at the first non-finite step and has no later records") {
  const Target target = truth_target();
  TrainingTask task = diverging_task();
  const TrainingResult trained = run(truth(), task);
  const TrainingHistory& history = trained.history;
  CHECK_FALSE(history.is_finite());
  CHECK(history.loss.size() < 12);
  CHECK(training::divergence_step(history) == static_cast<int>(history.loss.size()));
  CHECK(history.records.rbegin()->first <= static_cast<int>(history.loss.size()));
}

/// Runs a task and counts the calls of its at_end hook.
struct AtEnd {
  int calls = 0;
  TrainingResult trained;

  explicit AtEnd(const TrainingTask& task)
      : trained(run(
            truth(), task,
            {.folder = "",
             .identity = "",
             .at_end = [this](const TrainingTask&, const ResidentWeights& weights, training::RecordedValues& values) {
               ++calls;
               values["at_end"] = {static_cast<double>(weights.parameters().size())};
             }})) {}
  [[nodiscard]] std::vector<int> steps() const {
    std::vector<int> found;
    for (const auto& [step, values] : trained.history.records)
      if (values.contains("at_end")) found.push_back(step);
    return found;
  }
};

TEST_CASE("training: at_end adds only to the last record of a completed run") {
  const AtEnd whole(small_task(DType::f64));
  CHECK(whole.calls == 1);
  CHECK(whole.steps() == std::vector{12});
  // The last step is non-finite and has a record.
  TrainingTask task = diverging_task();
  task.train.steps = static_cast<int>(AtEnd(task).trained.history.loss.size());
  const AtEnd diverged(task);
  CHECK_FALSE(diverged.trained.history.is_finite());
  CHECK(diverged.trained.history.records.rbegin()->first == task.train.steps);
  CHECK(diverged.calls == 0);
  CHECK(diverged.steps().empty());
}

TEST_CASE("training: runs of stacks with similar names have distinct file names") {
  training::TrainConfig config;
  config.run.seeds = 2;
  config.inputs = {InputKind::tokens};
  for (const Placement& placement :
       {custom_placement({.norm_a = true, .norm_b = true}, "x/y"), custom_placement({.norm_c = true}, "x_y"),
        custom_placement({.norm_a = true}, "xy-2"), custom_placement({.norm_b = true}, "xy"),
        custom_placement({}, "..")}) {
    config.variants.push_back(config.with_placement(placement));
  }
  std::set<std::string> names;
  for (const TrainingTask& task : training::tasks_of(config)) names.insert(task.name);
  CHECK(names.size() == 10);
  for (const char* name : {"xy-seed0", "xy-2-seed0", "stack-seed0"}) CHECK(names.contains(name));
}

}  // namespace
}  // namespace periscope::testing
