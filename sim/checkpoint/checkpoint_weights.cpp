#include "sim/checkpoint/checkpoint_weights.h"

#include <stdexcept>

#include "sim/model/parameters.h"

namespace periscope {
namespace {

/// Reads rows first … first + rows − 1 of a part, each with `cols` input features, row-major. In a transposed tensor
/// these rows are columns; it has no blocks.
template <class T>
void read_rows(const TensorFiles& files, const StoredPart& part, std::uint64_t first, std::size_t rows,
               std::size_t cols, std::span<T> values) {
  if (!part.order.empty()) {
    for (std::size_t i = 0; i < rows; ++i) {
      const auto row = static_cast<std::uint64_t>(part.feature(static_cast<std::int64_t>(first + i)));
      files.read(part.tensor, row * cols, values.subspan(i * cols, cols));
    }
    return;
  }
  first += static_cast<std::uint64_t>(part.first);
  if (!part.transposed) {
    files.read(part.tensor, first * cols, values);
    return;
  }
  const auto stride = static_cast<std::uint64_t>(files.find(part.tensor).shape.at(1));
  std::vector<T> column(rows);
  for (std::size_t j = 0; j < cols; ++j) {
    files.read(part.tensor, j * stride + first, std::span(column));
    for (std::size_t i = 0; i < rows; ++i) values[i * cols + j] = column[i];
  }
}

}  // namespace

const StoredPart& CheckpointWeights::part(const ParameterId& id) const {
  const StoredPart* found = checkpoint_.map().find(id);
  if (found == nullptr) throw std::logic_error("missing parameter " + name_of(id) + " in the checkpoint");
  return *found;
}

template <class Read>
Tensor CheckpointWeights::cached_or(const ParameterId& id, const Read& read) const {
  {
    const std::scoped_lock lock(mutex_);
    if (const auto found = cached_.find(id); found != cached_.end()) return found->second;
  }
  Tensor x = read();
  const std::size_t bytes = static_cast<std::size_t>(x.size()) * size_of(x.dtype());
  const std::scoped_lock lock(mutex_);
  if (bytes <= cache_left_ && cached_.emplace(id, x).second) cache_left_ -= bytes;
  return x;
}

Tensor CheckpointWeights::matrix(const ParameterId& id) const {
  const StoredPart& stored = part(id);
  const auto [fan_out, fan_in] = shape_of(checkpoint_.model(), id.weight, id.layer());
  const auto cols = static_cast<std::size_t>(fan_in);
  const auto fill = [&]<class T>(Tensor::Index first, Tensor::Index count, std::span<T> values) {
    read_rows(checkpoint_.files(), stored, static_cast<std::uint64_t>(first), static_cast<std::size_t>(count), cols,
              values);
  };
  return cached_or(id,
                   [&, rows = fan_out, columns = fan_in] { return backend_.from_rows(rows, columns, dtype_, fill); });
}

Tensor CheckpointWeights::rows(const Backend& ops, Weight table, std::span<const int> ids) const {
  const StoredPart& stored = part(matrix_id(0, table));
  const auto cols = static_cast<std::size_t>(shape_of(checkpoint_.model(), table).fan_in);
  const auto fill = [&]<class T>(Tensor::Index first, Tensor::Index count, std::span<T> values) {
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
      const int id = ids[static_cast<std::size_t>(first) + i];
      read_rows(checkpoint_.files(), stored, static_cast<std::uint64_t>(id), 1, cols, values.subspan(i * cols, cols));
    }
  };
  return ops.from_rows(static_cast<Tensor::Index>(ids.size()), static_cast<Tensor::Index>(cols), dtype_, fill);
}

NormWeights CheckpointWeights::norm(const ParameterId& gain) const {
  const StoredPart* gains = checkpoint_.map().find(gain);
  const int width = norm_width(checkpoint_.model(), gain.weight, gain.sublayer);
  return {gains != nullptr ? vector(gain, width) : backend_.constant(1, width, dtype_, 1.0),
          vector(bias_of(gain), width), gains != nullptr ? gains->plus : 0.0, vector(alpha_of(gain), 1)};
}

SublayerWeights CheckpointWeights::fetch(int sublayer) const {
  SublayerWeights weights;
  for (const Weight weight : weights_in(checkpoint_.model(), sublayer)) {
    if (is_norm(weight)) {
      weights.norms[weight] = norm(gain_id(sublayer, weight));
      continue;
    }
    const int rows = shape_of(checkpoint_.model(), weight, sublayer / 2).fan_out;
    LinearWeights& linear = weights.linear[weight];
    linear.bias = vector(bias_of(matrix_id(sublayer / 2, weight)), rows);
    for (const int expert : experts_of(checkpoint_.model(), weight)) {
      const ParameterId id = matrix_id(sublayer / 2, weight, expert);
      (expert < 0 ? linear.map : linear.experts.emplace_back()) = dense_map([this, id] { return matrix(id); });
    }
  }
  return weights;
}

Tensor CheckpointWeights::vector(const ParameterId& id, int length) const {
  const StoredPart* stored = checkpoint_.map().find(id);
  if (stored == nullptr) return {};
  return cached_or(id, [&] {
    std::vector<double> values(static_cast<std::size_t>(length));
    read_rows(checkpoint_.files(), *stored, 0, values.size(), 1, std::span(values));
    if (stored->plus != 0.0) {
      for (double& value : values) value += stored->plus;
    }
    return backend_.from_host(1, length, dtype_, values);
  });
}

}  // namespace periscope
