#include "sim/model/matrix_free.h"

#include <optional>
#include <stdexcept>
#include <string>

namespace periscope {

/// Factorisation X = L Q of an input that several matrices share.
class SharedInput {
 public:
  SharedInput(const Backend& ops, Tensor x, bool with_basis) : ops_(ops), x_(std::move(x)) { factorise(with_basis); }

  [[nodiscard]] const Tensor& x() const { return x_; }
  const Tensor& lower() {
    if (factors_.lower.empty()) factorise(true);
    return factors_.lower;
  }
  const Tensor& basis() {
    if (factors_.basis.empty()) factorise(true);
    return factors_.basis;
  }
  void release() { factors_ = {}; }

 private:
  void factorise(bool with_basis) { factors_ = ops_.row_basis(x_, with_basis); }

  const Backend& ops_;
  Tensor x_;
  RowBasis factors_;
};

/// Cache of the last input: q, k, v and attention_gate share one input, gate and up share another. With a backward
/// pass, the products own the factors and release them with their matrices.
class LastInput {
 public:
  std::shared_ptr<SharedInput> of(const Backend& ops, const Tensor& x, Save save) {
    std::shared_ptr<SharedInput> input = last_.lock();
    if (!input || !input->x().same_as(x)) {
      input = std::make_shared<SharedInput>(ops, x, save == Save::for_backward);
      last_ = input;
      stored_ = save == Save::for_backward ? nullptr : input;
    }
    return input;
  }

 private:
  std::shared_ptr<SharedInput> stored_;
  std::weak_ptr<SharedInput> last_;
};

class MatrixFreeProduct final : public LinearProduct {
 public:
  MatrixFreeProduct(const Backend& ops, const MatrixFreeWeights& source, MatrixFreeWeights::Name name,
                    std::shared_ptr<SharedInput> rows)
      : ops_(ops), source_(source), name_(name), rows_(std::move(rows)) {}

  [[nodiscard]] const Tensor& input() const override { return rows_->x(); }

  [[nodiscard]] Tensor output() override {
    if (stores_factors()) source_.factors_[name_].q = rows_->basis();
    return ops_.linear_backward_input(rows_->lower(), forward_numbers());
  }

  [[nodiscard]] Tensor backward(const Tensor& dy) override {
    if (is_backward_done_) throw std::logic_error(std::string(name_of(name_.second)) + ": two backward passes");
    is_backward_done_ = true;
    const Tensor l2 = factors_of(dy).lower;
    if (stores_factors()) source_.factors_[name_].q2 = gradient_->second.basis;
    const Tensor h = source_.numbers(name_, matrix_free_backward(name_.second), dy.rows(), input().cols());
    const Tensor along = ops_.axpby(1.0, ops_.linear(dy, forward_numbers()), -1.0,
                                    ops_.linear_backward_input(l2, ops_.linear(h, rows_->basis())));
    g_ = {};
    return ops_.axpby(1.0, ops_.linear_backward_input(along, rows_->basis()), 1.0, ops_.linear_backward_input(l2, h));
  }

  [[nodiscard]] Tensor gradient(const Tensor& dy) const override { return ops_.linear_backward_weight(dy, input()); }
  [[nodiscard]] Tensor gradient_squares(const Tensor& dy) const override {
    return ops_.measure(ops_.linear_backward_weight(factors_of(dy).lower, rows_->lower()), {.squares = true});
  }
  void release() override {
    g_ = {};
    rows_->release();
  }

 private:
  [[nodiscard]] bool stores_factors() const { return source_.store_factors_ == StoreFactors::yes; }

