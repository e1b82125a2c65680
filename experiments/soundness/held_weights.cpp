#include "experiments/soundness/held_weights.h"

namespace periscope {
namespace {

using Part = ParameterPlace::Part;

bool is_of_sublayer(NormSite site) {
  return site != NormSite::embedding && site != NormSite::final && site != NormSite::head;
}

ParameterPlace place_of(Part part, int layer, Weight weight) {
  return {part, is_of_layer(weight) ? layer : 0, static_cast<int>(weight)};
}

ParameterPlace place_of(Part part, int sublayer, NormSite site) {
  return {part, is_of_sublayer(site) ? sublayer : 0, static_cast<int>(site)};
}

}  // namespace

ParameterPlace matrix_place(int layer, Weight weight) { return place_of(Part::matrix, layer, weight); }
ParameterPlace bias_place(int layer, Weight weight) { return place_of(Part::bias, layer, weight); }
ParameterPlace gain_place(int sublayer, NormSite site) { return place_of(Part::gain, sublayer, site); }
ParameterPlace norm_bias_place(int sublayer, NormSite site) { return place_of(Part::norm_bias, sublayer, site); }

HeldWeights::HeldWeights(const Backend& backend, const std::map<ParameterPlace, Numbers>& numbers) {
  for (const auto& [place, n] : numbers) {
    tensors_.emplace(place, backend.from_host(n.rows, n.cols, DType::f64, n.values));
  }
}

Tensor HeldWeights::at(const ParameterPlace& place) const {
  const auto found = tensors_.find(place);
  return found == tensors_.end() ? Tensor{} : found->second;
}

Tensor HeldWeights::matrix(int layer, Weight weight) const { return at(matrix_place(layer, weight)); }
Tensor HeldWeights::rows(const Backend& ops, Weight table, std::span<const int> ids) const {
  return ops.gather(matrix(0, table), ids);
}
Tensor HeldWeights::bias(int layer, Weight weight) const { return at(bias_place(layer, weight)); }
NormWeights HeldWeights::norm(int sublayer, NormSite site) const {
  return {at(gain_place(sublayer, site)), at(norm_bias_place(sublayer, site))};
}

}  // namespace periscope
