#pragma once

#include "sim/model/weights.h"
#include "theory/certify/parameters.h"

namespace periscope::config {

/// A weight source as theory reads it: in double, one matrix at a time. The backend is the one whose tensors the
/// source returns. All three must outlive it. Throws InputError for a weight that is not finite.
class TheoryParameters final : public theory::Parameters {
 public:
  TheoryParameters(const Backend& backend, const ModelSpec& model, const WeightSource& weights)
      : backend_(backend), model_(model), weights_(weights) {}

  [[nodiscard]] theory::RowMatrix matrix(int layer, Weight weight) const override;
  void visit_rows(Weight weight, const BlockVisitor& visit) const override;
  [[nodiscard]] Eigen::VectorXd bias(int layer, Weight weight) const override;
  [[nodiscard]] theory::NormParameters norm(int sublayer, Weight norm) const override;

 private:
  [[nodiscard]] Tensor tensor(const ParameterId& id) const { return parameter_of(weights_, model_, id); }
  [[nodiscard]] Eigen::VectorXd vector(const Tensor& x, const ParameterId& id) const;

  const Backend& backend_;
  const ModelSpec& model_;
  const WeightSource& weights_;
};

}  // namespace periscope::config
