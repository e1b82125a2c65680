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

/// Another source's weights for a family that multiplies rows of the embedding table by a factor.
class DividedTable final : public WeightSource {
 public:
  DividedTable(const Backend& ops, const WeightSource& weights, double factor)
      : ops_(ops), weights_(weights), factor_(factor) {}

  [[nodiscard]] SublayerWeights fetch(int sublayer) const override {
    SublayerWeights all = weights_.fetch(sublayer);
    const auto table = all.linear.find(Weight::embedding);
    if (table != all.linear.end()) {
      table->second.map =
          dense_map([this, map = table->second.map] { return ops_.scale(1.0 / factor_, map->dense()); });
    }
    return all;
  }
  [[nodiscard]] Tensor rows(const Backend& ops, Weight table, std::span<const int> ids) const override {
    const Tensor rows = weights_.rows(ops, table, ids);
    return table == Weight::embedding ? ops.scale(1.0 / factor_, rows) : rows;
  }

 private:
  const Backend& ops_;
  const WeightSource& weights_;
  double factor_;
};

/// The layout of the first family that expresses the stack.
std::optional<std::pair<std::string, CheckpointLayout>> layout_of_family(const ModelSpec& model) {
  for (const std::string_view name : families) {
    try {
      return {{std::string(name), layout_for(*family_named(name), model)}};
    } catch (const ConfigError&) {
      continue;  // the family has other norms, or another module
    }
  }
  return std::nullopt;
}

void write_plain(const std::string& folder, const Backend& ops, const training::TrainedCell& trained, bool overwrite) {
  OutputFolder files(folder, {"model.safetensors", "config.json"}, overwrite);
  training::write_weights(ops, trained.parameters, written_type(trained.cell.dtype), files.file(0));
  nlohmann::ordered_json json{{"model_type", "periscope"}};
  json.update(config::resolved_json(trained.cell.spec));
  json["train"] = config::section_json(train_section, trained.cell.train);
  files.file(1).write_at(0, config::json_text(json, 2) + "\n");
  files.commit();
}

}  // namespace

std::string export_model(const std::string& folder, const Backend& ops, const training::TrainedCell& trained,
                         bool overwrite) {
  const auto layout = layout_of_family(trained.cell.spec.model);
  if (!layout) {
    write_plain(folder, ops, trained, overwrite);
    return "periscope";
  }
  const ResidentWeights weights(trained.cell.spec.model, trained.parameters);
  const DividedTable divided(ops, weights, layout->second.model.embedding.scale);
  write_checkpoint(folder, layout->second, ops, divided, written_type(trained.cell.dtype), overwrite);
  return layout->first;
}

}  // namespace periscope::train
