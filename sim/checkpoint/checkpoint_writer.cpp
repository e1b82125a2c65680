#include "sim/checkpoint/checkpoint_writer.h"

#include <fmt/format.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "sim/checkpoint/safetensors_writer.h"
#include "sim/model/parameters.h"

namespace periscope {
namespace {

/// A tensor in the layout that is stored, filled part by part.
class StoredTensor {
 public:
  explicit StoredTensor(const std::vector<std::int64_t>& shape)
      : cols_(shape.size() > 1 ? shape[1] : 1),
        values_(static_cast<std::size_t>(shape.front() * cols_)),
        filled_(values_.size()) {}

  /// Values [rows, cols] of a matrix, [rows] with cols 0 of a vector. False if a place holds another number already.
  [[nodiscard]] bool put(const ParameterMap::Use& use, const std::vector<double>& values) {
    const std::int64_t cols = use.cols == 0 ? 1 : use.cols;
    for (std::int64_t i = 0; i < use.rows; ++i) {
      for (std::int64_t j = 0; j < cols; ++j) {
        const std::int64_t row = use.part.first + i;
        const auto at = static_cast<std::size_t>(use.part.transposed ? j * cols_ + row : row * cols_ + j);
        const double value = values[static_cast<std::size_t>(i * cols + j)] - use.part.plus;
        if (filled_[at] && std::bit_cast<std::uint64_t>(values_[at]) != std::bit_cast<std::uint64_t>(value))
          return false;
        values_[at] = value;
        filled_[at] = true;
      }
    }
    return true;
  }
  [[nodiscard]] const std::vector<double>& values() const { return values_; }

 private:
  std::int64_t cols_;
  std::vector<double> values_;
  std::vector<bool> filled_;
};

/// What a tensor holds of a parameter: zeros for a bias that the stack does not have.
std::vector<double> values_of(const ParameterMap::Use& use, const ModelSpec& model, const Backend& ops,
                              const WeightSource& weights) {
  const Tensor x = parameter_of(weights, model, use.parameter);
  return x.empty() ? std::vector<double>(static_cast<std::size_t>(use.rows), 0.0) : ops.to_host(x);
}

void put(SafetensorsWriter& writer, const std::string& tensor, const std::vector<double>& values,
         SafetensorsType type) {
  if (type == SafetensorsType::f64) return writer.put(tensor, values);
  writer.put(tensor, std::vector<float>(values.begin(), values.end()));
}

void write_weights(const std::string& path, const CheckpointLayout& layout, const Backend& backend,
                   const WeightSource& weights, SafetensorsType type) {
  const auto tensors = layout.map.uses(layout.model);
  std::vector<SafetensorsEntry> entries;
  for (const auto& [tensor, uses] : tensors) entries.push_back({tensor, type, stored_shape(uses)});
  SafetensorsWriter writer(path, entries, {{"format", "pt"}});
  for (const auto& [tensor, uses] : tensors) {
    StoredTensor stored(stored_shape(uses));
    for (const ParameterMap::Use& use : uses) {
      if (stored.put(use, values_of(use, layout.model, backend, weights))) continue;
      throw Error(ExitCode::runtime_failure, fmt::format("{}: tensor \"{}\" is also {}, but the weights differ", path,
                                                         tensor, name_of(use.parameter)));
    }
    put(writer, tensor, stored.values(), type);
  }
  writer.close();
}

void write_text(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) throw Error(ExitCode::runtime_failure, "cannot write " + path + ": " + std::strerror(errno));
}

}  // namespace

void write_checkpoint(const std::string& folder, const CheckpointLayout& layout, const Backend& backend,
                      const WeightSource& weights, SafetensorsType type) {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  nlohmann::json config = layout.config;
  for (const char* key : {"dtype", "torch_dtype"}) {
    if (config.contains(key)) config[key] = type == SafetensorsType::f64 ? "float64" : "float32";
  }
  // Each file has its name only when it is whole.
  const auto finish = [&](const std::string& name, const auto& write) {
    const std::string path = folder + "/" + name;
    write(path + ".part");
    std::filesystem::rename(path + ".part", path, failed);
    if (failed) throw Error(ExitCode::runtime_failure, "cannot write " + path + ": " + failed.message());
  };
  finish("model.safetensors", [&](const std::string& path) { write_weights(path, layout, backend, weights, type); });
  finish("config.json", [&](const std::string& path) { write_text(path, config.dump(1) + "\n"); });
}

}  // namespace periscope
