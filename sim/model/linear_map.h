#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "sim/base/interface.h"
#include "sim/core/backend.h"
#include "sim/spec/weight_scales.h"

namespace periscope {

/// Whether a forward pass keeps what its backward pass needs.
enum class Keep { nothing, for_backward };

/// The product of a tensor X [N, in] with a matrix W [out, in], Y = X Wᵀ, and its gradients from dY [N, out].
class LinearReading : public Interface {
 public:
  [[nodiscard]] virtual const Tensor& input() const = 0;
  /// Y [N, out]. Called once.
  [[nodiscard]] virtual Tensor output() = 0;
  /// dX = dY W [N, in].
  [[nodiscard]] virtual Tensor pull(const Tensor& dy) = 0;
  /// dW = dYᵀ X [out, in].
  [[nodiscard]] virtual Tensor gradient(const Tensor& dy) const = 0;
  /// f64 [1, n] on the device, numbers whose sum is ‖dYᵀ X‖_F².
  [[nodiscard]] virtual Tensor gradient_squares(const Tensor& dy) const = 0;
  /// Frees memory that can be drawn, read or computed again.
  virtual void release() = 0;
};

/// A matrix W of a stack, not necessarily a dense tensor.
class LinearMap : public Interface {
 public:
  /// Prepares the product with x. The backend outlives the reading; the map need not.
  [[nodiscard]] virtual std::unique_ptr<LinearReading> read(const Backend& ops, const Tensor& x, Keep keep) const = 0;
  /// W itself, for files and certificates.
  [[nodiscard]] virtual Tensor dense() const = 0;
};

/// A dense matrix that `matrix` draws or reads at a reading, and again in the backward pass if it was released. What
/// `matrix` refers to must outlive the map and its readings.
[[nodiscard]] std::shared_ptr<const LinearMap> dense_map(std::function<Tensor()> matrix);

/// A random matrix that is drawn for every product and never held whole. `ops` outlives the map.
[[nodiscard]] std::shared_ptr<const LinearMap> drawn_map(const Backend& ops, DType dtype, const DrawnMatrix& w);

/// The matrix W_ij = rows_i·Z_ij·columns_j of a variance profile (T29) over a matrix Z [m, n], which need not exist:
///   y = rows∘((x∘columns) Zᵀ),  dx = ((dy∘rows) Z)∘columns,
/// so that Z may be drawn in products, or have no entries at all (T21). An empty profile gives `z` itself. `ops`
/// outlives the map.
[[nodiscard]] std::shared_ptr<const LinearMap> profiled_map(const Backend& ops, DType dtype,
                                                            std::shared_ptr<const LinearMap> z,
                                                            VarianceProfile profile);

}  // namespace periscope
