#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "sim/core/tensor.h"
#include "sim/random/stream_key.h"
#include "sim/spec/model_spec.h"

namespace periscope {

/// Heads of one attention op: q is [N, heads·head_dim], k and v are [N, kv_heads·head_dim];
/// query head i reads key/value head i / (heads / kv_heads). N = sequences · tokens.
struct AttentionShape {
  int heads;
  int kv_heads;
  int head_dim;
  int sequences;
  bool causal;
  ScoreRule scores = {};

  /// Factor on q·k.
  [[nodiscard]] double scale() const {
    return scores.scale != 0.0 ? scores.scale : 1.0 / std::sqrt(static_cast<double>(head_dim));
  }
  /// The tokens that token t of T sees: first … last−1.
  [[nodiscard]] Tensor::Index first_seen(Tensor::Index t) const {
    return scores.window > 0 ? std::max<Tensor::Index>(0, t - scores.window + 1) : 0;
  }
  [[nodiscard]] Tensor::Index end_seen(Tensor::Index t, Tensor::Index tokens) const { return causal ? t + 1 : tokens; }
};

/// A label that cross_entropy leaves out.
inline constexpr int no_label = -1;

/// Statistics of every row of a tensor [N, D], accumulated in double, two-pass.
struct RowMoments {
  std::vector<double> mean;           ///< Σx/D
  std::vector<double> second_moment;  ///< Σx²/D
  std::vector<double> variance;       ///< Σ(x−mean)²/D
  std::vector<double> kurtosis;       ///< D Σ(x−mean)⁴ / (Σ(x−mean)²)²
  std::vector<double> maximum;        ///< max |x|
};

/// An element of a tensor, and where it stands.
struct Entry {
  Tensor::Index row;
  Tensor::Index col;
  double value;  ///< with its sign

  bool operator==(const Entry&) const = default;
};

/// What norm_backward returns: dx like x; dgain and dbias [1, n], sums over rows and groups.
struct NormGradient {
  Tensor dx;
  Tensor dgain;
  Tensor dbias;
};

/// What attention returns.
struct Attended {
  Tensor mixed;   ///< softmax(z) v, the heads side by side [N, heads·head_dim]
  Tensor scores;  ///< per token and query head the largest |z| over the tokens that it sees [N, heads]; NaN if one is
};

/// What attention_backward returns, each like its input.
struct AttentionGradient {
  Tensor dq;
  Tensor dk;
  Tensor dv;
};

/// What gated_backward returns, both like the gate.
struct GatedGradient {
  Tensor dgate;
  Tensor dup;
};

/// What cross_entropy returns.
struct CrossEntropy {
  double loss;     ///< mean over the rows that have a label
  Tensor dlogits;  ///< its gradient, like the logits
};

/// The ops that a device must know. The physics (sim/model) is written against this interface only.
/// Matrices are row-major; a linear map is stored as W [out, in]. All tensors of one op have one dtype.
/// Shapes are the caller's duty (checked by assertions); results never depend on the number of threads.
class Backend {
 public:
  Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;
  virtual ~Backend() = default;

  [[nodiscard]] virtual std::string_view name() const = 0;
  [[nodiscard]] virtual bool supports(DType dtype) const = 0;

  // -- storage ------------------------------------------------------------------------------------
  [[nodiscard]] virtual Tensor constant(Tensor::Index rows, Tensor::Index cols, DType dtype, double value) const = 0;
  /// Row-major values, rounded to dtype.
  [[nodiscard]] virtual Tensor from_host(Tensor::Index rows, Tensor::Index cols, DType dtype,
                                         std::span<const double> values) const = 0;
  /// Writes rows first … first + count − 1, row-major, into values.
  using FillRows = std::function<void(Tensor::Index first, Tensor::Index count, std::span<double> values)>;
  /// The same from a source that is asked for some rows at a time, in order: the host holds a piece of it.
  [[nodiscard]] virtual Tensor from_rows(Tensor::Index rows, Tensor::Index cols, DType dtype,
                                         const FillRows& fill) const = 0;
  [[nodiscard]] virtual std::vector<double> to_host(const Tensor& x) const = 0;

