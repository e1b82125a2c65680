#include "sim/model/linear_map.h"

namespace periscope {
namespace {

class DenseReading final : public LinearReading {
 public:
  DenseReading(const Backend& ops, std::function<Tensor()> matrix, Tensor x)
      : ops_(ops), matrix_(std::move(matrix)), x_(std::move(x)) {}

  [[nodiscard]] const Tensor& input() const override { return x_; }
  [[nodiscard]] Tensor output() override { return ops_.linear(x_, w()); }
  [[nodiscard]] Tensor pull(const Tensor& dy) override { return ops_.linear_backward_input(dy, w()); }
  [[nodiscard]] Tensor gradient(const Tensor& dy) const override { return ops_.linear_backward_weight(dy, x_); }
  [[nodiscard]] Tensor gradient_squares(const Tensor& dy) const override { return ops_.linear_weight_square(dy, x_); }
  void release() override { w_ = {}; }

 private:
  const Tensor& w() {
    if (w_.empty()) w_ = matrix_();
    return w_;
  }

  const Backend& ops_;
  std::function<Tensor()> matrix_;
  Tensor x_;
  Tensor w_;
};

class DenseMap final : public LinearMap {
 public:
  explicit DenseMap(std::function<Tensor()> matrix) : matrix_(std::move(matrix)) {}
  [[nodiscard]] std::unique_ptr<LinearReading> read(const Backend& ops, const Tensor& x, Keep /*keep*/) const override {
    return std::make_unique<DenseReading>(ops, matrix_, x);
  }
  [[nodiscard]] Tensor dense() const override { return matrix_(); }

 private:
  std::function<Tensor()> matrix_;
};

class DrawnReading final : public LinearReading {
 public:
  DrawnReading(const Backend& ops, const DrawnMatrix& w, Tensor x) : ops_(ops), w_(w), x_(std::move(x)) {}

  [[nodiscard]] const Tensor& input() const override { return x_; }
  [[nodiscard]] Tensor output() override { return ops_.linear_drawn(x_, w_); }
  [[nodiscard]] Tensor pull(const Tensor& dy) override { return ops_.linear_drawn_backward_input(dy, w_); }
  [[nodiscard]] Tensor gradient(const Tensor& dy) const override { return ops_.linear_backward_weight(dy, x_); }
  [[nodiscard]] Tensor gradient_squares(const Tensor& dy) const override { return ops_.linear_weight_square(dy, x_); }
  void release() override {}

 private:
  const Backend& ops_;
  DrawnMatrix w_;
  Tensor x_;
};

class DrawnMap final : public LinearMap {
 public:
  DrawnMap(const Backend& ops, DType dtype, const DrawnMatrix& w) : ops_(ops), dtype_(dtype), w_(w) {}
  [[nodiscard]] std::unique_ptr<LinearReading> read(const Backend& ops, const Tensor& x, Keep /*keep*/) const override {
    return std::make_unique<DrawnReading>(ops, w_, x);
  }
  [[nodiscard]] Tensor dense() const override { return ops_.normal(w_.rows, w_.cols, dtype_, w_.key, w_.stddev); }

 private:
  const Backend& ops_;
  DType dtype_;
  DrawnMatrix w_;
};

}  // namespace

std::shared_ptr<const LinearMap> drawn_map(const Backend& ops, DType dtype, const DrawnMatrix& w) {
  return std::make_shared<DrawnMap>(ops, dtype, w);
}

std::shared_ptr<const LinearMap> dense_map(std::function<Tensor()> matrix) {
  return std::make_shared<DenseMap>(std::move(matrix));
}

}  // namespace periscope
