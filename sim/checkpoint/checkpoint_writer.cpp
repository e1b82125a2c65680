#include "sim/checkpoint/checkpoint_writer.h"

#include <fmt/format.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

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

/// Every parameter by its name, fetched when it is asked for.
class ParameterReader {
 public:
  ParameterReader(const CheckpointLayout& layout, const Backend& ops, const WeightSource& weights)
      : ops_(ops), weights_(weights) {
    for (const MatrixPlace place : matrices_of(token_stack(layout.model))) {
      matrices_.insert({name_of(place), place});
      biases_.insert({bias_name_of(place), place});
    }
    for (const NormPlace place : norms_of(layout.model)) norms_.insert({name_of(place), place});
  }

  [[nodiscard]] std::vector<double> values(const ParameterMap::Use& use) const {
    const Tensor x = fetch(use.parameter);
    return x.empty() ? std::vector<double>(static_cast<std::size_t>(use.rows), 0.0) : ops_.to_host(x);
  }

 private:
  [[nodiscard]] Tensor fetch(const std::string& name) const {
    if (const auto it = matrices_.find(name); it != matrices_.end()) {
      return weights_.matrix(it->second.layer, it->second.weight);
    }
    if (const auto it = biases_.find(name); it != biases_.end()) {
      return weights_.bias(it->second.layer, it->second.weight);
    }
    const std::size_t dot = name.rfind('.');
    const NormPlace place = norms_.at(name.substr(0, dot));
    const NormWeights norm = weights_.norm(place.sublayer, place.site);
    return name.substr(dot) == ".gain" ? norm.gain : norm.bias;
  }

  const Backend& ops_;
  const WeightSource& weights_;
  std::map<std::string, MatrixPlace> matrices_, biases_;
  std::map<std::string, NormPlace> norms_;
};

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
  const ParameterReader parameters(layout, backend, weights);
  for (const auto& [tensor, uses] : tensors) {
    StoredTensor stored(stored_shape(uses));
    for (const ParameterMap::Use& use : uses) {
      if (stored.put(use, parameters.values(use))) continue;
      throw Error(ExitCode::runtime_failure,
                  fmt::format("{}: tensor \"{}\" is also {}, but the weights differ", path, tensor, use.parameter));
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
