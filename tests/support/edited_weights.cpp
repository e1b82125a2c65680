#include "tests/support/edited_weights.h"

#include <cmath>
#include <vector>

#include "sim/model/parameters.h"

namespace periscope::testing {

SublayerWeights EditedWeights::fetch(int sublayer) const {
  SublayerWeights all = source_.fetch(sublayer);
  for (auto& [weight, linear] : all.linear) {
    const int layer = is_of_layer(weight) ? sublayer / 2 : 0;
    linear.map = dense_map(
        [edit = matrix_edit_, layer, kind = weight, map = linear.map] { return edit(layer, kind, map->dense()); });
  }
  for (auto& [weight, norm] : all.norms) norm = norm_edit_(sublayer, weight, norm);
  return all;
}

Tensor matrix_of(const WeightSource& source, const ModelSpec& model, int layer, Weight weight) {
  return parameter_of(source, model, matrix_id(layer, weight));
}

NormWeights norm_of(const WeightSource& source, const ModelSpec& model, int sublayer, Weight norm) {
  return source.fetch(owner_sublayer(model, gain_id(sublayer, norm))).norm(norm);
}

EditedWeights::NormEdit random_norms(const Backend& backend) {
  return [&backend](int sublayer, Weight norm, const NormWeights& w) {
    constexpr std::uint64_t seed = 17;
    const auto place = static_cast<std::uint32_t>(sublayer);
    const Stream stream{2000 + static_cast<std::uint32_t>(norm)};
    const DType dtype = w.gain.dtype();
    std::vector<double> gain = backend.to_host(backend.normal(1, w.gain.cols(), dtype, {seed, place, stream}, 1.0));
    for (double& g : gain) g = std::abs(g) + 0.5;
    NormWeights edited{.gain = backend.from_host(1, w.gain.cols(), dtype, gain), .bias = {}};
    if (!w.bias.empty()) edited.bias = backend.normal(1, w.bias.cols(), dtype, {seed + 1, place, stream}, 1.0);
    if (!w.alpha.empty()) edited.alpha = backend.normal(1, 1, dtype, {seed + 2, place, stream}, 1.0);
    return edited;
  };
}

}  // namespace periscope::testing
