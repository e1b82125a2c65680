#include "experiments/engine/run/weight_scales_of.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "sim/model/parameters.h"

namespace periscope::stacks {
namespace {

double mean_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double root_mean_square(const Backend& ops, const Tensor& x) {
  return std::sqrt(mean_of(ops.row_moments(x)[Statistic::second_moment]));
}

/// Returns the square roots of `squares`, normalised to mean square 1; empty if all are 0 or any is not finite.
std::vector<double> sizes_of(std::vector<double> squares) {
  const double mean = mean_of(squares);
  if (!(mean > 0.0) || !std::isfinite(mean)) return {};
  for (double& square : squares) square = std::sqrt(square / mean);
  return squares;
}

/// Returns the matrix, multiplied by a power of two if squares of its entries could be out of the range of its dtype.
Tensor scaled_to_one(const Backend& ops, const Tensor& w) {
  constexpr int far = 30;    // f32 represents squares up to 2^126: entries may be 2^33 times the root mean square
  constexpr int most = 120;  // f32 represents 2^120, which scales its smallest number to 2^-29
  const double size = root_mean_square(ops, w);
  if (!(size > 0.0) || !std::isfinite(size) || std::abs(std::ilogb(size)) < far) return w;
  return ops.scale(std::ldexp(1.0, std::clamp(-std::ilogb(size), -most, most)), w);
}

VarianceProfile profile_in(const Backend& ops, const Tensor& w, PreservedSizes preserved) {
  VarianceProfile profile;
  if (preserved != PreservedSizes::matrices) profile.rows = sizes_of(ops.row_moments(w)[Statistic::second_moment]);
  if (preserved == PreservedSizes::rows_and_columns) {
    const Tensor near_one = scaled_to_one(ops, w);
    profile.columns = sizes_of(ops.to_host(ops.column_sums(ops.multiply(near_one, near_one))));
  }
  return profile;
}

}  // namespace

std::vector<int> rows_in_use(const EmbeddingSpec& e, Weight table, std::span<const int> ids) {
  std::vector<int> rows(ids.begin(), ids.end());
  if (table == Weight::positions) std::iota(rows.begin(), rows.end(), e.position_offset);
  if (table == Weight::token_types) rows.assign(rows.size(), 0);
  return rows;
}

WeightScales scales_of(const Backend& ops, const ModelSpec& model, const WeightSource& weights,
                       std::span<const int> ids, PreservedSizes preserved) {
  WeightScales scales;
  const auto add_profile = [&](const ParameterId& id, VarianceProfile profile) {
    if (preserved != PreservedSizes::matrices) scales.profiles[id] = std::move(profile);
  };
  const auto add_bias = [&](const ParameterId& of, const Tensor& bias) {
    if (bias.empty()) return;
    if (const double rms = root_mean_square(ops, bias); rms != 0.0) scales.stddev[bias_of(of)] = rms;
  };
  for (int l = -1; l <= model.sublayers(); ++l) {
    const SublayerWeights all = weights.fetch(l);
    for (const Weight weight : weights_in(model, l)) {
      if (is_table(weight)) {
        if (ids.empty()) continue;
        const std::vector<int> used = rows_in_use(model.embedding, weight, ids);
        const Tensor rows = weights.rows(ops, weight, used);
        scales.stddev[matrix_id(0, weight)] = root_mean_square(ops, rows);
        VarianceProfile profile = profile_in(ops, rows, preserved);
        std::vector<double> of_table(
            profile.rows.empty() ? 0 : static_cast<std::size_t>(shape_of(model, weight).fan_out), 1.0);
        for (std::size_t t = 0; t < profile.rows.size(); ++t)
          of_table.at(static_cast<std::size_t>(used[t])) = profile.rows[t];
        profile.rows = std::move(of_table);
        add_profile(matrix_id(0, weight), std::move(profile));
      } else if (is_norm(weight)) {
        const NormWeights& norm = all.norm(weight);
        const ParameterId id = gain_id(l, weight);
        scales.gains[id] = ops.to_host(norm.gain);
        if (!norm.alpha.empty()) scales.alphas[alpha_of(id)] = ops.to_host(norm.alpha).front();
        add_bias(id, norm.bias);
      } else {
        const LinearWeights& linear = all.matrix(weight);
        const ParameterId id = matrix_id(ModelSpec::layer_of(l), weight);
        const Tensor w = linear.map->dense();
        scales.stddev[id] = root_mean_square(ops, w);
        add_profile(id, profile_in(ops, w, preserved));
        add_bias(id, linear.bias);
      }
    }
  }
  return scales;
}

}  // namespace periscope::stacks
