#pragma once

#include <functional>
#include <string>

#include "sim/spec/weight.h"
#include "theory/certify/spectral_norm.h"

namespace periscope::theory {

/// Gain and bias of a norm, the bias empty if there is none, and its α where the kind has one.
struct NormParameters {
  Eigen::VectorXd gain;
  Eigen::VectorXd bias;
  double plus = 0.0;   ///< what the gains are stored without: 1 if w of 1 + w is stored (Gemma)
  double alpha = 1.0;  ///< 1 where there is none
};

/// A stack's parameters as plain numbers: the weights that a certificate is for.
class Parameters {
 public:
  using BlockVisitor = std::function<void(Index first, const RowMatrix& rows)>;

  Parameters() = default;
  Parameters(const Parameters&) = delete;
  Parameters& operator=(const Parameters&) = delete;
  virtual ~Parameters() = default;

  /// W [fan_out, fan_in] with y = W x; `layer` is ignored for what no layer owns.
  [[nodiscard]] virtual RowMatrix matrix(int layer, Weight weight) const = 0;
  /// Visits a matrix a few thousand rows at a time, in order: for tables and unembeddings, which are large.
  virtual void visit_rows(Weight weight, const BlockVisitor& visit) const = 0;
  /// Returns what is added to W x, empty for none.
  [[nodiscard]] virtual Eigen::VectorXd bias(int layer, Weight weight) const = 0;
  [[nodiscard]] virtual NormParameters norm(int sublayer, Weight weight) const = 0;
  /// Names an entry (row-major) in messages: "layers.1.mlp.up.weight: entry 3".
  [[nodiscard]] virtual std::string entry_name(const ParameterId& id, Index entry) const = 0;
};

}  // namespace periscope::theory
