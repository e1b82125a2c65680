#include "experiments/studies/train/dump.h"

#include <fmt/format.h>

#include "experiments/core/config/json_text.h"
#include "experiments/core/stacks/tensor_dump.h"
#include "experiments/core/training/weights_file.h"
#include "sim/base/error.h"

namespace periscope::train {
namespace {

enum File : std::size_t { initial, final_weights, batches, steps, configuration };
const std::vector<std::string> file_names{"initial.safetensors", "final.safetensors", "batches.safetensors",
                                          "steps.safetensors", "config.json"};

void write_batches(const Backend& ops, const training::TrainCell& cell, const Corpus& corpus, OutputFile& output) {
  const TrainSpec& train = cell.train;
  const int length = cell.spec.input.tokens + 1;
  stacks::TensorFile file(ops, output, {{"tokens", SafetensorsType::i64, {train.steps, train.batch, length}}});
  std::vector<std::int64_t> all;
  all.reserve(static_cast<std::size_t>(train.steps) * static_cast<std::size_t>(train.batch) *
              static_cast<std::size_t>(length));
  for (int step = 1; step <= train.steps; ++step) {
    const Windows batch = training_batch(corpus, length, train.batch, cell.seed, step);
    all.insert(all.end(), batch.tokens.begin(), batch.tokens.end());
  }
  file.put("tokens", all);
  file.close();
}

void write_steps(const Backend& ops, const training::CellHistory& history, OutputFile& output) {
  const auto count = static_cast<std::int64_t>(history.loss.size());
  stacks::TensorFile file(ops, output,
                          {{"loss", SafetensorsType::f64, {count}}, {"grad_norm", SafetensorsType::f64, {count}}});
  file.put("loss", history.loss);
  file.put("grad_norm", history.grad_norm);
  file.close();
}

}  // namespace

void require_one_run(const training::TrainConfig& config, const std::string& folder) {
  const std::size_t stacks = config.stacks().size();
  if (stacks != 1 || config.run.seeds != 1) {
    throw ConfigError(fmt::format("--dump {}: expected one placement and one seed, not {} placements and {} seeds",
                                  folder, stacks, config.run.seeds));
  }
}

Dump::Dump(const std::string& folder, bool overwrite) : files_(folder, file_names, overwrite) {}

void Dump::write(const Backend& ops, const training::TrainedCell& trained, const Corpus& corpus) {
  const training::TrainCell& cell = trained.cell;
  const ResidentWeights fresh(cell.spec, GeneratedWeights(ops, cell.spec, master_dtype(cell.dtype), cell.seed));
  training::write_weights(ops, fresh.parameters(), SafetensorsType::f64, files_.file(initial));
  training::write_weights(ops, trained.parameters, SafetensorsType::f64, files_.file(final_weights));
  write_batches(ops, cell, corpus, files_.file(batches));
  write_steps(ops, trained.history, files_.file(steps));
  nlohmann::ordered_json resolved = config::resolved_json(cell.spec);
  resolved["train"] = config::section_json(train_section, cell.train);
  files_.file(configuration).write_at(0, config::json_text(resolved, 2) + "\n");
  files_.commit();
}

}  // namespace periscope::train
