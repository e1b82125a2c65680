#pragma once

#include <functional>

#include "experiments/engine/settings/sha256.h"
#include "sim/model/weights.h"
#include "theory/certify/parameters.h"

namespace periscope::config {

/// Returns the name of an entry of a parameter (row-major). Empty: the program's own names.
using EntryNames = std::function<std::string(const ParameterId& id, std::int64_t entry)>;

/// Parameters from a weight source, in double, one matrix at a time. `backend` is that of the source's tensors.
/// `digest` gets everything that is read, as f64 in the order of reading. All arguments must outlive this. Throws
/// InputError for a weight that is not finite.
class TheoryParameters final : public theory::Parameters {
 public:
  TheoryParameters(const Backend& backend, const ModelSpec& model, const WeightSource& weights, EntryNames names = {},
                   Sha256* digest = nullptr)
      : backend_(backend), model_(model), weights_(weights), names_(std::move(names)), digest_(digest) {}

  [[nodiscard]] theory::RowMatrix matrix(int layer, Weight weight) const override;
  void visit_rows(Weight weight, const BlockVisitor& visit) const override;
  [[nodiscard]] Eigen::VectorXd bias(int layer, Weight weight) const override;
  [[nodiscard]] theory::NormParameters norm(int sublayer, Weight norm) const override;
  [[nodiscard]] std::string entry_name(const ParameterId& id, Eigen::Index entry) const override;

 private:
  [[nodiscard]] Tensor tensor(const ParameterId& id) const { return parameter_of(weights_, model_, id); }
  [[nodiscard]] Eigen::VectorXd vector(const Tensor& x, const ParameterId& id) const;
  /// Returns the numbers of a part of a parameter that begins at entry `first`.
  [[nodiscard]] theory::RowMatrix numbers(const Tensor& x, const ParameterId& id, Eigen::Index first = 0) const;

  const Backend& backend_;
  const ModelSpec& model_;
  const WeightSource& weights_;
  EntryNames names_;
  Sha256* digest_;
};

}  // namespace periscope::config
