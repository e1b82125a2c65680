#include "sim/checkpoint/checkpoint_writer.h"

#include <fmt/format.h>

#include <bit>

#include "sim/checkpoint/safetensors_writer.h"
#include "sim/files/output_folder.h"
#include "sim/model/parameters.h"

namespace periscope {
namespace {

/// Returns the values of a tensor in its stored layout, with zeros for missing biases. Throws Error if two parameters
/// with different values share an element; `where` starts the message.
std::vector<double> stored_values(const std::string& where, const std::vector<ParameterMap::Use>& uses,
                                  const ModelSpec& model, const Backend& ops, const WeightSource& weights) {
  const std::vector<std::int64_t> shape = stored_shape(uses);
  std::vector<double> stored(static_cast<std::size_t>(product_of(shape)));
  std::vector<bool> filled(stored.size());
  for (const ParameterMap::Use& use : uses) {
    const Tensor x = parameter_of(weights, model, use.parameter);
    const std::vector<double> values =
        x.empty() ? std::vector<double>(static_cast<std::size_t>(use.rows), 0.0) : ops.to_host(x);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto at = static_cast<std::size_t>(stored_index(use, static_cast<std::int64_t>(i), shape.back()));
      const double value = values[i] - use.part.plus;
      if (filled[at] && std::bit_cast<std::uint64_t>(stored[at]) != std::bit_cast<std::uint64_t>(value)) {
        throw Error(ExitCode::runtime_failure,
                    fmt::format("{}: shared with {}, but the values differ", where, name_of(use.parameter)));
      }
      stored[at] = value;
      filled[at] = true;
    }
  }
  return stored;
}

void write_weights(OutputFile& file, const CheckpointLayout& layout, const Backend& backend,
                   const WeightSource& weights, SafetensorsType type) {
  const auto tensors = layout.map.uses(layout.model);
  std::vector<SafetensorsEntry> entries;
  for (const auto& [tensor, uses] : tensors) entries.push_back({tensor, type, stored_shape(uses)});
  for (const std::string& tensor : layout.layer_scales) entries.push_back({tensor, type, {1}});
  SafetensorsWriter writer(file, entries, {{"format", "pt"}});
  const auto put = [&](const std::string& tensor, const std::vector<double>& stored) {
    if (type == SafetensorsType::f64) {
      writer.put(tensor, stored);
    } else {
      writer.put(tensor, std::vector<float>(stored.begin(), stored.end()));
    }
  };
  for (const auto& [tensor, uses] : tensors) {
    const std::string where = fmt::format("{}: tensor \"{}\"", file.path(), tensor);
    put(tensor, stored_values(where, uses, layout.model, backend, weights));
  }
  const std::vector<double>& scales = layout.model.layer_scales;
  for (std::size_t i = 0; i < layout.layer_scales.size(); ++i) {
    put(layout.layer_scales[i], {scales.empty() ? 1.0 : scales[i]});
  }
  writer.close();
}

}  // namespace

void write_checkpoint(const std::string& folder, const CheckpointLayout& layout, const Backend& backend,
                      const WeightSource& weights, SafetensorsType type, bool overwrite) {
  OutputFolder files(folder, {"model.safetensors", "config.json"}, overwrite);
  nlohmann::json config = layout.config;
  for (const char* key : {"dtype", "torch_dtype"}) {
    if (config.contains(key)) config[key] = type == SafetensorsType::f64 ? "float64" : "float32";
  }
  write_weights(files.file(0), layout, backend, weights, type);
  files.file(1).write_at(0, config.dump(1) + "\n");
  files.commit();
}

}  // namespace periscope