  // -- random -------------------------------------------------------------------------------------
  /// Independent N(0, stddev²): entry i is number i of the stream `key`, whatever the backend.
  [[nodiscard]] virtual Tensor normal(Tensor::Index rows, Tensor::Index cols, DType dtype, StreamKey key,
                                      double stddev) const = 0;

  // -- algebra ------------------------------------------------------------------------------------
  /// y = x Wᵀ: x [N, in], w [out, in] → [N, out].
  [[nodiscard]] virtual Tensor linear(const Tensor& x, const Tensor& w) const = 0;
  /// a·x + b·y, elementwise.
  [[nodiscard]] virtual Tensor axpby(double a, const Tensor& x, double b, const Tensor& y) const = 0;
  /// a·x.
  [[nodiscard]] virtual Tensor scale(double a, const Tensor& x) const = 0;
  /// x_ij + row_j: x [N, D], row [1, D].
  [[nodiscard]] virtual Tensor add_row(const Tensor& x, const Tensor& row) const = 0;
  /// Σ_i x_ij, accumulated in double: x [N, D] → [1, D]. The gradient of add_row's row.
  [[nodiscard]] virtual Tensor column_sums(const Tensor& x) const = 0;
  /// Rows `ids` of `table` [V, D] → [ids.size(), D].
  [[nodiscard]] virtual Tensor gather(const Tensor& table, std::span<const int> ids) const = 0;

  // -- transformer --------------------------------------------------------------------------------
  /// T2 on every row of x [N, groups·n], each of its `groups` parts by itself: y = gain ∘ x/√(mean(x²)+eps),
  /// LayerNorm: y = gain ∘ (x−mean)/√(var+eps) + bias. gain, bias [1, n]; bias may be empty.
  [[nodiscard]] virtual Tensor norm(NormKind kind, const Tensor& x, const Tensor& gain, const Tensor& bias, double eps,
                                    int groups = 1) const = 0;
  /// Rotary embedding, half-split form, on x [sequences·T, heads·e]: for position t and i < e/2 the pair
  /// (x_i, x_{i+e/2}) of every head turns by the angle t·frequencies[i].
  [[nodiscard]] virtual Tensor rope(const Tensor& x, int heads, int sequences,
                                    std::span<const double> frequencies) const = 0;
  /// softmax(z) v per sequence and head, z = q kᵀ/√head_dim or as ScoreRule says, masked to earlier tokens and
  /// itself if causal, and to the window.
  [[nodiscard]] virtual Attended attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                           const AttentionShape& shape) const = 0;
  /// φ(x): relu max(x,0), gelu x·Φ(x) with the error function, silu x/(1+e⁻ˣ),
  /// gelu_tanh x/(1+e^(−2u)) with u = √(2/π)(x + 0.044715x³).
  [[nodiscard]] virtual Tensor activate(Activation kind, const Tensor& x) const = 0;
  /// φ(gate) ∘ up.
  [[nodiscard]] virtual Tensor gated(Activation kind, const Tensor& gate, const Tensor& up) const = 0;

  /// cap·tanh(x/cap).
  [[nodiscard]] virtual Tensor soft_cap(double cap, const Tensor& x) const = 0;

  // -- gradients ----------------------------------------------------------------------------------
  // Each takes dy = ∂loss/∂y of the op that it is named after, and that op's inputs, and returns the
  // gradients of these. What the forward op computed on the way is computed again.