  /// Returns G (see MatrixFreeWeights), drawn on first use.
  const Tensor& forward_numbers() {
    if (g_.empty()) {
      const Tensor::Index out = shape_of(source_.spec_.model, name_.second, name_.first).fan_out;
      g_ = source_.numbers(name_, matrix_free_forward(name_.second), input().rows(), out);
    }
    return g_;
  }
  /// Factorises dY = L₂ Q₂. The last result is cached.
  const RowBasis& factors_of(const Tensor& dy) const {
    if (!gradient_ || !gradient_->first.same_as(dy)) gradient_ = {dy, ops_.row_basis(dy, stores_factors())};
    return gradient_->second;
  }

  const Backend& ops_;
  const MatrixFreeWeights& source_;
  MatrixFreeWeights::Name name_;
  std::shared_ptr<SharedInput> rows_;
  Tensor g_;
  mutable std::optional<std::pair<Tensor, RowBasis>> gradient_;
  bool is_backward_done_ = false;
};

class MatrixFreeMap final : public LinearMap {
 public:
  MatrixFreeMap(const MatrixFreeWeights& source, MatrixFreeWeights::Name name, std::shared_ptr<LastInput> last)
      : source_(source), name_(name), last_(std::move(last)) {}

  [[nodiscard]] std::unique_ptr<LinearProduct> product(const Backend& ops, const Tensor& x, Save save) const override {
    return std::make_unique<MatrixFreeProduct>(ops, source_, name_, last_->of(ops, x, save));
  }

  [[nodiscard]] Tensor dense() const override { return source_.completed(name_); }

 private:
  const MatrixFreeWeights& source_;
  MatrixFreeWeights::Name name_;
  std::shared_ptr<LastInput> last_;
};

Tensor MatrixFreeWeights::numbers(Name name, Stream stream, Tensor::Index rows, Tensor::Index cols) const {
  const StreamKey key{seed_, static_cast<std::uint32_t>(name.first), stream};
  return backend_.normal(rows, cols, dtype_, key, stddev_of(spec_, name.first, name.second));
}

Tensor MatrixFreeWeights::completed(Name name) const {
  if (store_factors_ == StoreFactors::no) {
    throw std::logic_error(std::string(name_of(name.second)) + ": a matrix-free matrix has no entries");
  }
  const Backend& ops = backend_;
  const auto [fan_out, fan_in] = shape_of(spec_.model, name.second, name.first);
  const StreamKey key{seed_, static_cast<std::uint32_t>(name.first), stream_of(name.second)};
  Tensor rest = ops.normal(fan_out, fan_in, dtype_, key, stddev_of(spec_, name.first, name.second));
  const auto found = factors_.find(name);
  if (found == factors_.end()) return rest;
  const Tensor& q = found->second.q;
  const Tensor& q2 = found->second.q2;
  const auto across = [&](const Tensor& rows) {  // returns rows·(1 − QᵀQ)
    return ops.axpby(1.0, rows, -1.0, ops.linear_backward_input(ops.linear(rows, q), q));
  };
  const Tensor g = numbers(name, matrix_free_forward(name.second), q.rows(), rest.rows());
  rest = across(rest);
  if (!q2.empty()) {
    const Tensor h = numbers(name, matrix_free_backward(name.second), q2.rows(), rest.cols());
    const Tensor correction = ops.axpby(1.0, across(h), -1.0, ops.linear_backward_input(q2, rest));
    rest = ops.axpby(1.0, rest, 1.0, ops.linear_backward_weight(q2, correction));
  }
  return ops.axpby(1.0, rest, 1.0, ops.linear_backward_weight(g, q));
}

SublayerWeights MatrixFreeWeights::fetch(int sublayer) const {
  SublayerWeights weights = dense_.fetch(sublayer);
  const auto last = std::make_shared<LastInput>();
  for (auto& [weight, linear] : weights.linear) {
    if (is_table(weight)) continue;
    const int layer = is_of_layer(weight) ? sublayer / 2 : 0;
    linear.map = profiled_map(backend_, dtype_, std::make_shared<MatrixFreeMap>(*this, Name{layer, weight}, last),
                              profile_of(spec_, layer, weight));
  }
  return weights;
}

}  // namespace periscope
