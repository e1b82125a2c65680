#pragma once

#include <vector>

#include "theory/attention/attention_head.h"

namespace periscope::theory {

/// A sampled pattern A and its products with U, the `unit` of the centred kernel of the values, all [T, T].
struct SampledPattern {
  Sample a;              ///< A
  Sample times_k;        ///< A·unit
  Sample output_kernel;  ///< A·unit·Aᵀ
};

/// Score path of the backward pass (T9), summed over sampled heads: E⟨dq_t, dq_t'⟩ and E⟨dk_t, dk_t'⟩ given the pattern
/// A, for e = head_dim features: values of covariance K, output gradients of covariance G. The pattern's gradient m has
/// Cov(m_ts, m_t's') = e·G_tt' K_ss'. Let z' = ∂z/∂(q kᵀ) (logit scale times the derivative of a soft cap), B = z'∘A,
/// dz = B∘(m − row means under A), κ_k = k kᵀ, κ_q = q qᵀ after QK-norm and RoPE, P = A K, M = A K Aᵀ, W = G∘κ_q:
///   query: e·G∘[B(K∘κ_k)Bᵀ − B(P∘Bκ_k)ᵀ − (P∘Bκ_k)Bᵀ + M∘(B κ_k Bᵀ)]
///   key:   e·[(BᵀWB)∘K − Bᵀ((WB)∘P) − ((WB)∘P)ᵀB + Bᵀ(W∘M)B]
/// With QK-norm, entry (t, t') is divided by the rms of tokens t and t'. These formulas omit the last two steps: the
/// inverse rotation of RoPE, which mixes features by frequency, and the projection of QK-norm. Their effect is small
/// compared with the noise of the patterns and is sampled: outer products of a drawn dq or dk are computed with and
/// without them, and the difference is added. For queries only values are drawn, m = g vᵀ, as G is a factor of the sum.
class ScorePathSum {
 public:
  /// `input`: kernel of the values; `values`: the same kernel, centred; `cotangents`: kernel of the output gradients.
  /// All arguments must outlive this object.
  ScorePathSum(const PatternLaw& law, const AttentionHead& head, const ScaledKernel& input, const CentredKernel& values,
               const ScaledKernel& cotangents);

  /// Adds the patterns of one sampled head: a single pattern or an antithetic pair.
  void add(const HeadSample& head, const std::vector<SampledPattern>& patterns, NormalStream& numbers);

  /// Completes the sums. Call once, after all patterns have been added.
  void finish();
  /// Sums over all patterns, in units of e times the scales of the two kernels [T, T].
  [[nodiscard]] Sample query() const { return cotangents_.unit.cwiseProduct(query_); }
  [[nodiscard]] const Sample& key() const { return key_; }

 private:
  void add_closed_form(const HeadSample& head, const SampledPattern& pattern);
  void add_projection_correction(const HeadSample& head, const Sample& a, float weight, NormalStream& numbers);

  const PatternLaw& law_;
  const AttentionHead& head_;
  const CentredKernel& values_;
  const ScaledKernel& cotangents_;
  bool needs_correction_;
  Sample value_factor_;  // F with F Fᵀ = values_.unit
  // `finish` adds half_of_* and their transposes. Until then query_ and key_ hold the other terms, lower triangle only.
  Sample query_, key_, half_of_query_, half_of_key_;
  // Per-head values and work space.
  Sample logit_derivative_, b_, kappa_, values_kappa_, w_, difference_, left_, right_, work_, product_;
};

}  // namespace periscope::theory
