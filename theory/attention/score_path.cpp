#include "theory/attention/score_path.h"

#include <utility>

#include "theory/attention/pattern_products.h"

namespace periscope::theory {
namespace {

/// Divides rows of x by the rms of QK-norm.
Sample divided_by_rms(const Projection& p, Sample x) {
  for (Index t = 0; t < x.rows(); ++t) {
    if (p.rms(t) > 0) x.row(t) /= p.rms(t);
  }
  return x;
}

void divide_both(const Projection& p, Sample& x) {
  const Eigen::VectorXf inverse = p.rms.unaryExpr([](float r) { return r > 0 ? 1.0F / r : 1.0F; });
  x = inverse.asDiagonal() * x * inverse.asDiagonal();
}

}  // namespace

ScorePathSum::ScorePathSum(const PatternLaw& law, const AttentionHead& head, const ScaledKernel& input,
                           const CentredKernel& values, const ScaledKernel& cotangents)
    : law_(law),
      head_(head),
      values_(values),
      cotangents_(cotangents),
      needs_correction_(law.rope || law.qk_norm != QkNorm::none) {
  const Index tokens = values.unit.rows();
  query_ = key_ = half_of_query_ = half_of_key_ = Sample::Zero(tokens, tokens);
  if (needs_correction_) value_factor_ = input.unit_factor.rowwise() - input.unit_factor.colwise().mean();
}

void ScorePathSum::add(const HeadSample& head, const std::vector<SampledPattern>& patterns, NormalStream& numbers) {
  const Sample& q = head.query.rotated;
  const Sample& k = head.key.rotated;
  const bool capped = law_.scores.soft_cap > 0.0;
  if (capped) logit_derivative_ = head_.logit_derivative(head);
  symmetric_product_into(kappa_, factor_of(q), transposed(factor_of(q)));
  w_ = cotangents_.unit.cwiseProduct(kappa_);
  symmetric_product_into(kappa_, factor_of(k), transposed(factor_of(k)));
  values_kappa_ = values_.unit.cwiseProduct(kappa_);
  for (const SampledPattern& pattern : patterns) {
    if (capped) {
      b_ = pattern.a.cwiseProduct(logit_derivative_);
    } else {
      b_ = static_cast<float>(law_.scale()) * pattern.a;
    }
    add_closed_form(head, pattern);
    if (needs_correction_ && &pattern == &patterns.front()) {
      add_projection_correction(head, pattern.a, static_cast<float>(patterns.size()), numbers);
    }
  }
}

void ScorePathSum::finish() {
  for (auto [sum, half] : {std::pair(&query_, &half_of_query_), std::pair(&key_, &half_of_key_)}) {
    for (Index t = 0; t < sum->cols(); ++t) sum->col(t) += half->col(t) + half->row(t).transpose();
    mirror_lower(*sum);
  }
}

void ScorePathSum::add_closed_form(const HeadSample& head, const SampledPattern& pattern) {
  const FloatFactor b = factor_of(b_, law_.causal);
  const auto add = [&](const Projection& p, Sample& x, Sample& sum) {
    if (law_.qk_norm != QkNorm::none) divide_both(p, x);
    sum += x;
  };
  product_into(left_, b, factor_of(kappa_));  // Bκ
  product_into(product_, factor_of(left_), transposed(b), true);
  product_ = product_.cwiseProduct(pattern.output_kernel);
  add(head.query, product_, query_);
  product_into(work_, factor_of(values_kappa_), transposed(b));
  work_ = 0.5F * work_ - pattern.times_k.cwiseProduct(left_).transpose();
  product_into(product_, b, factor_of(work_));
  add(head.query, product_, half_of_query_);

  product_into(left_, factor_of(w_), b);  // WB
  product_into(product_, transposed(b), factor_of(left_), true);
  product_ = product_.cwiseProduct(values_.unit);
  add(head.key, product_, key_);
  right_ = w_.cwiseProduct(pattern.output_kernel);
  product_into(work_, factor_of(right_), b);
  work_ = 0.5F * work_ - left_.cwiseProduct(pattern.times_k);
  product_into(product_, transposed(b), factor_of(work_));
  add(head.key, product_, half_of_key_);
}

void ScorePathSum::add_projection_correction(const HeadSample& head, const Sample& a, float weight,
                                             NormalStream& numbers) {
  const Sample& q = head.query.rotated;
  const Sample& k = head.key.rotated;
  const Index tokens = q.rows();
  const FloatFactor b = factor_of(b_, law_.causal);
  const auto add_difference = [&](const Projection& p, const Sample& gradient, int heads, Sample& sum) {
    difference_.setZero(tokens, tokens);
    add_outer(difference_, head_.pull_back(p, gradient, heads), weight);
    add_outer(difference_, law_.qk_norm == QkNorm::none ? gradient : divided_by_rms(p, gradient), -weight);
    sum += difference_;
  };
  // m = g vᵀ: dq_t = g_t [Σ_s B_ts v_s k_s − (A v)_t Σ_s B_ts k_s]
  const Eigen::VectorXf v = value_factor_ * numbers.signs_float(value_factor_.cols(), 1);
  product_into(left_, b, factor_of(k));
  right_ = v.asDiagonal() * k;
  product_into(work_, b, factor_of(right_));
  work_ -= (a * v).asDiagonal() * left_;
  add_difference(head.query, work_, law_.query.heads, query_);
  // With m sampled as a matrix: dk = dzᵀ q
  product_into(work_, factor_of(cotangents_.unit_factor, cotangents_.triangular),
               factor_of(numbers.signs_float(cotangents_.unit_factor.cols(), value_factor_.cols())));
  product_into(product_, factor_of(work_), transposed(factor_of(value_factor_)), law_.causal);
  const Eigen::VectorXf mean = a.cwiseProduct(product_).rowwise().sum();
  work_ = b_.cwiseProduct(product_.colwise() - mean);
  product_into(left_, transposed(factor_of(work_, law_.causal)), factor_of(q));
  add_difference(head.key, left_, law_.key.heads, key_);
}

}  // namespace periscope::theory