  /// dx = dy W: dy [N, out], w [out, in] → [N, in].
  [[nodiscard]] virtual Tensor linear_backward_input(const Tensor& dy, const Tensor& w) const = 0;
  /// dW = dyᵀ x: dy [N, out], x [N, in] → [out, in].
  [[nodiscard]] virtual Tensor linear_backward_weight(const Tensor& dy, const Tensor& x) const = 0;
  /// Gradient of gather: row v of the result is Σ_{t: ids[t] = v} dy_t. dy [ids.size(), D] → [rows, D].
  [[nodiscard]] virtual Tensor scatter_add(const Tensor& dy, std::span<const int> ids, Tensor::Index rows) const = 0;
  /// With x̂ the normalised part before gain and bias, s its rms (eps included) and g = gain ∘ dy:
  /// dx = (g − x̂·mean(g∘x̂))/s, LayerNorm: dx = (g − mean(g) − x̂·mean(g∘x̂))/s; dgain = Σ dy∘x̂, dbias = Σ dy.
  /// A part with s = 0 gives nothing to dx and dgain.
  [[nodiscard]] virtual NormGradient norm_backward(NormKind kind, const Tensor& x, const Tensor& gain, const Tensor& dy,
                                                   double eps, int groups = 1) const = 0;
  /// The inverse rotation of dy: rope with the angles negated.
  [[nodiscard]] virtual Tensor rope_backward(const Tensor& dy, int heads, int sequences,
                                             std::span<const double> frequencies) const = 0;
  /// With A the pattern of a head, dA = dy vᵀ and dz = A∘(dA − rowsum(A∘dA))·scale, under a soft cap times
  /// 1 − tanh²: dq = dz k, dk = dzᵀ q, dv = Aᵀ dy; dk and dv are sums over the query heads that share them.
  [[nodiscard]] virtual AttentionGradient attention_backward(const Tensor& q, const Tensor& k, const Tensor& v,
                                                             const Tensor& dy, const AttentionShape& shape) const = 0;
  /// φ'(x) ∘ dy: relu [x > 0], gelu Φ(x) + xΦ'(x), silu σ(x)(1 + x(1 − σ(x))) with σ(x) = 1/(1+e⁻ˣ),
  /// gelu_tanh σ(2u)(1 + 2x·u'(x)·(1 − σ(2u))).
  [[nodiscard]] virtual Tensor activate_backward(Activation kind, const Tensor& x, const Tensor& dy) const = 0;
  /// dgate = φ'(gate) ∘ up ∘ dy, dup = φ(gate) ∘ dy.
  [[nodiscard]] virtual GatedGradient gated_backward(Activation kind, const Tensor& gate, const Tensor& up,
                                                     const Tensor& dy) const = 0;
  /// dx = dy·(1 − tanh²(x/cap)).
  [[nodiscard]] virtual Tensor soft_cap_backward(double cap, const Tensor& x, const Tensor& dy) const = 0;
  /// Loss and its gradient in one: loss = −mean_t log p_t,labels[t], dlogits = (p − onehot)/N, with
  /// p = softmax over the columns of logits [N, V]. Labels are from 0 to V−1; rows with no_label take no part, and
  /// N is the number of those that do (0 rows: loss 0).
  [[nodiscard]] virtual CrossEntropy cross_entropy(const Tensor& logits, std::span<const int> labels) const = 0;

  // -- statistics ---------------------------------------------------------------------------------
  [[nodiscard]] virtual RowMoments row_moments(const Tensor& x) const = 0;
  /// Σ_j x_ij y_ij for every row i.
  [[nodiscard]] virtual std::vector<double> row_dots(const Tensor& x, const Tensor& y) const = 0;
  /// Cosine of two rows, mean over the pairs of distinct rows of one sequence, then over sequences:
  /// (‖Σ_t x_t/‖x_t‖‖² − T) / (T (T−1)). NaN for T = 1 or a zero row.
  [[nodiscard]] virtual double token_cosine(const Tensor& x, int sequences) const = 0;
  /// max_i |x_ij| for every column j; NaN counts as infinite.
  [[nodiscard]] virtual std::vector<double> column_maxima(const Tensor& x) const = 0;
  /// The `count` largest |x_ij|, in descending order (fewer if the tensor is smaller);
  /// NaN counts as infinite.
  [[nodiscard]] virtual std::vector<double> top_magnitudes(const Tensor& x, int count) const = 0;
  /// The `count` elements with the largest |x_ij|, in descending order, equal ones in the order of rows and columns
  /// (fewer if the tensor is smaller); NaN counts as infinite.
  [[nodiscard]] virtual std::vector<Entry> top_entries(const Tensor& x, int count) const = 0;
  /// The median of |x_ij| over all elements, of an even number the mean of the two in the middle; NaN counts as
  /// infinite.
  [[nodiscard]] virtual double median_magnitude(const Tensor& x) const = 0;
  /// −log p_t,labels[t] of every row of logits [N, V], p as in cross_entropy, accumulated in double; NaN for no_label.
  [[nodiscard]] virtual std::vector<double> token_losses(const Tensor& logits, std::span<const int> labels) const = 0;
};

}  // namespace periscope
