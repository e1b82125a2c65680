#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "sim/core/op.h"

namespace periscope {

/// Tensor operations on one device, used by sim/model. Matrices are row-major; a linear map is stored as W [out, in].
/// Results never depend on the number of threads. Output dtypes and accumulation: sim/core/op.h.
///
/// The public functions validate their arguments in every build: all tensors of an op are nonempty, have one dtype and
/// are on the device, and shapes, ids and labels are consistent. Violations are programming errors: they throw
/// std::invalid_argument with the op and the shapes. The functions allocate the outputs and call run(), which a
/// backend implements.
///
/// A Tensor passed by value may be overwritten with the result if the call is its only owner (a temporary, or after
/// std::move). Elementwise ops then need no second buffer. A shared tensor is never written to.
class Backend : public OpRunner<AllOps> {
 public:
  using Index = Tensor::Index;
  using FillRows = periscope::FillRows;

  [[nodiscard]] virtual std::string_view name() const = 0;
  /// The device that stores the backend's tensors.
  [[nodiscard]] virtual Device device() const = 0;
  [[nodiscard]] virtual bool supports(DType dtype) const = 0;

  // -- storage ------------------------------------------------------------------------------------
  [[nodiscard]] Tensor constant(Index rows, Index cols, DType dtype, double value) const;
  /// Creates a tensor from row-major values, rounded to dtype.
  [[nodiscard]] Tensor from_host(Index rows, Index cols, DType dtype, std::span<const double> values) const;
  /// Returns a tensor [rows, cols] filled by `fill`, which several threads may call for blocks of rows in any order.
  [[nodiscard]] Tensor from_rows(Index rows, Index cols, DType dtype, const FillRows& fill) const;
  [[nodiscard]] std::vector<double> to_host(const Tensor& x) const;
  /// Copies several tensors in one transfer.
  [[nodiscard]] std::vector<std::vector<double>> to_host(std::span<const Tensor> tensors) const;
  /// Draws independent N(0, stddev²) entries: entry i is number i of the stream `key`, on every backend.
  [[nodiscard]] Tensor normal(Index rows, Index cols, DType dtype, StreamKey key, double stddev) const;
  /// Rounds x to dtype.
  [[nodiscard]] Tensor cast(const Tensor& x, DType dtype) const;

  // -- algebra ------------------------------------------------------------------------------------
  // X_backward takes dy = ∂loss/∂y and the inputs of X. It recomputes intermediate results and returns the gradients.

  /// y = x Wᵀ: x [N, in], w [out, in] → [N, out].
  [[nodiscard]] Tensor linear(const Tensor& x, const Tensor& w) const;
  /// dx = dy W: dy [N, out], w [out, in] → [N, in].
  [[nodiscard]] Tensor linear_backward_input(const Tensor& dy, const Tensor& w) const;
  /// dW = dyᵀ x: dy [N, out], x [N, in] → [out, in].
  [[nodiscard]] Tensor linear_backward_weight(const Tensor& dy, const Tensor& x) const;
  /// ‖dyᵀ x‖_F², f64 [1, 1]: the squared norm of linear's weight gradient, possibly without forming the gradient.
  [[nodiscard]] Tensor linear_weight_square(const Tensor& dy, const Tensor& x) const;
  /// Like linear and linear_backward_input, with a random matrix w that is generated on the fly and not stored. The
  /// matrix equals the result of `normal` in the dtype of x or dy.
  [[nodiscard]] Tensor linear_drawn(const Tensor& x, const DrawnMatrix& w) const;
  [[nodiscard]] Tensor linear_drawn_backward_input(const Tensor& dy, const DrawnMatrix& w) const;
  /// a·x + b·y, elementwise.
  [[nodiscard]] Tensor axpby(double a, Tensor x, double b, Tensor y) const;
  [[nodiscard]] Tensor scale(double a, Tensor x) const;
  /// x ∘ y, elementwise.
  [[nodiscard]] Tensor multiply(Tensor x, Tensor y) const;
  /// x_ij + row_j: x [N, D], row [1, D].
  [[nodiscard]] Tensor add_row(Tensor x, const Tensor& row) const;
  /// Σ_i x_ij: x [N, D] → [1, D]. The gradient of add_row with respect to `row`, given dy = x.
  [[nodiscard]] Tensor column_sums(const Tensor& x) const;
  /// Rows `ids` of table [V, D] → [ids.size(), D].
  [[nodiscard]] Tensor gather(const Tensor& table, std::span<const int> ids) const;
  /// x with rows first … first + n − 1 replaced by `rows`: x [N, D], rows [n, D].
  [[nodiscard]] Tensor replace_rows(Tensor x, Index first, const Tensor& rows) const;
  /// Gradient of gather: row v of the result is Σ_{t: ids[t] = v} dy_t. dy [ids.size(), D] → [rows, D].
  [[nodiscard]] Tensor scatter_add(const Tensor& dy, std::span<const int> ids, Index rows) const;

