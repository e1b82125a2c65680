#include "theory/predict/score_path.h"

#include "theory/predict/pattern_products.h"

namespace periscope::theory {
namespace {

using Index = Eigen::Index;

/// x + weight·(d dᵀ), of which only the lower triangle is kept.
void add_outer(Sample& x, const Sample& d, float weight) { x.selfadjointView<Eigen::Lower>().rankUpdate(d, weight); }

/// x with its rows divided by what QK-norm divided by.
Sample divided(const Projection& p, Sample x) {
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
      samples_last_steps_(law.rope || law.qk_norm != QkNorm::none) {
  const Index tokens = values.unit.rows();
  query_ = key_ = Sample::Zero(tokens, tokens);
  if (samples_last_steps_) value_factor_ = input.unit_factor.rowwise() - input.unit_factor.colwise().mean();
}

void ScorePathSum::add(const HeadSample& head, const std::vector<SampledPattern>& patterns, NormalStream& numbers) {
  const Sample& q = head.query.rotated;
  const Sample& k = head.key.rotated;
  const Index tokens = q.rows();
  const bool capped = law_.scores.soft_cap > 0.0;
  if (capped) logit_derivative_ = head_.logit_derivative(head);
  kappa_.setZero(tokens, tokens);
  add_outer(kappa_, q, 1.0F);
  mirror_lower(kappa_);
  w_ = cotangents_.unit.cwiseProduct(kappa_);
  kappa_.setZero();
  add_outer(kappa_, k, 1.0F);
  mirror_lower(kappa_);
  values_kappa_ = values_.unit.cwiseProduct(kappa_);
  of_query_.setZero(tokens, tokens);
  of_key_.setZero(tokens, tokens);
  half_of_query_.setZero(tokens, tokens);
  half_of_key_.setZero(tokens, tokens);
  for (const SampledPattern& pattern : patterns) {
    if (capped) {
      b_ = pattern.a.cwiseProduct(logit_derivative_);
    } else {
      b_ = static_cast<float>(law_.scale()) * pattern.a;
    }
    add_closed_form(pattern);
    if (samples_last_steps_ && &pattern == &patterns.front()) {
      add_last_steps(head, pattern.a, static_cast<float>(patterns.size()), numbers);
    }
  }
  of_query_ += half_of_query_ + half_of_query_.transpose();
  of_key_ += half_of_key_ + half_of_key_.transpose();
  if (law_.qk_norm != QkNorm::none) {
    divide_both(head.query, of_query_);
    divide_both(head.key, of_key_);
  }
  query_ += of_query_;
  key_ += of_key_;
}

void ScorePathSum::add_closed_form(const SampledPattern& pattern) {
  const bool causal = law_.causal;
  pattern_times(b_, kappa_, causal, left_);  // Bκ
  symmetric_times_transposed_pattern(left_, b_, causal, product_);
  of_query_ += pattern.output_kernel.cwiseProduct(product_);
  times_transposed_pattern(values_kappa_, b_, causal, work_);
  work_ = 0.5F * work_ - pattern.times_k.cwiseProduct(left_).transpose();
  pattern_times(b_, work_, causal, product_);
  half_of_query_ += product_;

  times_pattern(w_, b_, causal, left_);  // WB
  symmetric_transposed_pattern_times(b_, left_, causal, product_);
  of_key_ += values_.unit.cwiseProduct(product_);
  times_pattern(w_.cwiseProduct(pattern.output_kernel), b_, causal, work_);
  work_ = 0.5F * work_ - left_.cwiseProduct(pattern.times_k);
  transposed_pattern_times(b_, work_, causal, product_);
  half_of_key_ += product_;
}

void ScorePathSum::add_last_steps(const HeadSample& head, const Sample& a, float weight, NormalStream& numbers) {
  const Sample& q = head.query.rotated;
  const Sample& k = head.key.rotated;
  const Index tokens = q.rows();
  const bool causal = law_.causal;
  const auto add_difference = [&](const Projection& p, const Sample& gradient, int heads, Sample& sum) {
    difference_.setZero(tokens, tokens);
    add_outer(difference_, head_.pull_back(p, gradient, heads), weight);
    add_outer(difference_, law_.qk_norm == QkNorm::none ? gradient : divided(p, gradient), -weight);
    mirror_lower(difference_);
    sum += difference_;
  };
  // m = g vᵀ: dq_t = g_t [Σ_s B_ts v_s k_s − (A v)_t Σ_s B_ts k_s]
  const Eigen::VectorXf v = value_factor_ * numbers.signs_float(value_factor_.cols(), 1);
  pattern_times(b_, k, causal, left_);
  pattern_times(b_, v.asDiagonal() * k, causal, work_);
  work_ -= (a * v).asDiagonal() * left_;
  add_difference(head.query, work_, law_.query_heads, query_);
  // m whole: dk = dzᵀ q
  pattern_times(cotangents_.unit_factor, numbers.signs_float(cotangents_.unit_factor.cols(), value_factor_.cols()),
                cotangents_.triangular, work_);
  times_transposed_below(work_, value_factor_, causal, product_);
  const Eigen::VectorXf mean = a.cwiseProduct(product_).rowwise().sum();
  work_ = b_.cwiseProduct(product_.colwise() - mean);
  transposed_pattern_times(work_, q, causal, left_);
  add_difference(head.key, left_, law_.key_heads, key_);
}

}  // namespace periscope::theory
