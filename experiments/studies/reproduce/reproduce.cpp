#include "experiments/studies/reproduce/reproduce.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "experiments/engine/run/regime.h"
#include "experiments/engine/run/size_nulls.h"
#include "sim/backends.h"
#include "sim/model/parameters.h"
#include "theory/predict/predict.h"

namespace periscope::reproduce {
namespace {

/// Number of samples of the rank-one null model (T29); their spread gives the error of the growth's alignment part.
constexpr int null_draws = 16;

/// Returns the stream's second moment by depth for the trained directions at the initial sizes. Every trained matrix is
/// scaled to its initial root mean square (scales_of); gains, biases and alphas have their initial values.
std::vector<double> moments_at_initial_sizes(const Backend& ops, const training::TrainingTask& task,
                                             const ResidentWeights& trained, const std::vector<int>& ids,
                                             int sequences) {
  ResidentWeights rescaled(task.spec, GeneratedWeights(ops, task.spec, task.dtype, task.seed));
  const WeightScales before = stacks::scales_of(ops, task.spec.model, rescaled, ids);
  const WeightScales after = stacks::scales_of(ops, task.spec.model, trained, ids);
  for (const ParameterId& id : matrices_of(task.spec)) {
    const double size = after.stddev.at(id);
    if (size > 0.0) rescaled.parameters().at(id) = ops.scale(before.stddev.at(id) / size, trained.parameters().at(id));
  }
  std::vector<double> moments = stacks::log_second_moments(ops, task.spec.model, rescaled, ids, sequences);
  for (double& moment : moments) moment = std::exp(moment);
  return moments;
}

/// Adds second moments of the stream by depth to the last record. For random weights with the trained sizes, by theory
/// and with standard errors: `scaled_second_moment` (root mean square of every matrix) and `profiled_second_moment`
/// (rank-one profiles, T29). `profiled_deviation`: root mean square of ln(second moment / profiled_second_moment) over
/// null_draws random models. For trained directions at the initial sizes: `rescaled_second_moment`.
void add_scaled(const Backend& ops, const training::TrainingTask& task, const Corpus& corpus,
                const ResidentWeights& weights, training::RecordedValues& values) {
  const std::vector<std::vector<int>> ids = training::recorded_ids(corpus, task.spec, task.train);
  std::vector<int> all;
  for (const std::vector<int>& sequence : ids) all.insert(all.end(), sequence.begin(), sequence.end());
  training::RecordedValues added;
  const auto predict = [&](stacks::PreservedSizes preserved, const std::string& name) {
    const theory::Prediction prediction =
        theory::predict(stacks::with_scales_of(ops, task.spec, weights, all, preserved), ids,
                        {.tolerance = 0.02, .max_samples = 1 << 11, .seed = task.seed});
    if (!prediction.unsupported.empty()) return false;
    const Curve* q = prediction.profile.find(Statistic::second_moment, Signal::x_out);
    added[name] = q->value;
    added[name + "_stderr"] = q->standard_error;
    return true;
  };
  if (!predict(stacks::PreservedSizes::matrices, "scaled_second_moment") ||
      !predict(stacks::PreservedSizes::rows_and_columns, "profiled_second_moment")) {
    return;
  }
  const auto sequences = static_cast<int>(ids.size());
  const std::uint64_t first = task.seed * static_cast<std::uint64_t>(null_draws);  // different for every seed
  const stacks::NullDraws drawn =
      stacks::draw_null(ops, task.spec, weights, all, sequences, stacks::size_nulls[stacks::rank_one_null], DType::f64,
                        first, null_draws);
  for (std::size_t depth = 0; const double moment : added["profiled_second_moment"]) {
    added["profiled_deviation"].push_back(drawn.deviation_from(std::log(moment), depth++));
  }
  added["rescaled_second_moment"] = moments_at_initial_sizes(ops, task, weights, all, sequences);
  values.merge(added);
}

/// Predicts the group before training (T2–T11) on the held-out windows, over which the recorded loss is averaged.
theory::Prediction initial_prediction(const Group& group, const Corpus& corpus, std::uint64_t seed) {
  const Windows windows = held_out(corpus, group.spec.input.tokens + 1, group.train.record_sequences);
  const theory::PredictionOptions options{
      .tolerance = 0.02, .gradient_tolerance = 0.1, .max_samples = 1 << 11, .seed = seed};
  std::vector<std::vector<int>> labels;
  for (int w = 0; w < windows.count(); ++w) labels.push_back(windows.labels(w, 1));
  return theory::predict_batch(group.spec, training::recorded_ids(corpus, group.spec, group.train), labels, options);
}

void train(const ReproduceConfig& config, const Corpus& corpus, training::SavedStates states,
           const std::vector<training::TrainingTask>& tasks, stacks::Progress& progress,
           const std::function<void(training::TrainingResult)>& use) {
  const std::unique_ptr<Backend> ops = make_backend(config.run.device);
  progress.begin("reproduce", static_cast<std::int64_t>(tasks.size()) * config.train.steps);
  states.discards_weights = true;
  states.at_end = [&](const training::TrainingTask& task, const ResidentWeights& weights,
                      training::RecordedValues& values) { add_scaled(*ops, task, corpus, weights, values); };
  training::train_tasks(*ops, tasks, corpus, states, progress, use);
}

}  // namespace

std::vector<std::string> regime_of(const ReproduceConfig& config) {
  return stacks::regime_of({config.base}, {config.train});
}

stacks::MemoryEstimate reproduce_memory(const ReproduceConfig& config, std::size_t runs, int threads) {
  const auto tasks = static_cast<double>(runs);
  StackSpec spec = config.stacks().front();
  // Concurrent runs also store rescaled weights. The theory for them runs while other runs are still training.
  stacks::MemoryEstimate memory = training::training_memory(config, tasks, std::min<double>(tasks, threads), threads);
  const stacks::MemoryEstimate at_scales = stacks::scaled_limit_memory(spec, threads);
  memory.add(at_scales.bytes, at_scales.key);
  if (config.train.record_sequences > 1) spec.input.tokens *= 2;  // the theory before training uses pairs of windows
  memory.add_phase(stacks::limit_memory(spec, true, threads));
  return memory;
}

std::vector<training::TrainingTask> tasks_of(const ReproduceConfig& config, const stacks::Shard& shard) {
  std::vector<training::TrainingTask> tasks;
  for (std::size_t i = 0; const Group& group : config.groups) {
    std::ranges::copy_if(
        training::tasks_by_seed(group.spec, group.train, config.run, std::string(group.spec.model.placement.name)),
        std::back_inserter(tasks), [&](const training::TrainingTask& /*task*/) { return shard.contains(i++); });
  }
  return tasks;
}

void train_shard(const ReproduceConfig& config, const Corpus& corpus, training::SavedStates states,
                 const stacks::Shard& shard, stacks::Progress& progress) {
  train(config, corpus, std::move(states), tasks_of(config, shard), progress,
        [](const training::TrainingResult& /*task*/) {});
}

ReproduceResult run(const ReproduceConfig& config, const Corpus& corpus, training::SavedStates states,
                    stacks::Progress& progress) {
  ReproduceResult result;
  result.loss_floor = corpus.loss_floor(config.base.input.tokens);
  for (const Group& group : config.groups) result.groups.push_back({.group = group, .tasks = {}});
  std::size_t next = 0;
  train(config, corpus, std::move(states), tasks_of(config), progress, [&](training::TrainingResult task) {
    result.groups[next++ / static_cast<std::size_t>(config.run.seeds)].tasks.push_back(std::move(task));
  });
  for (GroupRuns& runs : result.groups) {
    progress.throw_if_stop_requested();
    if (runs.group.study == "base") runs.initial = initial_prediction(runs.group, corpus, config.run.seed);
  }
  result.claims = judge_claims(result.groups);
  return result;
}

}  // namespace periscope::reproduce
