#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "sim/base/interface.h"
#include "sim/core/backend.h"
#include "sim/spec/weight_scales.h"

namespace periscope {

/// Whether a forward pass saves tensors for its backward pass.
enum class Save { nothing, for_backward };

/// Product Y = X Wᵀ of an input X [N, in] and a matrix W [out, in], with its gradients given dY [N, out].
class LinearProduct : public Interface {
 public:
  [[nodiscard]] virtual const Tensor& input() const = 0;
  /// Y [N, out]. Call once.
  [[nodiscard]] virtual Tensor output() = 0;
  /// dX = dY W [N, in].
  [[nodiscard]] virtual Tensor backward(const Tensor& dy) = 0;
  /// dW = dYᵀ X [out, in].
  [[nodiscard]] virtual Tensor gradient(const Tensor& dy) const = 0;
  /// f64 [1, n] on the device, whose entries sum to ‖dYᵀ X‖_F².
  [[nodiscard]] virtual Tensor gradient_squares(const Tensor& dy) const = 0;
  /// Frees matrices and factors, which are generated or computed again when needed.
  virtual void release() = 0;
};

/// A matrix W of a stack, not necessarily stored as a dense tensor.
class LinearMap : public Interface {
 public:
  /// Prepares the product with x. The backend must outlive the product; the map need not.
  [[nodiscard]] virtual std::unique_ptr<LinearProduct> product(const Backend& ops, const Tensor& x,
                                                               Save save) const = 0;
  /// Returns W as a dense tensor, for files and certificates.
  [[nodiscard]] virtual Tensor dense() const = 0;
};

/// Wraps a dense matrix. `matrix` returns it, and is called once per product and again in the backward pass after
/// release(). Objects used by `matrix` must outlive the map and its products.
[[nodiscard]] std::shared_ptr<const LinearMap> dense_map(std::function<Tensor()> matrix);

/// A random matrix that is generated within every product and never stored. `ops` must outlive the map.
[[nodiscard]] std::shared_ptr<const LinearMap> drawn_map(const Backend& ops, DType dtype, const DrawnMatrix& w);

/// The matrix W_ij = rows_i·Z_ij·columns_j of a variance profile (T29) over a matrix Z [m, n]:
///   y = rows∘((x∘columns) Zᵀ),  dx = ((dy∘rows) Z)∘columns,
/// so Z may be generated within products, or be matrix-free (T21). Returns `z` if the profile is empty. `ops` must
/// outlive the map.
[[nodiscard]] std::shared_ptr<const LinearMap> profiled_map(const Backend& ops, DType dtype,
                                                            std::shared_ptr<const LinearMap> z,
                                                            const VarianceProfile& profile);

}  // namespace periscope
