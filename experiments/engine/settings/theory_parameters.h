#pragma once

#include <functional>

#include "experiments/engine/settings/sha256.h"
#include "sim/model/weights.h"
#include "theory/certify/parameters.h"

namespace periscope::config {

/// Returns the name, for messages, of an entry given by its row-major index. An empty function selects default names.
using EntryNames = std::function<std::string(const ParameterId& id, std::int64_t entry)>;

/// Reads parameters from a weight source as double, one matrix at a time. `backend` owns the source's tensors. Every
/// value read is added to `digest`, as f64 and in the order of reading. All arguments must outlive this object. Throws
/// InputError for a weight that is not finite.
class TheoryParameters final : public theory::Parameters {
 public:
  TheoryParameters(const Backend& backend, const ModelSpec& model, const WeightSource& weights, EntryNames names = {},
                   Sha256* digest = nullptr)
      : backend_(backend), model_(model), weights_(weights), names_(std::move(names)), digest_(digest) {}

  [[nodiscard]] theory::RowMatrix matrix(const ParameterId& id) const override;
  void visit_rows(Weight weight, const BlockVisitor& visit) const override;
  [[nodiscard]] Eigen::VectorXd bias(int layer, Weight weight) const override;
  [[nodiscard]] theory::NormParameters norm(int sublayer, Weight norm) const override;
  [[nodiscard]] std::string entry_name(const ParameterId& id, Eigen::Index entry) const override;

 private:
  [[nodiscard]] Tensor tensor(const ParameterId& id) const { return parameter_of(weights_, model_, id); }
  [[nodiscard]] Eigen::VectorXd vector(const Tensor& x, const ParameterId& id) const;
  /// Returns the values of `x`, which starts at entry `first` of parameter `id`.
  [[nodiscard]] theory::RowMatrix numbers(const Tensor& x, const ParameterId& id, Eigen::Index first = 0) const;

  const Backend& backend_;
  const ModelSpec& model_;
  const WeightSource& weights_;
  EntryNames names_;
  Sha256* digest_;
};

}  // namespace periscope::config
