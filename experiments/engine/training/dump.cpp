#include "experiments/engine/training/dump.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "experiments/engine/run/tensor_dump.h"
#include "experiments/engine/settings/json_text.h"
#include "sim/base/error.h"
#include "sim/base/printable.h"
#include "sim/checkpoint/safetensors_writer.h"
#include "sim/model/parameters.h"

namespace periscope::training {
namespace {

enum File : std::size_t { initial, final_weights, batches, steps, windows, configuration };
const std::vector<std::string> file_names{"initial.safetensors", "final.safetensors",   "batches.safetensors",
                                          "steps.safetensors",   "windows.safetensors", "config.json"};

void write_tokens(const Backend& ops, const std::vector<std::int64_t>& shape, const std::vector<int>& tokens,
                  OutputFile& output) {
  stacks::TensorFile file(ops, output, {{"tokens", SafetensorsType::i64, shape}});
  file.put("tokens", tokens);
  file.close();
}

std::vector<int> all_batches(const TrainingTask& task, const Corpus& corpus) {
  std::vector<int> all;
  for (int step = 1; step <= task.train.steps; ++step) {
    const Windows batch = training_batch(corpus, task.spec.input.tokens + 1, task.train.batch, task.seed, step);
    all.insert(all.end(), batch.tokens.begin(), batch.tokens.end());
  }
  return all;
}

void write_steps(const TrainingHistory& history, OutputFile& output) {
  const auto count = static_cast<std::int64_t>(history.loss.size());
  SafetensorsWriter file(output,
                         {{"loss", SafetensorsType::f64, {count}}, {"grad_norm", SafetensorsType::f64, {count}}});
  file.put("loss", history.loss);
  file.put("grad_norm", history.grad_norm);
  file.close();
}

/// Returns the absolute path of a folder, which need not exist, with symbolic links resolved.
std::filesystem::path canonical_path(const std::string& folder) {
  const std::filesystem::path path = std::filesystem::weakly_canonical(std::filesystem::absolute(folder));
  return path.has_filename() ? path : path.parent_path();
}

}  // namespace

void require_not_in_result(const char* flag, const std::string& folder, const std::string& out,
                           const std::string& name) {
  if (folder.empty() || out.empty()) return;
  const std::filesystem::path result = canonical_path(out) / (name + ".nc");
  for (std::filesystem::path path = canonical_path(folder); path.has_relative_path(); path = path.parent_path()) {
    if (path == result) {
      throw ConfigError(fmt::format("{} {}: expected a folder outside the result file {}", flag, printable(folder),
                                    printable(result.string())));
    }
  }
}

void require_not_nested(const std::string& dump, const std::string& models) {
  if (dump.empty() || models.empty()) return;
  const std::filesystem::path a = canonical_path(dump);
  const std::filesystem::path b = canonical_path(models);
  const auto [of_a, of_b] = std::ranges::mismatch(a, b);
  if (of_a != a.end() && of_b != b.end()) return;
  throw ConfigError(fmt::format("--dump {} and --export {}: expected separate folders, neither inside the other",
                                printable(dump), printable(models)));
}

void write_weights(const Backend& ops, const ResidentWeights::Parameters& parameters, SafetensorsType type,
                   OutputFile& output) {
  std::vector<SafetensorsEntry> entries;
  for (const auto& [id, x] : parameters) {
    std::vector<std::int64_t> shape{x.rows(), x.cols()};
    if (id.part != ParameterId::Part::matrix) shape = {x.cols()};
    entries.push_back({name_of(id), type, shape});
  }
  SafetensorsWriter writer(output, entries);
  for (const auto& [id, x] : parameters) {
    const std::vector<double> values = ops.to_host(x);
    if (type == SafetensorsType::f64) {
      writer.put(name_of(id), values);
    } else {
      writer.put(name_of(id), std::vector<float>(values.begin(), values.end()));
    }
  }
  writer.close();
}

void require_one_run(const TrainConfig& config, const std::string& folder) {
  const std::size_t stacks = config.stacks().size();
  if (stacks != 1 || config.run.seeds != 1) {
    throw ConfigError(fmt::format("--dump {}: expected one placement and one seed, found {} and {}", folder, stacks,
                                  config.run.seeds));
  }
}

Dump::Dump(const std::string& folder, bool overwrite) : files_(folder, file_names, overwrite) {}

void Dump::write(const Backend& ops, const TrainingResult& trained, const Corpus& corpus) {
  const TrainingTask& task = trained.task;
  const ResidentWeights fresh(task.spec, GeneratedWeights(ops, task.spec, master_dtype(task.dtype), task.seed));
  write_weights(ops, fresh.parameters(), SafetensorsType::f64, files_.file(initial));
  write_weights(ops, trained.parameters, SafetensorsType::f64, files_.file(final_weights));
  const TrainSpec& train = task.train;
  const int length = task.spec.input.tokens + 1;
  write_tokens(ops, {train.steps, train.batch, length}, all_batches(task, corpus), files_.file(batches));
  write_steps(trained.history, files_.file(steps));
  const Windows recorded = held_out(corpus, length, train.record_sequences);
  write_tokens(ops, {train.record_sequences, length}, recorded.tokens, files_.file(windows));
  nlohmann::ordered_json resolved = config::resolved_json(task.spec);
  resolved["train"] = config::section_json(train_section, task.train);
  files_.file(configuration).write_at(0, config::json_text(resolved, 2) + "\n");
  files_.commit();
}

}  // namespace periscope::training
