#pragma once

#include <vector>

#include "theory/attention/attention_head.h"

namespace periscope::theory {

/// A sampled pattern and its products with the kernel of the values, all [T, T].
struct SampledPattern {
  Sample a;              ///< A
  Sample times_k;        ///< A·unit
  Sample output_kernel;  ///< A·unit·Aᵀ, `unit` of the centred kernel
};

/// T9's score path, summed over sampled heads: E⟨dq_t, dq_t'⟩ and E⟨dk_t, dk_t'⟩ given the head's pattern A, for values
/// of covariance K and output gradients of covariance G, so that the gradient m of the pattern has
/// Cov(m_ts, m_t's') = e·G_tt' K_ss'. With B = z'∘A (z' = ∂z/∂(q kᵀ): the factor on q·k times a soft cap's derivative),
/// dz = B∘(m − rows' means under A), κ_k = k kᵀ, κ_q = q qᵀ of what enters the logits, P = A K, M = A K Aᵀ, W = G∘κ_q:
///   query: e·G∘[B(K∘κ_k)Bᵀ − B(P∘Bκ_k)ᵀ − (P∘Bκ_k)Bᵀ + M∘(B κ_k Bᵀ)]
///   key:   e·[(BᵀWB)∘K − Bᵀ((WB)∘P) − ((WB)∘P)ᵀB + Bᵀ(W∘M)B]
/// and QK-norm divides by the rms of the two tokens. That is exact but for what comes last in the backward pass to the
/// projections: RoPE's inverse rotation, which turns every frequency's part of an off-diagonal entry by an angle of its
/// own, and QK-norm's projection. Their effect, small beside the noise of the patterns, is sampled: the outer products
/// of a drawn dq and dk with and without them, and the difference is added. For queries it is enough to draw values,
/// m = g vᵀ, because G stays in front.
class ScorePathSum {
 public:
  /// The input's kernel, the same centred, and that of the output gradients; all must outlive the sum.
  ScorePathSum(const PatternLaw& law, const AttentionHead& head, const ScaledKernel& input, const CentredKernel& values,
               const ScaledKernel& cotangents);

  /// Adds the patterns of one head's logits: one, or two with those of −logits.
  void add(const HeadSample& head, const std::vector<SampledPattern>& patterns, NormalStream& numbers);

  /// Completes the sums, once, when all patterns have been added.
  void finish();
  /// The sums over all patterns, in units of e and of the scales of both kernels [T, T].
  [[nodiscard]] Sample query() const { return cotangents_.unit.cwiseProduct(query_); }
  [[nodiscard]] const Sample& key() const { return key_; }

 private:
  void add_closed_form(const HeadSample& head, const SampledPattern& pattern);
  void add_last_steps(const HeadSample& head, const Sample& a, float weight, NormalStream& numbers);

  const PatternLaw& law_;
  const AttentionHead& head_;
  const CentredKernel& values_;
  const ScaledKernel& cotangents_;
  bool samples_last_steps_;
  Sample value_factor_;  // F with F Fᵀ = values_.unit
  // Until `finish`, lower triangles, and what is to be added together with its transpose.
  Sample query_, key_, half_of_query_, half_of_key_;
  // Of one head, and work space.
  Sample logit_derivative_, b_, kappa_, values_kappa_, w_, difference_, left_, right_, work_, product_;
};

}  // namespace periscope::theory
