#include "experiments/studies/train/report.h"

#include <array>
#include <optional>
#include <string_view>

#include "experiments/engine/settings/config.h"
#include "experiments/engine/settings/json_text.h"
#include "experiments/engine/training/dump.h"
#include "sim/base/error.h"
#include "sim/checkpoint/checkpoint_writer.h"
#include "sim/files/output_folder.h"

namespace periscope::train {
namespace {

constexpr std::array<std::string_view, 5> families{"llama", "qwen3", "gemma2", "gemma3", "olmo2"};

/// Returns the first family that can express the stack, and its layout.
std::optional<std::pair<std::string, CheckpointLayout>> layout_of_family(const ModelSpec& model) {
  for (const std::string_view name : families) {
    try {
      return {{std::string(name), layout_for(*family_named(name), model)}};
    } catch (const ConfigError&) {
      continue;  // this family cannot express the stack
    }
  }
  return std::nullopt;
}

void write_plain(const std::string& folder, const Backend& ops, const training::TrainingResult& trained,
                 bool overwrite) {
  OutputFolder files(folder, {"model.safetensors", "config.json"}, overwrite);
  training::write_weights(ops, trained.parameters, written_type(trained.task.dtype), files.file(0));
  nlohmann::ordered_json json{{"model_type", "periscope"}};
  json.update(config::resolved_json(trained.task.spec));
  json["train"] = config::section_json(train_section, trained.task.train);
  files.file(1).write_at(0, config::json_text(json, 2) + "\n");
  files.commit();
}

}  // namespace

std::string export_model(const std::string& folder, const Backend& ops, const training::TrainingResult& trained,
                         bool overwrite) {
  const auto layout = layout_of_family(trained.task.spec.model);
  if (!layout) {
    write_plain(folder, ops, trained, overwrite);
    return "periscope";
  }
  ResidentWeights weights(trained.task.spec.model, trained.parameters);
  Tensor& table = weights.parameters().at(matrix_id(0, Weight::embedding));
  table = ops.scale(1.0 / layout->second.model.embedding.scale, table);  // undoes the family's scale
  write_checkpoint(folder, layout->second, ops, weights, written_type(trained.task.dtype), overwrite);
  return layout->first;
}

}  // namespace periscope::train
