#pragma once

#include <compare>
#include <map>
#include <utility>
#include <vector>

#include "sim/model/weights.h"

namespace periscope {

/// One parameter of a stack: a matrix or its bias, or a norm's gain or bias.
struct ParameterPlace {
  enum class Part { matrix, bias, gain, norm_bias };
  Part part;
  int at;     ///< layer of a matrix, sublayer of a norm; 0 for what none of them owns
  int which;  ///< a Weight's or a NormSite's number

  auto operator<=>(const ParameterPlace&) const = default;
  [[nodiscard]] Weight weight() const { return static_cast<Weight>(which); }
  [[nodiscard]] NormSite site() const { return static_cast<NormSite>(which); }
};

ParameterPlace matrix_place(int layer, Weight weight);
ParameterPlace bias_place(int layer, Weight weight);
ParameterPlace gain_place(int sublayer, NormSite site);
ParameterPlace norm_bias_place(int sublayer, NormSite site);

/// A parameter as plain numbers, row-major.
struct Numbers {
  Tensor::Index rows = 0;
  Tensor::Index cols = 0;
  std::vector<double> values;
};

/// Weights that are kept in memory: the same tensor at every call, so that a tensor says which parameter it is.
class HeldWeights final : public WeightSource {
 public:
  /// The numbers, as tensors of `backend` in f64.
  HeldWeights(const Backend& backend, const std::map<ParameterPlace, Numbers>& numbers);

  [[nodiscard]] Tensor matrix(int layer, Weight weight) const override;
  [[nodiscard]] Tensor rows(const Backend& ops, Weight table, std::span<const int> ids) const override;
  [[nodiscard]] Tensor bias(int layer, Weight weight) const override;
  [[nodiscard]] NormWeights norm(int sublayer, NormSite site) const override;

 private:
  [[nodiscard]] Tensor at(const ParameterPlace& place) const;

  std::map<ParameterPlace, Tensor> tensors_;
};

}  // namespace periscope