  // -- factorisation ------------------------------------------------------------------------------
  /// Gram-Schmidt factorisation x = lower · basis of x [N, n]: row t of the basis is the normalised component of x_t
  /// orthogonal to rows 0 … t−1. A linearly dependent row (dependence_tolerance) gets a zero row in basis and a zero
  /// column in lower. Accumulated in double: basis · basisᵀ is diagonal with entries 1 and 0 up to rounding, even for
  /// nearly dependent rows. A non-finite row of x makes only that row of `lower` NaN.
  [[nodiscard]] RowBasis row_basis(const Tensor& x, bool with_basis = true) const;

  // -- activation ---------------------------------------------------------------------------------
  /// φ(x): relu max(x,0), gelu x·Φ(x) with the error function, silu x/(1+e⁻ˣ), sigmoid 1/(1+e⁻ˣ),
  /// gelu_tanh x/(1+e^(−2u)) with u = √(2/π)(x + 0.044715x³).
  [[nodiscard]] Tensor activate(Activation kind, Tensor x) const;
  /// φ'(x) ∘ dy: relu [x > 0], gelu Φ(x) + xΦ'(x), silu σ(x)(1 + x(1 − σ(x))) with σ(x) = 1/(1+e⁻ˣ),
  /// gelu_tanh σ(2u)(1 + 2x·u'(x)·(1 − σ(2u))), sigmoid σ(x)σ(−x).
  [[nodiscard]] Tensor activate_backward(Activation kind, Tensor x, const Tensor& dy) const;
  /// φ(gate) ∘ up.
  [[nodiscard]] Tensor gated(Activation kind, Tensor gate, const Tensor& up) const;
  /// dgate = φ'(gate) ∘ up ∘ dy, dup = φ(gate) ∘ dy.
  [[nodiscard]] GatedGradient gated_backward(Activation kind, const Tensor& gate, const Tensor& up,
                                             const Tensor& dy) const;
  /// cap·tanh(x/cap).
  [[nodiscard]] Tensor soft_cap(double cap, Tensor x) const;
  /// dx = dy·(1 − tanh²(x/cap)).
  [[nodiscard]] Tensor soft_cap_backward(double cap, Tensor x, const Tensor& dy) const;

  // -- norm ---------------------------------------------------------------------------------------
  /// Normalises each of the `groups` parts of every row of x [N, groups·n] (T2). RMSNorm: y = gain ∘ x/√(mean(x²)+eps);
  /// LayerNorm: y = gain ∘ (x−mean)/√(var+eps) + bias; L2: y = gain ∘ x/√(Σx²+eps); pointwise kinds:
  /// y = gain ∘ φ(αx) + bias, φ = tanh or erf, or y = gain ∘ x + bias without α (sim/spec/norm_kind.h).
  /// gain, bias [1, n], bias may be empty; alpha [1, 1], empty for kinds without α.
  [[nodiscard]] Tensor norm(NormKind kind, const Tensor& x, const Tensor& gain, const Tensor& bias, double eps,
                            int groups = 1, const Tensor& alpha = {}) const;
  /// With x̂ the normalised part before gain and bias, s the divisor of x (including eps) and g = gain ∘ dy:
  /// dx = (g − x̂·mean(g∘x̂))/s, LayerNorm: dx = (g − mean(g) − x̂·mean(g∘x̂))/s, L2: dx = (g − x̂·Σ(g∘x̂))/s;
  /// pointwise kinds: dx = α·φ'(αx)∘g, dalpha = Σ φ'(αx)∘x∘g. dgain = Σ dy∘x̂, dbias = Σ dy.
  /// A part with s = 0 has dx = 0 and adds 0 to dgain.
  [[nodiscard]] NormGradient norm_backward(NormKind kind, const Tensor& x, const Tensor& gain, const Tensor& dy,
                                           double eps, int groups = 1, const Tensor& alpha = {}) const;

