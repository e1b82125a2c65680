#pragma once

#include <functional>
#include <string>

#include "sim/spec/weight.h"
#include "theory/certify/spectral_norm.h"

namespace periscope::theory {

struct NormParameters {
  Eigen::VectorXd gain;
  Eigen::VectorXd bias;  ///< empty without a bias
  double plus = 0.0;     ///< offset of stored gains: 1 if w is stored for the gain 1 + w (Gemma)
  double alpha = 1.0;    ///< α of pointwise norms; 1 for other norms
};

/// Parameters of a stack in double, the input of a certificate.
class Parameters {
 public:
  using BlockVisitor = std::function<void(Index first, const RowMatrix& rows)>;

  Parameters() = default;
  Parameters(const Parameters&) = delete;
  Parameters& operator=(const Parameters&) = delete;
  virtual ~Parameters() = default;

  /// Returns W [fan_out, fan_in] with y = W x.
  [[nodiscard]] virtual RowMatrix matrix(const ParameterId& id) const = 0;
  /// Visits blocks of a few thousand rows of a matrix in order; for large tables and unembeddings.
  virtual void visit_rows(Weight weight, const BlockVisitor& visit) const = 0;
  /// Returns b of W x + b; empty without a bias. `layer` is ignored for matrices outside the layers.
  [[nodiscard]] virtual Eigen::VectorXd bias(int layer, Weight weight) const = 0;
  [[nodiscard]] virtual NormParameters norm(int sublayer, Weight weight) const = 0;
  /// Returns the name of an entry (row-major) for messages: "layers.1.mlp.up.weight: entry 3".
  [[nodiscard]] virtual std::string entry_name(const ParameterId& id, Index entry) const = 0;
};

}  // namespace periscope::theory
