#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "sim/core/backend.h"

namespace periscope {

/// One reading of a matrix W [out, in] by a tensor X [N, in]: Y = X Wᵀ, and the way back from dY [N, out].
class LinearReading {
 public:
  LinearReading() = default;
  LinearReading(const LinearReading&) = delete;
  LinearReading& operator=(const LinearReading&) = delete;
  virtual ~LinearReading() = default;

  [[nodiscard]] virtual const Tensor& input() const = 0;
  /// Y [N, out]. Called once.
  [[nodiscard]] virtual Tensor output() = 0;
  /// dX = dY W [N, in].
  [[nodiscard]] virtual Tensor pull(const Tensor& dy) = 0;
  /// dW = dYᵀ X [out, in].
  [[nodiscard]] virtual Tensor gradient(const Tensor& dy) const = 0;
  /// ‖dYᵀ X‖_F².
  [[nodiscard]] virtual double gradient_sq(const Tensor& dy) const = 0;
  /// Gives back memory of W that can be had again.
  virtual void release() = 0;
};

/// A matrix of a stack as its walk uses it: it answers readings. A dense tensor is one kind.
class LinearMap {
 public:
  LinearMap() = default;
  LinearMap(const LinearMap&) = delete;
  LinearMap& operator=(const LinearMap&) = delete;
  virtual ~LinearMap() = default;

  /// The backend outlives the reading; the map need not.
  [[nodiscard]] virtual std::unique_ptr<LinearReading> read(const Backend& ops, const Tensor& x) const = 0;
  /// W itself, for what reads its entries: files, certificates.
  [[nodiscard]] virtual Tensor dense() const = 0;
};

/// Σ x_ij².
[[nodiscard]] double sum_of_squares(const Backend& ops, const Tensor& x);

/// A dense matrix that `matrix` draws or reads when it is needed: at a reading, and again on the way back if it was
/// released in between. What `matrix` refers to must outlive the map and its readings.
[[nodiscard]] std::shared_ptr<const LinearMap> dense_map(std::function<Tensor()> matrix);

}  // namespace periscope
