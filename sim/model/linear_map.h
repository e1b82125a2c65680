#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "sim/base/interface.h"
#include "sim/core/backend.h"

namespace periscope {

/// Says whether a forward pass keeps what its backward pass needs.
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
  /// Frees the memory of what can be drawn, read or computed again.
  virtual void release() = 0;
};

/// A matrix W of a stack, as a pass uses it: it need not be a dense tensor.
class LinearMap : public Interface {
 public:
  /// Prepares the product with x; `keep` says whether a gradient will be pulled through it. The backend outlives the
  /// reading; the map need not.
  [[nodiscard]] virtual std::unique_ptr<LinearReading> read(const Backend& ops, const Tensor& x, Keep keep) const = 0;
  /// W itself, for what reads its entries: files, certificates.
  [[nodiscard]] virtual Tensor dense() const = 0;
};

/// A dense matrix that `matrix` draws or reads when it is needed: at a reading, and again in the backward pass if it
/// was released in between. What `matrix` refers to must outlive the map and its readings.
[[nodiscard]] std::shared_ptr<const LinearMap> dense_map(std::function<Tensor()> matrix);

/// A random matrix that is drawn for every product, and is never held whole. `ops` outlives the map.
[[nodiscard]] std::shared_ptr<const LinearMap> drawn_map(const Backend& ops, DType dtype, const DrawnMatrix& w);

}  // namespace periscope
