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
  [[nodiscard]] Tensor gradient_squares(const Tensor& dy) const override {
    return ops_.measure(gradient(dy), {.squares = true});
  }
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
  [[nodiscard]] std::unique_ptr<LinearReading> read(const Backend& ops, const Tensor& x) const override {
    return std::make_unique<DenseReading>(ops, matrix_, x);
  }
  [[nodiscard]] Tensor dense() const override { return matrix_(); }

 private:
  std::function<Tensor()> matrix_;
};

}  // namespace

std::shared_ptr<const LinearMap> dense_map(std::function<Tensor()> matrix) {
  return std::make_shared<DenseMap>(std::move(matrix));
}

}  // namespace periscope
