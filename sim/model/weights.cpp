#include "sim/model/weights.h"

#include <stdexcept>
#include <string>

#include "sim/model/parameters.h"
#include "sim/random/normal.h"

namespace periscope {
namespace {

template <class Map>
const auto& found_in(const Map& map, Weight weight) {
  const auto it = map.find(weight);
  if (it == map.end()) throw std::logic_error("missing weight " + std::string(name_of(weight)) + " in this sublayer");
  return it->second;
}

}  // namespace

const LinearWeights& SublayerWeights::matrix(Weight weight) const { return found_in(linear, weight); }
const NormWeights& SublayerWeights::norm(Weight weight) const { return found_in(norms, weight); }

Tensor parameter_of(const WeightSource& source, const ModelSpec& model, const ParameterId& id) {
  const SublayerWeights weights = source.fetch(owner_sublayer(model, id));
  if (is_norm(id.weight)) {
    const NormWeights& norm = weights.norm(id.weight);
    if (id.part == ParameterId::Part::alpha) return norm.alpha;
    return id.part == ParameterId::Part::gain ? norm.gain : norm.bias;
  }
  const LinearWeights& linear = weights.matrix(id.weight);
  if (id.part != ParameterId::Part::matrix) return linear.bias;
  return (id.expert < 0 ? linear.map : linear.experts.at(static_cast<std::size_t>(id.expert)))->dense();
}

Tensor WeightSource::rows(const Backend& ops, Weight table, std::span<const int> ids) const {
  return ops.gather(fetch(-1).matrix(table).map->dense(), ids);
}

std::shared_ptr<const LinearMap> GeneratedWeights::matrix(int layer, Weight weight) const {
  const auto [fan_out, fan_in] = shape_of(spec_.model, weight, layer);
  const StreamKey key{seed_, static_cast<std::uint32_t>(layer), stream_of(weight)};
  return profiled_map(backend_, dtype_,
                      drawn_map(backend_, dtype_, {fan_out, fan_in, key, stddev_of(spec_, layer, weight)}),
                      profile_of(spec_, layer, weight));
}

Tensor GeneratedWeights::rows(const Backend& ops, Weight table, std::span<const int> ids) const {
  const auto [rows, cols] = shape_of(spec_.model, table);
  const auto width = static_cast<std::size_t>(cols);
  const double stddev = stddev_of(spec_, 0, table);
  const VarianceProfile profile = profile_of(spec_, 0, table);
  const auto fill = [&, of = rows]<class T>(Tensor::Index first, Tensor::Index count, std::span<T> values) {
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
      const int id = ids[static_cast<std::size_t>(first) + i];
      if (id < 0 || id >= of)
        throw std::out_of_range("token id " + std::to_string(id) + ": expected 0 to " + std::to_string(of - 1));
      const auto begin = static_cast<std::uint64_t>(id) * width;
      const std::span<T> row = values.subspan(i * width, width);
      fill_normal<T>({seed_, 0, stream_of(table)}, begin, stddev, row);
      for (std::size_t k = 0; k < profile.columns.size(); ++k) row[k] *= static_cast<T>(profile.columns[k]);
      if (profile.rows.empty()) continue;
      for (T& entry : row) entry *= static_cast<T>(profile.rows[static_cast<std::size_t>(id)]);
    }
  };
  return ops.from_rows(static_cast<Tensor::Index>(ids.size()), cols, dtype_, fill);
}

NormWeights GeneratedWeights::norm(int sublayer, Weight weight) const {
  const NormFacts& facts = facts_of(kind_of(spec_.model, weight));
  const int width = norm_width(spec_.model, weight, sublayer);
  NormWeights norm{.gain = backend_.from_host(1, width, dtype_, gain_of(spec_, sublayer, weight)), .bias = {}};
  if (facts.has_alpha()) norm.alpha = backend_.constant(1, 1, dtype_, alpha_of(spec_, sublayer, weight));
  if (facts.has_bias) {
    norm.bias = bias(gain_id(sublayer, weight), width);
    if (norm.bias.empty()) norm.bias = backend_.constant(1, width, dtype_, 0.0);
  }
  return norm;
}

Tensor GeneratedWeights::bias(const ParameterId& of, int width) const {
  const double stddev = bias_stddev_of(spec_, of);
  if (stddev == 0.0) return {};
  const StreamKey key{seed_, static_cast<std::uint32_t>(of.sublayer), bias_stream(of.weight)};
  return backend_.normal(1, width, dtype_, key, stddev);
}

SublayerWeights GeneratedWeights::fetch(int sublayer) const {
  SublayerWeights weights;
  for (const Weight weight : weights_in(spec_.model, sublayer)) {
    if (is_norm(weight)) {
      weights.norms[weight] = norm(sublayer, weight);
    } else {
      const int layer = is_of_layer(weight) ? sublayer / 2 : 0;
      const int width = shape_of(spec_.model, weight, layer).fan_out;
      weights.linear[weight] = {matrix(layer, weight),
                                is_table(weight) ? Tensor() : bias(matrix_id(layer, weight), width)};
    }
  }
  return weights;
}

}  // namespace periscope
