#include "sim/checkpoint/checkpoint_writer.h"

#include <fmt/format.h>

#include <bit>

#include "sim/checkpoint/safetensors_writer.h"
#include "sim/files/output_folder.h"
#include "sim/model/parameters.h"

namespace periscope {
namespace {

/// A tensor in the layout that is stored, filled part by part.
class StoredTensor {
 public:
  explicit StoredTensor(const std::vector<std::int64_t>& shape)
      : stride_(shape.back()), values_(static_cast<std::size_t>(product_of(shape))), filled_(values_.size()) {}

  /// Values of a whole parameter, row-major. Returns false if a place already holds another number.
  [[nodiscard]] bool put(const ParameterMap::Use& use, const std::vector<double>& values) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto at = static_cast<std::size_t>(place_of(use, static_cast<std::int64_t>(i), stride_));
      const double value = values[i] - use.part.plus;
      if (filled_[at] && std::bit_cast<std::uint64_t>(values_[at]) != std::bit_cast<std::uint64_t>(value)) return false;
      values_[at] = value;
      filled_[at] = true;
    }
    return true;
  }
  [[nodiscard]] const std::vector<double>& values() const { return values_; }

 private:
  std::int64_t stride_;
  std::vector<double> values_;
  std::vector<bool> filled_;
};

/// The values of a parameter, zeros for a bias that the stack does not have.
std::vector<double> values_of(const ParameterMap::Use& use, const ModelSpec& model, const Backend& ops,
                              const WeightSource& weights) {
  const Tensor x = parameter_of(weights, model, use.parameter);
  return x.empty() ? std::vector<double>(static_cast<std::size_t>(use.rows), 0.0) : ops.to_host(x);
}

void write_weights(OutputFile& file, const CheckpointLayout& layout, const Backend& backend,
                   const WeightSource& weights, SafetensorsType type) {
  const auto tensors = layout.map.uses(layout.model);
  std::vector<SafetensorsEntry> entries;
  for (const auto& [tensor, uses] : tensors) entries.push_back({tensor, type, stored_shape(uses)});
  SafetensorsWriter writer(file, entries, {{"format", "pt"}});
  for (const auto& [tensor, uses] : tensors) {
    StoredTensor stored(stored_shape(uses));
    for (const ParameterMap::Use& use : uses) {
      if (stored.put(use, values_of(use, layout.model, backend, weights))) continue;
      throw Error(ExitCode::runtime_failure, fmt::format("{}: tensor \"{}\" is also {}, but the weights differ",
                                                         file.path(), tensor, name_of(use.parameter)));
    }
    if (type == SafetensorsType::f64) {
      writer.put(tensor, stored.values());
    } else {
      writer.put(tensor, std::vector<float>(stored.values().begin(), stored.values().end()));
    }
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
