#include "experiments/engine/training/train.h"

#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <cctype>
#include <iterator>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include "experiments/engine/cache/cache.h"
#include "experiments/engine/run/cost.h"
#include "sim/model/parameters.h"

namespace periscope::training {
namespace {

/// Returns a stack's label as a valid file name: letters, digits, "-", "+" and "."; "gamma 1.5" becomes "gamma1.5".
std::string file_name_of(const std::string& label) {
  std::string name;
  for (const char c : label) {
    const bool is_valid = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '+' || c == '.';
    if (is_valid) name += c;
  }
  return name.find_first_not_of('.') == std::string::npos ? "stack" : name;
}

}  // namespace

std::string identity_of_runs(const TrainConfig& config, const config::Resolved& resolved) {
  return std::string(resolved.hashed["train"]["corpus"]) + config.run.device + cache::numerics();
}

std::vector<TrainingTask> tasks_by_seed(const StackSpec& spec, const TrainSpec& train, const config::RunOptions& run,
                                        const std::string& name) {
  std::vector<TrainingTask> tasks;
  for (int s = 0; s < run.seeds; ++s) {
    const std::uint64_t seed = run.seed + static_cast<std::uint64_t>(s);
    tasks.push_back(
        {.spec = spec, .train = train, .seed = seed, .dtype = run.dtype, .name = fmt::format("{}-seed{}", name, seed)});
  }
  return tasks;
}

double training_operations(const std::vector<TrainingTask>& tasks) {
  double operations = 0.0;
  for (const TrainingTask& task : tasks) {
    operations += static_cast<double>(task.train.steps) * task.train.batch *
                  stacks::pass_operations(task.spec.model, task.spec.input.tokens, true);
  }
  return operations;
}

std::vector<std::vector<int>> recorded_ids(const Corpus& corpus, const StackSpec& spec, const TrainSpec& train) {
  const Windows windows = held_out(corpus, spec.input.tokens + 1, train.record_sequences);
  std::vector<std::vector<int>> ids;
  for (int w = 0; w < windows.count(); ++w) ids.push_back(windows.inputs(w, 1));
  return ids;
}

theory::Prediction predict_before_training(const Corpus& corpus, const StackSpec& spec, const TrainConfig& config,
                                           stacks::Progress& progress) {
  return theory::predict(spec, recorded_ids(corpus, spec, config.train),
                         {.tolerance = 0.02,
                          .max_samples = 1 << 11,
                          .operations = training_operations(tasks_by_seed(spec, config.train, config.run, "")),
                          .seed = config.run.seed,
                          .on_progress = [&](double) { progress.throw_if_stop_requested(); }});
}

std::vector<TrainingTask> tasks_of(const TrainConfig& config) {
  std::vector<TrainingTask> tasks;
  std::set<std::string> seen;
  for (const StackSpec& spec : config.stacks()) {
    std::string name = file_name_of(config::placement_label(spec));
    // Different labels can give the same file name.
    const std::string base = name;
    for (int copy = 2; !seen.insert(name).second; ++copy) name = fmt::format("{}-{}", base, copy);
    std::ranges::move(tasks_by_seed(spec, config.train, config.run, name), std::back_inserter(tasks));
  }
  return tasks;
}

stacks::MemoryEstimate training_memory(const TrainConfig& config, double tasks, double weights_kept, int threads) {
  const std::vector<StackSpec> stacks = config.stacks();
  const StackSpec spec = *std::ranges::max_element(stacks, {}, [](const StackSpec& s) {
    const ModelSpec& m = s.model;
    return 1.0 * m.width * (m.mlp_width + m.query_width(0) + m.key_width(0));
  });
  double parameters = 0.0;
  for (const ParameterId& id : all_parameters_of(spec)) {
    if (is_norm(id.weight)) continue;
    const WeightShape shape = shape_of(spec.model, id.weight, id.layer());
    parameters += static_cast<double>(shape.fan_out) * shape.fan_in;
  }
  const double at_once = tasks < threads ? 1.0 : threads;
  const double tokens = 1.0 * spec.input.tokens * config.train.batch / config.train.accumulate;
  stacks::MemoryEstimate one = stacks::pass_memory(spec.model, tokens, config.run.dtype, true, threads, false);
  // All signals of a step are stored for the backward pass.
  one.add(static_cast<double>(size_of(config.run.dtype)) * tokens * stacks::signal_entries(spec.model), "train.batch");
  // The weights, two optimizer moments, a copy being written, and the gradients of every part of a micro-batch.
  const double copies =
      4.0 + (config.run.device.starts_with("cuda") ? 1.0 : parts_of_micro_batch(spec, config.train, config.run.dtype));
  one.add(copies * parameters * static_cast<double>(size_of(master_dtype(config.run.dtype))), "model.width");
  stacks::MemoryEstimate all = one.times(at_once);
  all.add_phase(stacks::limit_memory(spec, false, threads));
  all.add(weights_kept * parameters * static_cast<double>(size_of(master_dtype(config.run.dtype))), "run.seeds");
  return all;
}

void train_tasks(const Backend& ops, const std::vector<TrainingTask>& tasks, const Corpus& corpus,
                 const SavedStates& states, stacks::Progress& progress,
                 const std::function<void(TrainingResult)>& use) {
  std::mutex mutex;
  std::vector<std::optional<TrainingResult>> done(tasks.size());  // results that wait for earlier tasks
  std::size_t used = 0;
  FirstException failure;
  const auto run = [&](std::size_t i) {
    const TrainingTask& task = tasks[i];
    // After a failure of another task, this task saves its state and stops, so that the failure is reported at once.
    TrainingResult trained = run_task(ops, task, corpus, states, progress, failure);
    progress.step(task.name, task.train.steps - static_cast<int>(trained.history.loss.size()));
    const std::lock_guard lock(mutex);
    done[i] = std::move(trained);
    for (; used < done.size() && done[used]; ++used) use(*std::exchange(done[used], std::nullopt));
  };
  const auto threads = static_cast<std::size_t>(omp_get_max_threads());
  const std::size_t concurrent = threads > 1 ? tasks.size() / threads * threads : 0;
#pragma omp parallel for schedule(dynamic, 1)
  for (std::size_t i = 0; i < concurrent; ++i) failure.run([&] { run(i); });
  failure.rethrow();
  for (std::size_t i = concurrent; i < tasks.size(); ++i) run(i);
}

}  // namespace periscope::training
