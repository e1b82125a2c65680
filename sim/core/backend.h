#pragma once

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
};

/// Statistics of every row of a tensor [N, D], accumulated in double, two-pass.
struct RowMoments {
  std::vector<double> mean;           ///< Σx/D
  std::vector<double> second_moment;  ///< Σx²/D
  std::vector<double> variance;       ///< Σ(x−mean)²/D
  std::vector<double> kurtosis;       ///< D Σ(x−mean)⁴ / (Σ(x−mean)²)²
  std::vector<double> maximum;        ///< max |x|
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
  /// Rows `ids` of `table` [V, D] → [ids.size(), D].
  [[nodiscard]] virtual Tensor gather(const Tensor& table, std::span<const int> ids) const = 0;

  // -- transformer --------------------------------------------------------------------------------
  /// T2 on every row of x [N, groups·n], each of its `groups` parts by itself: y = gain ∘ x/√(mean(x²)+eps),
  /// LayerNorm: y = gain ∘ (x−mean)/√(var+eps) + bias. gain, bias [1, n]; bias may be empty.
  [[nodiscard]] virtual Tensor norm(NormKind kind, const Tensor& x, const Tensor& gain, const Tensor& bias, double eps,
                                    int groups = 1) const = 0;
  /// Rotary embedding, half-split form, on x [sequences·T, heads·e]: for position t and i < e/2 the pair
  /// (x_i, x_{i+e/2}) of every head turns by the angle t·base^(−2i/e).
  [[nodiscard]] virtual Tensor rope(const Tensor& x, int heads, int sequences, double base) const = 0;
  /// softmax(q kᵀ/√head_dim) v per sequence and head, masked to earlier tokens and itself if causal.
  /// → [N, heads·head_dim].
  [[nodiscard]] virtual Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                         const AttentionShape& shape) const = 0;
  /// φ(x): relu max(x,0), gelu x·Φ(x) with the error function, silu x/(1+e⁻ˣ).
  [[nodiscard]] virtual Tensor activate(Activation kind, const Tensor& x) const = 0;
  /// φ(gate) ∘ up.
  [[nodiscard]] virtual Tensor gated(Activation kind, const Tensor& gate, const Tensor& up) const = 0;

  // -- statistics ---------------------------------------------------------------------------------
  [[nodiscard]] virtual RowMoments row_moments(const Tensor& x) const = 0;
  /// Σ_j x_ij y_ij for every row i.
  [[nodiscard]] virtual std::vector<double> row_dots(const Tensor& x, const Tensor& y) const = 0;
  /// Cosine of two rows, mean over the pairs of distinct rows of one sequence, then over sequences:
  /// (‖Σ_t x_t/‖x_t‖‖² − T) / (T (T−1)). NaN for T = 1 or a zero row.
  [[nodiscard]] virtual double token_cosine(const Tensor& x, int sequences) const = 0;
  /// The `count` largest |x_ij|, in descending order (fewer if the tensor is smaller);
  /// NaN counts as infinite.
  [[nodiscard]] virtual std::vector<double> top_magnitudes(const Tensor& x, int count) const = 0;
};

}  // namespace periscope
