#pragma once

#include <map>
#include <utility>

#include "sim/model/weights.h"

namespace periscope {

/// Another source, each of whose matrices is fetched once and kept for as long as this lives: a sublayer's
/// backward pass needs every weight twice. For one thread.
class KeptWeights final : public WeightSource {
 public:
  explicit KeptWeights(const WeightSource& source) : source_(source) {}

  [[nodiscard]] Tensor matrix(int layer, Weight weight) const override {
    Tensor& kept = matrices_[{layer, weight}];
    if (kept.empty()) kept = source_.matrix(layer, weight);
    return kept;
  }
  [[nodiscard]] Tensor rows(const Backend& ops, Weight table, std::span<const int> ids) const override {
    return source_.rows(ops, table, ids);
  }
  [[nodiscard]] Tensor bias(int layer, Weight weight) const override { return source_.bias(layer, weight); }
  [[nodiscard]] NormWeights norm(int sublayer, NormSite site) const override { return source_.norm(sublayer, site); }

 private:
  const WeightSource& source_;
  mutable std::map<std::pair<int, Weight>, Tensor> matrices_;
};

}  // namespace periscope
