#include "theory/first_steps/attention_heads.h"

#include <cmath>
#include <limits>
#include <numeric>

#include "sim/numerics/exact_sqrt.h"

namespace periscope::theory {

SequenceAttention::SequenceAttention(const ModelSpec& model, int layer, Index sequence)
    : model_(model),
      qk_norm_(model.qk_norm_at(layer)),
      head_dim_(model.head_dim_at(layer)),
      rule_(model.scores_at(layer)),
      sequence_(sequence) {
  scale_ = rule_.scale != 0.0 ? rule_.scale : 1.0 / std::sqrt(static_cast<double>(head_dim_));
  if (!model.rope) return;
  std::vector<Index> positions(static_cast<std::size_t>(sequence));
  std::iota(positions.begin(), positions.end(), Index{0});
  rotation_ = Rotation(positions, model.rope_frequencies_at(layer), model.rope_gains_at(layer));
}

Sampled SequenceAttention::rotate(const Sampled& x, float direction) const {
  Sampled y(x.rows(), x.cols());
  for (Index first = 0; first < x.rows(); first += sequence_) {
    y.middleRows(first, sequence_) = rotation_.rotate(x.middleRows(first, sequence_), direction);
  }
  return y;
}

SequenceAttention::Rotated SequenceAttention::rotated(const Sampled& projection, const Eigen::VectorXf& others,
                                                      int heads) const {
  Rotated r{.rotated = {}, .normalised = projection, .inverse = {}};
  if (qk_norm_ != QkNorm::none) {
    const auto rest = static_cast<float>(qk_norm_ == QkNorm::full ? heads - 1 : 0);
    Eigen::VectorXf square = projection.rowwise().squaredNorm() / static_cast<float>(head_dim_);
    square = (square + rest * others) / (1.0F + rest);
    r.inverse = (square.array() + static_cast<float>(model_.norm_eps)).unaryExpr(exact_sqrt).inverse();
    r.normalised = r.inverse.asDiagonal() * projection;
  }
  r.rotated = model_.rope ? rotate(r.normalised, 1.0F) : r.normalised;
  return r;
}

Sampled SequenceAttention::backward(const Rotated& forward, const Sampled& gradient, int heads) const {
  Sampled g = model_.rope ? rotate(gradient, -1.0F) : gradient;
  if (qk_norm_ == QkNorm::none) return g;
  const auto features = static_cast<float>(head_dim_ * (qk_norm_ == QkNorm::full ? heads : 1));
  const Eigen::VectorXf along = g.cwiseProduct(forward.normalised).rowwise().sum() / features;
  g -= along.asDiagonal() * forward.normalised;
  return forward.inverse.asDiagonal() * g;
}

SequenceAttention::Scores SequenceAttention::scores(const Sampled& q, const Sampled& k) const {
  Scores result;
  constexpr float none = -std::numeric_limits<float>::infinity();
  const auto cap = static_cast<float>(rule_.soft_cap);
  for (Index first = 0; first < q.rows(); first += sequence_) {
    Sampled z =
        static_cast<float>(scale_) * (q.middleRows(first, sequence_) * k.middleRows(first, sequence_).transpose());
    if (rule_.soft_cap > 0.0) {
      z = (z / cap).array().tanh();
      result.derivative.emplace_back(static_cast<float>(scale_) * (1.0F - z.array().square()));
      z *= cap;
    }
    for (Index s = 0; s < sequence_; ++s) {
      if (model_.causal) z.col(s).head(s).setConstant(none);
      if (rule_.window > 0 && s + rule_.window < sequence_) {
        z.col(s).tail(sequence_ - s - rule_.window).setConstant(none);
      }
    }
    z.colwise() -= z.rowwise().maxCoeff().eval();
    z = (z.array() < -80.0F).select(0.0F, z.array().max(-80.0F).exp());
    z.array().colwise() /= z.rowwise().sum().array().eval();
    result.pattern.push_back(std::move(z));
  }
  return result;
}

Sampled SequenceAttention::mixed(const Patterns& a, const Sampled& x) const {
  Sampled y(x.rows(), x.cols());
  for (Index first = 0; first < x.rows(); first += sequence_) {
    y.middleRows(first, sequence_).noalias() =
        a[static_cast<std::size_t>(first / sequence_)] * x.middleRows(first, sequence_);
  }
  return y;
}

Sampled SequenceAttention::mixed_transposed(const Patterns& a, const Sampled& x) const {
  Sampled y(x.rows(), x.cols());
  for (Index first = 0; first < x.rows(); first += sequence_) {
    y.middleRows(first, sequence_).noalias() =
        a[static_cast<std::size_t>(first / sequence_)].transpose() * x.middleRows(first, sequence_);
  }
  return y;
}

SequenceAttention::Patterns SequenceAttention::score_gradient(const Scores& scores, const Sampled& output_gradient,
                                                              const Sampled& v) const {
  Patterns result;
  for (Index first = 0; first < output_gradient.rows(); first += sequence_) {
    const auto i = static_cast<std::size_t>(first / sequence_);
    const Sampled& a = scores.pattern[i];
    Sampled g = output_gradient.middleRows(first, sequence_) * v.middleRows(first, sequence_).transpose();
    const Eigen::VectorXf mean = a.cwiseProduct(g).rowwise().sum();
    g = a.cwiseProduct(g.colwise() - mean);
    if (scores.derivative.empty()) {
      g *= static_cast<float>(scale_);
    } else {
      g = g.cwiseProduct(scores.derivative[i]);
    }
    result.push_back(std::move(g));
  }
  return result;
}

}  // namespace periscope::theory
