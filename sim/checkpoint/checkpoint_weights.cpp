#include "sim/checkpoint/checkpoint_weights.h"

#include <stdexcept>

namespace periscope {
namespace {

/// Rows first … first + rows − 1 of a tensor that holds them as its columns, row-major.
void read_transposed(const TensorFiles& files, const StoredPart& part, std::size_t rows, std::size_t cols,
                     std::span<double> values) {
  const auto stride = static_cast<std::uint64_t>(files.find(part.tensor).shape.at(1));
  std::vector<double> column(rows);
  for (std::size_t j = 0; j < cols; ++j) {
    files.read(part.tensor, j * stride + static_cast<std::uint64_t>(part.first), column);
    for (std::size_t i = 0; i < rows; ++i) values[i * cols + j] = column[i];
  }
}

}  // namespace

Tensor CheckpointWeights::matrix(int layer, Weight weight) const {
  const StoredPart* part = checkpoint_.map().find(layer, weight);
  if (part == nullptr) throw std::logic_error("the checkpoint has no such matrix");
  const auto [fan_out, fan_in] = shape_of(checkpoint_.model(), weight);
  const auto rows = static_cast<std::size_t>(fan_out);
  const auto cols = static_cast<std::size_t>(fan_in);
  std::vector<double> values(rows * cols);
  if (part->transposed) {
    read_transposed(checkpoint_.files(), *part, rows, cols, values);
  } else {
    checkpoint_.files().read(part->tensor, static_cast<std::uint64_t>(part->first) * cols, values);
  }
  return backend_.from_host(fan_out, fan_in, dtype_, values);
}

Tensor CheckpointWeights::bias(int layer, Weight weight) const {
  const StoredPart* part = checkpoint_.map().find_bias(layer, weight);
  return part == nullptr ? Tensor{} : vector(*part, shape_of(checkpoint_.model(), weight).fan_out);
}

NormWeights CheckpointWeights::norm(int sublayer, NormSite site) const {
  const StoredNorm* norm = checkpoint_.map().find(sublayer, site);
  if (norm == nullptr) throw std::logic_error("the checkpoint has no such norm");
  const int width = norm_width(checkpoint_.model(), site);
  return {norm->gain ? vector(*norm->gain, width) : backend_.constant(1, width, dtype_, 1.0),
          norm->bias ? vector(*norm->bias, width) : Tensor{}};
}

Tensor CheckpointWeights::vector(const StoredPart& part, int length) const {
  std::vector<double> values(static_cast<std::size_t>(length));
  checkpoint_.files().read(part.tensor, static_cast<std::uint64_t>(part.first), values);
  if (part.plus != 0.0) {
    for (double& value : values) value += part.plus;
  }
  return backend_.from_host(1, length, dtype_, values);
}

}  // namespace periscope
