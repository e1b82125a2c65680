#include "sim/model/linear_map.h"

#include <algorithm>
#include <span>
#include <vector>

namespace periscope {
namespace {

/// Base class that stores the input and computes weight gradients as dense products.
class StoredInputProduct : public LinearProduct {
 public:
  StoredInputProduct(const Backend& ops, Tensor x) : ops_(ops), x_(std::move(x)) {}
  [[nodiscard]] const Tensor& input() const override { return x_; }
  [[nodiscard]] Tensor gradient(const Tensor& dy) const override { return ops_.linear_backward_weight(dy, x_); }
  [[nodiscard]] Tensor gradient_squares(const Tensor& dy) const override { return ops_.linear_weight_square(dy, x_); }

 protected:
  const Backend& ops_;
  Tensor x_;
};

class DenseProduct final : public StoredInputProduct {
 public:
  DenseProduct(const Backend& ops, std::function<Tensor()> matrix, Tensor x)
      : StoredInputProduct(ops, std::move(x)), matrix_(std::move(matrix)) {}

  [[nodiscard]] Tensor output() override { return ops_.linear(x_, w()); }
  [[nodiscard]] Tensor backward(const Tensor& dy) override { return ops_.linear_backward_input(dy, w()); }
  void release() override { w_ = {}; }

 private:
  const Tensor& w() {
    if (w_.empty()) w_ = matrix_();
    return w_;
  }

  std::function<Tensor()> matrix_;
  Tensor w_;
};

class DenseMap final : public LinearMap {
 public:
  explicit DenseMap(std::function<Tensor()> matrix) : matrix_(std::move(matrix)) {}
  [[nodiscard]] std::unique_ptr<LinearProduct> product(const Backend& ops, const Tensor& x,
                                                       Save /*save*/) const override {
    return std::make_unique<DenseProduct>(ops, matrix_, x);
  }
  [[nodiscard]] Tensor dense() const override { return matrix_(); }

 private:
  std::function<Tensor()> matrix_;
};

class DrawnProduct final : public StoredInputProduct {
 public:
  DrawnProduct(const Backend& ops, const DrawnMatrix& w, Tensor x) : StoredInputProduct(ops, std::move(x)), w_(w) {}

  [[nodiscard]] Tensor output() override { return ops_.linear_drawn(x_, w_); }
  [[nodiscard]] Tensor backward(const Tensor& dy) override { return ops_.linear_drawn_backward_input(dy, w_); }
  void release() override {}

 private:
  DrawnMatrix w_;
};

class DrawnMap final : public LinearMap {
 public:
  DrawnMap(const Backend& ops, DType dtype, const DrawnMatrix& w) : ops_(ops), dtype_(dtype), w_(w) {}
  [[nodiscard]] std::unique_ptr<LinearProduct> product(const Backend& ops, const Tensor& x,
                                                       Save /*save*/) const override {
    return std::make_unique<DrawnProduct>(ops, w_, x);
  }
  [[nodiscard]] Tensor dense() const override { return ops_.normal(w_.rows, w_.cols, dtype_, w_.key, w_.stddev); }

 private:
  const Backend& ops_;
  DType dtype_;
  DrawnMatrix w_;
};

/// Row and column factors of a variance profile on the device; empty if all are 1.
struct Sides {
  Tensor rows;     // [1, m]
  Tensor columns;  // [1, n]
};

/// Returns x_tk·side_k for x [N, n] and side [1, n] or empty.
Tensor scaled_channels(const Backend& ops, Tensor x, const Tensor& side) {
  if (side.empty()) return x;
  const std::vector<int> first(static_cast<std::size_t>(x.rows()), 0);
  return ops.multiply(std::move(x), ops.gather(side, first));
}

/// Weight gradients are with respect to W = rows∘Z∘columns, not to Z.
class ProfiledProduct final : public StoredInputProduct {
 public:
  ProfiledProduct(const Backend& ops, std::unique_ptr<LinearProduct> inner, Sides sides, Tensor x)
      : StoredInputProduct(ops, std::move(x)), inner_(std::move(inner)), sides_(std::move(sides)) {}

  [[nodiscard]] Tensor output() override { return scaled_channels(ops_, inner_->output(), sides_.rows); }
  [[nodiscard]] Tensor backward(const Tensor& dy) override {
    return scaled_channels(ops_, inner_->backward(scaled_channels(ops_, dy, sides_.rows)), sides_.columns);
  }
  void release() override { inner_->release(); }

 private:
  std::unique_ptr<LinearProduct> inner_;
  Sides sides_;
};

class ProfiledMap final : public LinearMap {
 public:
  ProfiledMap(const Backend& ops, std::shared_ptr<const LinearMap> z, Sides sides)
      : ops_(ops), z_(std::move(z)), sides_(std::move(sides)) {}

  [[nodiscard]] std::unique_ptr<LinearProduct> product(const Backend& ops, const Tensor& x, Save save) const override {
    return std::make_unique<ProfiledProduct>(ops, z_->product(ops, scaled_channels(ops, x, sides_.columns), save),
                                             sides_, x);
  }
  [[nodiscard]] Tensor dense() const override {
    Tensor w = scaled_channels(ops_, z_->dense(), sides_.columns);
    if (sides_.rows.empty()) return w;
    const std::vector<double> rows = ops_.to_host(sides_.rows);
    const auto width = static_cast<std::size_t>(w.cols());
    const auto fill = [&]<class T>(Tensor::Index first, Tensor::Index count, std::span<T> values) {
      for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
        const auto size = static_cast<T>(rows[static_cast<std::size_t>(first) + i]);
        std::ranges::fill(values.subspan(i * width, width), size);
      }
    };
    const Tensor sizes = ops_.from_rows(w.rows(), w.cols(), w.dtype(), fill);
    return ops_.multiply(std::move(w), sizes);
  }

 private:
  const Backend& ops_;
  std::shared_ptr<const LinearMap> z_;
  Sides sides_;
};

}  // namespace

std::shared_ptr<const LinearMap> drawn_map(const Backend& ops, DType dtype, const DrawnMatrix& w) {
  return std::make_shared<DrawnMap>(ops, dtype, w);
}

std::shared_ptr<const LinearMap> dense_map(std::function<Tensor()> matrix) {
  return std::make_shared<DenseMap>(std::move(matrix));
}

std::shared_ptr<const LinearMap> profiled_map(const Backend& ops, DType dtype, std::shared_ptr<const LinearMap> z,
                                              const VarianceProfile& profile) {
  if (profile.rows.empty() && profile.columns.empty()) return z;
  const auto on_device = [&](const std::vector<double>& side) {
    return side.empty() ? Tensor() : ops.from_host(1, static_cast<Tensor::Index>(side.size()), dtype, side);
  };
  return std::make_shared<ProfiledMap>(ops, std::move(z), Sides{on_device(profile.rows), on_device(profile.columns)});
}

}  // namespace periscope
