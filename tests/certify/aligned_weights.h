#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "sim/model/parameters.h"
#include "sim/model/resident_weights.h"
#include "tests/support/targets.h"

namespace periscope::testing {

/// Direction d [D] of all signals: one feature, or all features (with alternating signs for LayerNorm, which removes
/// the mean).
enum class Direction { spike, spread };

/// Weights of rank one along a unit vector d [D]: b dᵀ for a matrix that reads the stream and d bᵀ for one that writes
/// it. b is positive and differs between layers, heads and features; biases are `bias`·b. One input along d then makes
/// every signal as large as possible. RoPE rotates a pair of features of q and k into one feature at position 1;
/// under QK-norm each head has one nonzero feature. Values and keys of heads differ tenfold, so that a query head
/// with the wrong key/value head is detected.
class AlignedWeights {
  using Index = Tensor::Index;

 public:
  AlignedWeights(const StackSpec& spec, Direction direction, double bias)
      : model_(spec.model),
        direction_(direction),
        bias_(bias),
        source_(spec, GeneratedWeights(truth(), spec, DType::f64, 1)) {
    ResidentWeights::Parameters& parameters = source_.parameters();
    for (const ParameterId& id : matrices_of(spec)) {
      const Tensor like = parameters.at(id);
      parameters[id] = matrix(id.layer(), id.weight, like);
      if (bias_ != 0.0 && !is_table(id.weight))
        parameters[periscope::bias_of(id)] = bias_of(id.layer(), id.weight, like);
    }
    for (const ParameterId& id : gains_of(model_)) {
      parameters[id] = gain(owner_sublayer(model_, id), id.weight, parameters.at(id));
    }
  }

  [[nodiscard]] const ResidentWeights& source() const { return source_; }

  /// Returns the largest input along d with entries up to `largest`, scaled by `factors` [factors.size(), D].
  [[nodiscard]] Tensor input(double largest, const std::vector<double>& factors) const {
    const std::vector<double> d = direction(model_.width);
    const double length = largest / *std::ranges::max_element(d);
    std::vector<double> x;
    for (const double factor : factors)
      for (const double part : d) x.push_back(factor * length * part);
    return truth().from_host(static_cast<Index>(factors.size()), model_.width, DType::f64, x);
  }

 private:
  /// Returns whether the rows of the matrix are features of the stream.
  static bool writes(Weight weight) { return weight == Weight::o || weight == Weight::down; }
  /// Returns whether the rows and the columns are both features of the stream or the embedding.
  static bool turns(Weight weight) {
    return weight == Weight::project_in || weight == Weight::project_out || weight == Weight::head_dense;
  }

  /// Returns d with n entries, the width of the stream or of the embedding.
  [[nodiscard]] std::vector<double> direction(Index n) const {
    const auto size = static_cast<std::size_t>(n);
    std::vector<double> d(size, 0.0);
    if (direction_ == Direction::spike) {
      d[1] = 1.0;
      return d;
    }
    for (std::size_t i = 0; i < size; ++i) {
      d[i] = (model_.norm == NormKind::layer && i % 2 == 1 ? -1.0 : 1.0) / std::sqrt(static_cast<double>(n));
    }
    return d;
  }

  /// Returns b, indexed by rows of a table or of a matrix that reads the stream, or by columns of one that writes it.
  [[nodiscard]] std::vector<double> other_side(int layer, Weight weight, std::size_t n) const {
    std::vector<double> b(n);
    for (std::size_t i = 0; i < n; ++i) b[i] = (1.0 + 0.25 * layer) * (0.5 + 0.1 * static_cast<double>(i % 7));
    // The rows that the input reads (token 0, type 0, positions from the offset on) are the largest.
    if (weight == Weight::embedding || weight == Weight::token_types) b[0] = 3.0;
    if (weight == Weight::positions) std::fill(b.begin() + model_.embedding.position_offset, b.end(), 2.0);
    // Later heads have larger weights, so that the output depends on the order of heads.
    if (weight == Weight::o)
      for (std::size_t i = 0; i < n; ++i) b[i] = 0.2 + 0.1 * static_cast<double>(i);
    // After a norm, a feature is largest if it is the only one that is not 0.
    if ((weight == Weight::up || weight == Weight::gate) && model_.inner_norm_at(2 * layer + 1)) {
      std::fill(b.begin() + 1, b.end(), 0.0);
    }
    const bool alone = model_.v_norm_at(layer) || model_.inner_norm_at(2 * layer);
    if (weight != Weight::q && weight != Weight::k && weight != Weight::v) return b;
    const auto e = static_cast<std::size_t>(model_.head_dim);
    const std::vector<double> turn = model_.rope_frequencies_at(layer);
    for (std::size_t i = 0; i < n; ++i) {
      const std::size_t head = i / e;
      const std::size_t pair = i % e % (e / 2);
      const double of_head = weight == Weight::q ? 1.0 + 0.1 * static_cast<double>(head) : head == 0 ? 0.3 : 3.0;
      if (weight == Weight::v) {
        b[i] *= alone && i % e != 0 ? 0.0 : of_head;
      } else if (model_.qk_norm == QkNorm::none) {
        const double size = of_head * (1.0 + 0.3 * static_cast<double>(pair)) * (1.0 + 0.25 * layer);
        b[i] = size * (i % e < e / 2 ? std::cos(turn[pair]) : -std::sin(turn[pair]));
      } else {
        b[i] = i % e == 0 && (model_.qk_norm == QkNorm::head || head == 0) ? of_head : 0.0;
      }
    }
    return b;
  }

  [[nodiscard]] Tensor matrix(int layer, Weight weight, const Tensor& like) const {
    std::vector<double> left;
    std::vector<double> right;
    if (writes(weight) || turns(weight)) left = direction(like.rows());
    if (!writes(weight)) right = direction(like.cols());
    if (left.empty()) left = other_side(layer, weight, static_cast<std::size_t>(like.rows()));
    if (right.empty()) right = other_side(layer, weight, static_cast<std::size_t>(like.cols()));
    std::vector<double> values;
    for (const double a : left)
      for (const double b : right) values.push_back(a * b);
    return truth().from_host(like.rows(), like.cols(), like.dtype(), values);
  }

  [[nodiscard]] Tensor bias_of(int layer, Weight weight, const Tensor& like) const {
    std::vector<double> b = writes(weight) || turns(weight)
                                ? direction(like.rows())
                                : other_side(layer, weight, static_cast<std::size_t>(like.rows()));
    for (double& x : b) x *= bias_;
    return truth().from_host(1, like.rows(), like.dtype(), b);
  }

  [[nodiscard]] Tensor gain(int sublayer, Weight norm, const Tensor& like) const {
    std::vector<double> gain(static_cast<std::size_t>(like.cols()), 1.5 + 0.1 * sublayer);
    if (direction_ == Direction::spike) {
      for (std::size_t i = 0; i < gain.size(); ++i) gain[i] -= 0.1 * static_cast<double>(i);
    }
    // d is feature 1 of the stream and the embedding, and feature 0 of norms inside modules.
    if (gain.size() > 1 && !is_module_norm(norm)) std::swap(gain[0], gain[1]);
    return truth().from_host(1, like.cols(), like.dtype(), gain);
  }

  ModelSpec model_;
  Direction direction_;
  double bias_;
  ResidentWeights source_;
};

}  // namespace periscope::testing
