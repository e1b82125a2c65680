#include "sim/model/matrix_free.h"

#include <optional>
#include <stdexcept>
#include <string>

namespace periscope {
namespace {

/// X = L Q of rows that several matrices read.
class ReadRows {
 public:
  ReadRows(const Backend& ops, Tensor x, bool with_basis) : ops_(ops), x_(std::move(x)) { factorise(with_basis); }

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

/// The rows that were read last: q, k, v and the attention's gate read the same ones, and so do gate and up. Where a
/// backward pass follows, its readings hold them, and give them back with their matrix.
class LastRead {
 public:
  std::shared_ptr<ReadRows> of(const Backend& ops, const Tensor& x, Keep keep) {
    std::shared_ptr<ReadRows> rows = seen_.lock();
    if (!rows || !rows->x().same_as(x)) {
      rows = std::make_shared<ReadRows>(ops, x, keep == Keep::for_backward);
      seen_ = rows;
      held_ = keep == Keep::for_backward ? nullptr : rows;
    }
    return rows;
  }

 private:
  std::shared_ptr<ReadRows> held_;
  std::weak_ptr<ReadRows> seen_;
};

}  // namespace

class MatrixFreeReading final : public LinearReading {
 public:
  MatrixFreeReading(const Backend& ops, const MatrixFreeWeights& source, MatrixFreeWeights::Name name,
                    std::shared_ptr<ReadRows> rows)
      : ops_(ops), source_(source), name_(name), rows_(std::move(rows)) {}

  [[nodiscard]] const Tensor& input() const override { return rows_->x(); }

  [[nodiscard]] Tensor output() override {
    if (remembers()) source_.seen_[name_].q = rows_->basis();
    return ops_.linear_backward_input(rows_->lower(), forward_numbers());
  }

  [[nodiscard]] Tensor pull(const Tensor& dy) override {
    if (pulled_) throw std::logic_error("a matrix-free " + std::string(name_of(name_.second)) + " is pulled twice");
    pulled_ = true;
    const Tensor l2 = factors_of(dy).lower;
    if (remembers()) source_.seen_[name_].q2 = gradient_->second.basis;
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
  [[nodiscard]] bool remembers() const { return source_.remember_ == Remember::readings; }

  /// G.
  const Tensor& forward_numbers() {
    if (g_.empty()) {
      const Tensor::Index out = shape_of(source_.spec_.model, name_.second, name_.first).fan_out;
      g_ = source_.numbers(name_, matrix_free_forward(name_.second), input().rows(), out);
    }
    return g_;
  }
  /// dY = L₂ Q₂, of the gradient that was asked for last.
  const RowBasis& factors_of(const Tensor& dy) const {
    if (!gradient_ || !gradient_->first.same_as(dy)) gradient_ = {dy, ops_.row_basis(dy, remembers())};
    return gradient_->second;
  }

  const Backend& ops_;
  const MatrixFreeWeights& source_;
  MatrixFreeWeights::Name name_;
  std::shared_ptr<ReadRows> rows_;
  Tensor g_;
  mutable std::optional<std::pair<Tensor, RowBasis>> gradient_;
  bool pulled_ = false;
};

class MatrixFreeMap final : public LinearMap {
 public:
  MatrixFreeMap(const MatrixFreeWeights& source, MatrixFreeWeights::Name name, std::shared_ptr<LastRead> last)
      : source_(source), name_(name), last_(std::move(last)) {}

  [[nodiscard]] std::unique_ptr<LinearReading> read(const Backend& ops, const Tensor& x, Keep keep) const override {
    return std::make_unique<MatrixFreeReading>(ops, source_, name_, last_->of(ops, x, keep));
  }

  [[nodiscard]] Tensor dense() const override { return source_.completed(name_); }

 private:
  const MatrixFreeWeights& source_;
  MatrixFreeWeights::Name name_;
  std::shared_ptr<LastRead> last_;
};

Tensor MatrixFreeWeights::numbers(Name name, Stream stream, Tensor::Index rows, Tensor::Index cols) const {
  const StreamKey key{seed_, static_cast<std::uint32_t>(name.first), stream};
  return backend_.normal(rows, cols, dtype_, key, stddev_of(spec_, name.first, name.second));
}

Tensor MatrixFreeWeights::completed(Name name) const {
  if (remember_ == Remember::nothing) {
    throw std::logic_error("a matrix-free " + std::string(name_of(name.second)) + " has no entries");
  }
  const Backend& ops = backend_;
  const auto [fan_out, fan_in] = shape_of(spec_.model, name.second, name.first);
  const StreamKey key{seed_, static_cast<std::uint32_t>(name.first), stream_of(name.second)};
  Tensor rest = ops.normal(fan_out, fan_in, dtype_, key, stddev_of(spec_, name.first, name.second));
  const auto seen = seen_.find(name);
  if (seen == seen_.end()) return rest;
  const Tensor& q = seen->second.q;
  const Tensor& q2 = seen->second.q2;
  const auto across = [&](const Tensor& rows) {  // rows (1 − QᵀQ)
    return ops.axpby(1.0, rows, -1.0, ops.linear_backward_input(ops.linear(rows, q), q));
  };
  const Tensor g = numbers(name, matrix_free_forward(name.second), q.rows(), rest.rows());
  rest = across(rest);
  if (!q2.empty()) {
    const Tensor h = numbers(name, matrix_free_backward(name.second), q2.rows(), rest.cols());
    const Tensor pulled = ops.axpby(1.0, across(h), -1.0, ops.linear_backward_input(q2, rest));
    rest = ops.axpby(1.0, rest, 1.0, ops.linear_backward_weight(q2, pulled));
  }
  return ops.axpby(1.0, rest, 1.0, ops.linear_backward_weight(g, q));
}

SublayerWeights MatrixFreeWeights::fetch(int sublayer) const {
  SublayerWeights weights = dense_.fetch(sublayer);
  const auto last = std::make_shared<LastRead>();
  for (auto& [weight, linear] : weights.linear) {
    if (is_table(weight)) continue;
    const int layer = is_of_layer(weight) ? sublayer / 2 : 0;
    linear.map = profiled_map(backend_, dtype_, std::make_shared<MatrixFreeMap>(*this, Name{layer, weight}, last),
                              profile_of(spec_, layer, weight));
  }
  return weights;
}

}  // namespace periscope