  // -- attention ----------------------------------------------------------------------------------
  /// Rotary embedding (half-split form) of x [sequences·T, heads·e]: at position t, for i < e/2, rotates the pair
  /// (x_i, x_{i+e/2}) of every head by the angle t·frequencies[i]. The first token has position `offset`.
  [[nodiscard]] Tensor rope(const Tensor& x, int heads, int sequences, std::span<const double> frequencies,
                            Index offset = 0) const;
  /// The inverse rotation of dy: rope with the angles negated.
  [[nodiscard]] Tensor rope_backward(const Tensor& dy, int heads, int sequences,
                                     std::span<const double> frequencies) const;
  /// softmax(z) v per sequence and head, z = q kᵀ/√head_dim or as defined by ScoreRule. A causal query sees only itself
  /// and earlier tokens, and only within the window, if any. Keys and values that no query sees are not read.
  [[nodiscard]] AttentionOutput attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                          const AttentionShape& shape) const;
  /// With A = softmax(z), dA = dy vᵀ and dz = A∘(dA − rowsum(A∘dA))·scale, multiplied by 1 − tanh² if there is a soft
  /// cap: dq = dz k, dk = dzᵀ q, dv = Aᵀ dy. dk and dv are summed over the query heads that share a key/value head.
  /// Requires offset 0 and K = T.
  [[nodiscard]] AttentionGradient attention_backward(const Tensor& q, const Tensor& k, const Tensor& v,
                                                     const Tensor& dy, const AttentionShape& shape) const;

  // -- loss ---------------------------------------------------------------------------------------
  /// Loss and gradient: loss = −mean_t log p_t,labels[t], dlogits = (p − onehot)/N, with p = softmax over the columns
  /// of logits [·, V]. Labels: 0 … V−1, or no_label to ignore a row. N counts the other rows; the loss is 0 for N = 0.
  [[nodiscard]] CrossEntropy cross_entropy(const Tensor& logits, std::span<const int> labels) const;
  /// −log p_t,labels[t] of every row of logits [N, V], p as in cross_entropy, accumulated in double; NaN for no_label.
  [[nodiscard]] std::vector<double> token_losses(const Tensor& logits, std::span<const int> labels) const;

  // -- update -------------------------------------------------------------------------------------
  /// With g = gradient_scale · gradient and t = step: mean ← β₁·mean + (1 − β₁)·g, square ← β₂·square + (1 − β₂)·g²,
  /// parameter ← (1 − decay)·parameter − rate · (mean/(1 − β₁ᵗ)) / (√(square/(1 − β₂ᵗ)) + eps).
  [[nodiscard]] AdamState adamw(AdamState state, const Tensor& gradient, const AdamRule& rule) const;

  // -- statistics ---------------------------------------------------------------------------------
  /// Returns the requested statistics as an f64 tensor [1, n] in the order of StatisticsLayout, on the device
  /// (StatisticsRecord collects them). The functions below copy their results to the host.
  [[nodiscard]] Tensor measure(const Tensor& x, const StatisticsRequest& request) const;
  [[nodiscard]] SignalStatistics statistics_of(const Tensor& x, const StatisticsRequest& request) const;
  [[nodiscard]] RowMoments row_moments(const Tensor& x) const;
  /// Σ_j x_ij y_ij for every row i.
  [[nodiscard]] std::vector<double> row_dots(const Tensor& x, const Tensor& y) const;
  [[nodiscard]] std::vector<double> column_maxima(const Tensor& x) const;

 protected:
  /// Returns a tensor with undefined contents.
  [[nodiscard]] virtual Tensor do_allocate(Index rows, Index cols, DType dtype) const = 0;
  /// Called by `perform`, for profiles.
  virtual void before(const OpFacts& /*op*/) const {}
  /// Runs an op; to be used in place of `run` by functions that run other ops.
  template <class Op>
  void perform(const Op& op) const {
    before(Op::facts);
    run(op);
  }

 private:
  /// Runs an op with these arguments and `output`, which it returns.
  template <class Op, class Output, class... Arguments>
  [[nodiscard]] Output run_into(Output output, const Arguments&... arguments) const {
    perform(Op{arguments..., output});
    return output;
  }
  [[nodiscard]] Tensor like(const Tensor& x) const { return do_allocate(x.rows(), x.cols(), x.dtype()); }
  /// Returns x if its buffer is not shared, else a new tensor like x.
  [[nodiscard]] Tensor reused_or_like(const Tensor& x) const;
  [[nodiscard]] Tensor allocate_checked(const OpFacts& op, Index rows, Index cols, DType dtype) const;
};

}  // namespace periscope
