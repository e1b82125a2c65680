#include "tests/checkpoint/edited_checkpoint.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "sim/checkpoint/safetensors_reader.h"
#include "sim/checkpoint/safetensors_writer.h"
#include "sim/checkpoint/strict_json.h"

namespace periscope::testing {

std::string fixture(const std::string& name) { return std::string(FIXTURES) + "/" + name; }

std::vector<std::string> fixture_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(FIXTURES)) {
    if (entry.is_directory()) names.push_back(entry.path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

EditedCheckpoint::EditedCheckpoint(const std::string& name) : config(read_strict_json(fixture(name) + "/config.json")) {
  const SafetensorsFile file(fixture(name) + "/model.safetensors");
  for (const auto& [tensor, view] : file.tensors()) tensors[tensor] = {view.shape, file.values(tensor)};
}

void EditedCheckpoint::add(const std::string& tensor, std::vector<std::int64_t> shape) {
  std::size_t count = 1;
  for (const std::int64_t length : shape) count *= static_cast<std::size_t>(length);
  tensors[tensor] = {std::move(shape), std::vector<double>(count, 1.0)};
}

void EditedCheckpoint::rename(const std::string& from, const std::string& to) {
  auto node = tensors.extract(from);
  node.key() = to;
  tensors.insert(std::move(node));
}

void EditedCheckpoint::rename_prefix(const std::string& from, const std::string& to) {
  std::vector<std::string> names;
  for (const auto& [tensor, contents] : tensors)
    if (tensor.starts_with(from)) names.push_back(tensor);
  for (const std::string& tensor : names) rename(tensor, to + tensor.substr(from.size()));
}

std::string EditedCheckpoint::mixture_tensor(int layer, int expert, const std::string& matrix) const {
  const bool mixtral = config.at("model_type") == "mixtral";
  const std::string stem = "model.layers." + std::to_string(layer) + (mixtral ? ".block_sparse_moe." : ".mlp.");
  if (matrix == "router") return stem + "gate.weight";
  const std::map<std::string, std::string> names{{"gate", "w1"}, {"up", "w3"}, {"down", "w2"}};
  return stem + "experts." + std::to_string(expert) + "." + (mixtral ? names.at(matrix) : matrix + "_proj") + ".weight";
}

void EditedCheckpoint::make_mixture(int experts, int per_token) {
  const bool mistral = config.at("model_type") == "mistral";
  config["model_type"] = mistral ? "mixtral" : "qwen3_moe";
  config["architectures"] = {mistral ? "MixtralForCausalLM" : "Qwen3MoeForCausalLM"};
  config[mistral ? "num_local_experts" : "num_experts"] = experts;
  config["num_experts_per_tok"] = per_token;
  if (!mistral) config["moe_intermediate_size"] = config["intermediate_size"];
  config.erase("layer_types");
  for (int layer = 0; layer < config["num_hidden_layers"]; ++layer) {
    for (const std::string matrix : {"gate", "up", "down"}) {
      const std::string name = "model.layers." + std::to_string(layer) + ".mlp." + matrix + "_proj.weight";
      const Contents dense = tensors.extract(name).mapped();
      for (int expert = 0; expert < experts; ++expert) tensors[mixture_tensor(layer, expert, matrix)] = dense;
    }
    add(mixture_tensor(layer, 0, "router"), {experts, config["hidden_size"]});
    std::ranges::fill(tensors[mixture_tensor(layer, 0, "router")].values, 0.0);
  }
}

std::string EditedCheckpoint::write() {
  std::ofstream(folder_.path("config.json")) << config.dump(1);
  std::vector<SafetensorsEntry> entries;
  for (const auto& [tensor, contents] : tensors) {
    entries.push_back({tensor, tensor == integer_tensor ? SafetensorsType::i64 : SafetensorsType::f64, contents.shape});
  }
  SafetensorsWriter writer(folder_.path("model.safetensors"), entries, metadata);
  for (const auto& [tensor, contents] : tensors) {
    if (tensor == integer_tensor) {
      writer.put(tensor, std::vector<std::int64_t>(contents.values.size(), 1));
    } else {
      writer.put(tensor, contents.values);
    }
  }
  writer.close();
  return folder_.path();
}

}  // namespace periscope::testing
