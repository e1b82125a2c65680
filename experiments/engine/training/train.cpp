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

/// A placement's label for names of files: letters, digits, dashes and dots, "gamma 1.5" as "gamma1.5".
std::string file_word(const std::string& label) {
  std::string word;
  for (const char c : label) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '+' || c == '.';
    if (plain) word += c;
  }
  return word.find_first_not_of('.') == std::string::npos ? "stack" : word;
}

}  // namespace

std::string identity_of_runs(const TrainConfig& config, const config::Resolved& resolved) {
  return std::string(resolved.hashed["train"]["corpus"]) + config.run.device + cache::numerics();
}

std::vector<TrainingTask> tasks_by_seed(const StackSpec& spec, const TrainSpec& train, const config::RunOptions& run,
                                        const std::string& word) {
  std::vector<TrainingTask> tasks;
  for (int s = 0; s < run.seeds; ++s) {
    const std::uint64_t seed = run.seed + static_cast<std::uint64_t>(s);
    tasks.push_back(
        {.spec = spec, .train = train, .seed = seed, .dtype = run.dtype, .name = fmt::format("{}-seed{}", word, seed)});
  }
  return tasks;
}

std::vector<std::vector<int>> recorded_ids(const Corpus& corpus, const StackSpec& spec, const TrainSpec& train) {
  const Windows windows = held_out(corpus, spec.input.tokens + 1, train.record_sequences);
  std::vector<std::vector<int>> ids;
  for (int w = 0; w < windows.count(); ++w) ids.push_back(windows.inputs(w, 1));
  return ids;
}

theory::Prediction predict_before_training(const Corpus& corpus, const StackSpec& spec, const TrainConfig& config,
                                           stacks::Progress& progress) {
  // What training itself costs, in double: batches, steps and seeds together are more than an int holds.
  const double run = 1.0 * config.run.seeds * config.train.steps * config.train.batch *
                     stacks::pass_operations(spec.model, spec.input.tokens, true);
  return theory::predict(spec, recorded_ids(corpus, spec, config.train),
                         {.tolerance = 0.02,
                          .most_samples = 1 << 11,
                          .operations = run,
                          .seed = config.run.seed,
                          .on_progress = [&](double) { progress.throw_if_stop_requested(); }});
}

std::vector<TrainingTask> tasks_of(const TrainConfig& config) {
  std::vector<TrainingTask> tasks;
  std::set<std::string> seen;
  for (const StackSpec& spec : config.stacks()) {
    std::string word = file_word(config::placement_label(spec));
    // Placements of one's own may differ in what a file's name does not show.
    const std::string plain = word;
    for (int copy = 2; !seen.insert(word).second; ++copy) word = fmt::format("{}-{}", plain, copy);
    std::ranges::move(tasks_by_seed(spec, config.train, config.run, word), std::back_inserter(tasks));
  }
  return tasks;
}

stacks::MemoryEstimate training_memory(const TrainConfig& config, double tasks, double weights_kept, int threads) {
  const std::vector<StackSpec> stacks = config.stacks();
  const StackSpec spec = *std::ranges::max_element(stacks, {}, [](const StackSpec& s) {
    const ModelSpec& m = s.model;
    return 1.0 * m.width * (m.mlp_width + m.query_width() + m.key_width());
  });
  double parameters = 0.0;
  for (const ParameterId& id : all_parameters_of(spec)) {
    if (is_norm(id.weight)) continue;
    const WeightShape shape = shape_of(spec.model, id.weight, id.layer());
    parameters += static_cast<double>(shape.fan_out) * shape.fan_in;
  }
  const double at_once = tasks < threads ? 1.0 : threads;
  const double tokens = 1.0 * spec.input.tokens * (config.train.batch / config.train.accumulate);
  stacks::MemoryEstimate one = stacks::pass_memory(spec.model, tokens, config.run.dtype, true, threads, false);
  // All signals of a step are kept.
  one.add(static_cast<double>(size_of(config.run.dtype)) * tokens * stacks::signal_entries(spec.model), "train.batch");
  // The weights, two running means, one that is being written, and the gradients of every part of a micro-batch.
  const double copies =
      4.0 + (config.run.device.starts_with("cuda") ? 1.0 : parts_of_micro_batch(spec, config.train, config.run.dtype));
  one.add(copies * parameters * static_cast<double>(size_of(master_dtype(config.run.dtype))), "model.width");
  stacks::MemoryEstimate all = one.times(at_once);
  all.then(stacks::limit_memory(spec, false, threads));
  all.add(weights_kept * parameters * static_cast<double>(size_of(master_dtype(config.run.dtype))), "run.seeds");
  return all;
}

void train_tasks(const Backend& ops, const std::vector<TrainingTask>& tasks, const Corpus& corpus,
                 const SavedStates& states, stacks::Progress& progress,
                 const std::function<void(TrainingResult)>& use) {
  std::mutex mutex;
  std::vector<std::optional<TrainingResult>> done(tasks.size());  // until those before them have been used
  std::size_t used = 0;
  FirstException failure;
  const auto run = [&](std::size_t i) {
    const TrainingTask& task = tasks[i];
    // After another task's failure this one stops too and saves its state, so that the failure is reported at once.
    TrainingResult trained = run_task(ops, task, corpus, states, progress, failure);
    progress.step(task.name, task.train.steps - static_cast<int>(trained.history.loss.size()));
    const std::lock_guard lock(mutex);
    done[i] = std::move(trained);
    for (; used < done.size() && done[used]; ++used) use(*std::exchange(done[used], std::nullopt));
  };
  const auto threads = static_cast<std::size_t>(omp_get_max_threads());
  const std::size_t beside = threads > 1 ? tasks.size() / threads * threads : 0;
#pragma omp parallel for schedule(dynamic, 1)
  for (std::size_t i = 0; i < beside; ++i) failure.run([&] { run(i); });
  failure.rethrow();
  for (std::size_t i = beside; i < tasks.size(); ++i) run(i);
}

}  // namespace periscope::training
