#include "experiments/common/weight_scales_of.h"

#include <cmath>
#include <numeric>
#include <vector>

#include "sim/model/parameters.h"

namespace periscope {
namespace {

double root_mean_square(const Backend& ops, const Tensor& x) {
  const std::vector<double> rows = ops.row_moments(x).second_moment;
  return std::sqrt(std::accumulate(rows.begin(), rows.end(), 0.0) / static_cast<double>(rows.size()));
}

/// The rows of a table that the tokens use, one after another.
std::vector<int> rows_in_use(const EmbeddingSpec& e, Weight table, std::span<const int> ids) {
  std::vector<int> rows(ids.begin(), ids.end());
  if (table == Weight::positions) std::iota(rows.begin(), rows.end(), e.position_offset);
  if (table == Weight::token_types) rows.assign(rows.size(), 0);
  return rows;
}

}  // namespace

WeightScales scales_of(const Backend& ops, const ModelSpec& model, const WeightSource& weights,
                       std::span<const int> ids) {
  WeightScales scales;
  const auto add_bias = [&](const ParameterId& of, const Tensor& bias) {
    if (bias.empty()) return;
    if (const double rms = root_mean_square(ops, bias); rms != 0.0) scales.stddev[bias_of(of)] = rms;
  };
  for (int l = -1; l <= model.sublayers(); ++l) {
    const SublayerWeights all = weights.fetch(l);
    for (const Weight weight : weights_in(model, l)) {
      if (is_table(weight)) {
        if (ids.empty()) continue;
        const Tensor rows = weights.rows(ops, weight, rows_in_use(model.embedding, weight, ids));
        scales.stddev[matrix_id(0, weight)] = root_mean_square(ops, rows);
      } else if (is_norm(weight)) {
        const NormWeights& norm = all.norm(weight);
        const ParameterId id = gain_id(l, weight);
        scales.gains[id] = ops.to_host(norm.gain);
        add_bias(id, norm.bias);
      } else {
        const LinearWeights& linear = all.matrix(weight);
        const ParameterId id = matrix_id(l / 2, weight);
        scales.stddev[id] = root_mean_square(ops, linear.map->dense());
        add_bias(id, linear.bias);
      }
    }
  }
  return scales;
}

}  // namespace periscope
