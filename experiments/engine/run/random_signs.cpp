#include "experiments/engine/run/random_signs.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "sim/random/normal.h"

namespace periscope::stacks {
namespace {

/// Rows `row(0)`, `row(1)` … of a matrix of signs as wide as x [N, n]: entry i of the whole matrix is the sign of
/// number i of the stream. x times them: the sign of x_ij itself does not matter to the law.
template <class Row>
Tensor with_signs(const Backend& ops, const Tensor& x, StreamKey key, const Row& row) {
  const auto width = static_cast<std::size_t>(x.cols());
  const auto fill = [&]<class T>(Tensor::Index first, Tensor::Index count, std::span<T> values) {
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
      const std::span<T> signs = values.subspan(i * width, width);
      fill_normal<T>(key, static_cast<std::uint64_t>(row(static_cast<std::size_t>(first) + i)) * width, 1.0, signs);
      for (T& sign : signs) sign = std::copysign(T{1}, sign);
    }
  };
  return ops.multiply(x, ops.from_rows(x.rows(), x.cols(), x.dtype(), fill));
}

}  // namespace

SublayerWeights RandomSigns::fetch(int sublayer) const {
  SublayerWeights all = source_.fetch(sublayer);
  const auto same_row = [](std::size_t i) { return i; };
  const auto add_signs = [&](Tensor& bias, const ParameterId& of) {
    if (bias.empty()) return;
    const StreamKey key{seed_, static_cast<std::uint32_t>(of.sublayer), bias_stream(of.weight)};
    bias = with_signs(backend_, bias, key, same_row);
  };
  for (auto& [weight, linear] : all.linear) {
    const int layer = is_of_layer(weight) ? ModelSpec::layer_of(sublayer) : 0;
    const StreamKey key{seed_, static_cast<std::uint32_t>(layer), stream_of(weight)};
    linear.map = dense_map(
        [&ops = backend_, map = linear.map, key, same_row] { return with_signs(ops, map->dense(), key, same_row); });
    add_signs(linear.bias, matrix_id(layer, weight));
  }
  for (auto& [weight, norm] : all.norms) add_signs(norm.bias, gain_id(sublayer, weight));
  return all;
}

Tensor RandomSigns::rows(const Backend& ops, Weight table, std::span<const int> ids) const {
  return with_signs(ops, source_.rows(ops, table, ids), {seed_, 0, stream_of(table)},
                    [&](std::size_t i) { return ids[i]; });
}

}  // namespace periscope::stacks
