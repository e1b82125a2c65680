#include "theory/attention_head.h"

#include <Eigen/Cholesky>
#include <algorithm>
#include <boost/random/normal_distribution.hpp>
#include <cmath>

namespace periscope::theory {
namespace {

using Index = Eigen::Index;

/// Turns every row by its position's angles; `direction` −1 turns back.
Sample turned(const Sample& x, const Sample& cos, const Sample& sin, float direction) {
  const Index half = cos.cols();
  Sample y(x.rows(), x.cols());
  y.leftCols(half) = x.leftCols(half).cwiseProduct(cos) - direction * x.rightCols(half).cwiseProduct(sin);
  y.rightCols(half) = x.rightCols(half).cwiseProduct(cos) + direction * x.leftCols(half).cwiseProduct(sin);
  return y;
}

}  // namespace

double PatternLaw::scale() const {
  return scores.scale != 0.0 ? scores.scale : 1.0 / std::sqrt(static_cast<double>(head_dim));
}

Index PatternLaw::first_seen(Index t) const {
  return scores.window > 0 ? std::max<Index>(0, t - scores.window + 1) : 0;
}

PatternEngine engine_of(PatternStream stream) {
  return PatternEngine(r123::Threefry4x64::ukey_type{{stream.seed, stream.replicate, stream.sublayer, 0}});
}

Sample white_noise(PatternEngine& engine, Index rows, Index cols) {
  boost::random::normal_distribution<float> unit;
  Sample white(rows, cols);
  for (float& z : white.reshaped()) z = unit(engine);
  return white;
}

Matrix factor(const Matrix& k) {
  const Eigen::LDLT<Matrix> ldlt(k);
  Matrix f = ldlt.matrixL();
  f *= ldlt.vectorD().cwiseMax(0.0).cwiseSqrt().asDiagonal();
  return ldlt.transpositionsP().transpose() * f;
}

ScaledKernel::ScaledKernel(const Matrix& k) : scale(k.diagonal().maxCoeff()) {
  if (!(scale > 0.0) || !std::isfinite(scale)) scale = 1.0;  // a vanished or overflowed signal passes as it is
  const Matrix scaled = k / scale;
  unit = scaled.cast<float>();
  unit_factor = factor(scaled).cast<float>();
}

AttentionHead::AttentionHead(const PatternLaw& law, Index tokens) : law_(law) {
  if (!law.rope) return;
  const int half = law.head_dim / 2;
  const std::vector<double> frequencies =
      law.rope_frequencies.empty() ? rope_frequencies(law.head_dim, rope_base) : law.rope_frequencies;
  cos_.resize(tokens, half);
  sin_.resize(tokens, half);
  for (int i = 0; i < half; ++i) {
    const double frequency = frequencies[static_cast<std::size_t>(i)];
    for (Index t = 0; t < tokens; ++t) {
      cos_(t, i) = static_cast<float>(std::cos(static_cast<double>(t) * frequency));
      sin_(t, i) = static_cast<float>(std::sin(static_cast<double>(t) * frequency));
    }
  }
}

// QK-norm over the whole projection: the other heads enter by their mean, they are many and independent.
Projection AttentionHead::draw(PatternEngine& engine, const ScaledKernel& k, double variance, int heads) const {
  const Index tokens = k.unit.rows();
  // Far beyond 1e12 the softmax picks one token whatever the scale, and float would overflow.
  const double spread = std::min(std::sqrt(variance * k.scale), 1e12);
  Projection p{.rotated = {},
               .normalised = static_cast<float>(spread) * (k.unit_factor * white_noise(engine, tokens, law_.head_dim)),
               .rms = Eigen::VectorXf::Ones(tokens)};
  if (law_.qk_norm != QkNorm::none) {
    const double others = law_.qk_norm == QkNorm::full ? heads - 1 : 0;
    for (Index t = 0; t < tokens; ++t) {
      const double own = p.normalised.row(t).squaredNorm() / static_cast<float>(law_.head_dim);
      const double expected = spread * spread * k.unit(t, t);
      p.rms(t) = static_cast<float>(std::sqrt((own + others * expected) / (1 + others) + law_.norm_eps));
      if (p.rms(t) > 0) p.normalised.row(t) /= p.rms(t);
    }
  }
  p.rotated = law_.rope ? turned(p.normalised, cos_, sin_, 1.0F) : p.normalised;
  return p;
}

Projection AttentionHead::draw_query(PatternEngine& engine, const ScaledKernel& k) const {
  return draw(engine, k, law_.query_variance, law_.query_heads);
}

Projection AttentionHead::draw_key(PatternEngine& engine, const ScaledKernel& k) const {
  return draw(engine, k, law_.key_variance, law_.key_heads);
}

Sample AttentionHead::pattern(const Projection& query, const Projection& key) const {
  Sample z = static_cast<float>(law_.scale()) * query.rotated * key.rotated.transpose();
  if (law_.scores.soft_cap > 0.0) {
    const auto cap = static_cast<float>(law_.scores.soft_cap);
    z = cap * (z / cap).array().tanh().matrix();
  }
  const Index tokens = z.rows();
  for (Index t = 0; t < tokens; ++t) {
    const Index first = law_.first_seen(t);
    const Index end = law_.causal ? t + 1 : tokens;
    auto seen = z.row(t).segment(first, end - first).array();
    seen = (seen - seen.maxCoeff()).exp();
    seen /= seen.sum();
    z.row(t).head(first).setZero();
    z.row(t).tail(tokens - end).setZero();
  }
  return z;
}

Sample AttentionHead::logit_slope(const Projection& query, const Projection& key) const {
  const Index tokens = query.rotated.rows();
  const auto scale = static_cast<float>(law_.scale());
  if (law_.scores.soft_cap == 0.0) return Sample::Constant(tokens, tokens, scale);
  const float inner = scale / static_cast<float>(law_.scores.soft_cap);
  const Sample t = (inner * query.rotated * key.rotated.transpose()).array().tanh();
  return scale * (1.0F - t.array().square());
}

Sample AttentionHead::pull_back(const Projection& p, const Sample& gradient, int heads) const {
  Sample g = law_.rope ? turned(gradient, cos_, sin_, -1.0F) : gradient;
  if (law_.qk_norm == QkNorm::none) return g;
  const auto features = static_cast<float>(law_.head_dim * (law_.qk_norm == QkNorm::full ? heads : 1));
  for (Index t = 0; t < g.rows(); ++t) {
    g.row(t) -= p.normalised.row(t) * (g.row(t).dot(p.normalised.row(t)) / features);
    if (p.rms(t) > 0) g.row(t) /= p.rms(t);
  }
  return g;
}

}  // namespace periscope::theory
