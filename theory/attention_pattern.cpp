#include "theory/attention_pattern.h"

#include <Random123/threefry.h>
#include <Random123/conventional/Engine.hpp>

#include <Eigen/Cholesky>
#include <algorithm>
#include <boost/random/normal_distribution.hpp>
#include <cmath>

namespace periscope::theory {
namespace {

using Index = Eigen::Index;
using Engine = r123::Engine<r123::Threefry4x64>;

Engine engine_of(PatternStream stream) {
  Engine engine(r123::Threefry4x64::ukey_type{{stream.seed, stream.replicate, stream.sublayer, 0}});
  return engine;
}

/// F with F Fᵀ = k, for a positive semidefinite k (tokens may repeat: k may be singular).
Matrix factor(const Matrix& k) {
  const Eigen::LDLT<Matrix> ldlt(k);
  Matrix f = ldlt.matrixL();
  f *= ldlt.vectorD().cwiseMax(0.0).cwiseSqrt().asDiagonal();
  return ldlt.transpositionsP().transpose() * f;
}

/// Softmax of every row of the logits, over the visible tokens.
void softmax(Eigen::MatrixXf& z, bool causal) {
  const Index tokens = z.rows();
  for (Index t = 0; t < tokens; ++t) {
    const Index visible = causal ? t + 1 : tokens;
    auto seen = z.row(t).head(visible).array();
    seen = (seen - seen.maxCoeff()).exp();
    seen /= seen.sum();
    z.row(t).tail(tokens - visible).setZero();
  }
}

/// a·k·aᵀ; a causal pattern is lower triangular, which halves the work.
template <class M>
M sandwich(const M& a, const M& k, bool causal) {
  if (!causal) return a * k * a.transpose();
  const M mixed = a.template triangularView<Eigen::Lower>() * k;
  return mixed * a.template triangularView<Eigen::Lower>().transpose();
}

Eigen::MatrixXf white_noise(Engine& engine, Index rows, Index cols) {
  boost::random::normal_distribution<float> unit;
  Eigen::MatrixXf white(rows, cols);
  for (float& z : white.reshaped()) z = unit(engine);
  return white;
}

}  // namespace

bool is_uniform(const PatternLaw& law) { return law.query_variance == 0.0 || law.key_variance == 0.0; }

Matrix uniform_pattern(Index tokens, bool causal) {
  Matrix a = Matrix::Zero(tokens, tokens);
  for (Index t = 0; t < tokens; ++t) {
    const Index visible = causal ? t + 1 : tokens;
    a.row(t).head(visible).setConstant(1.0 / static_cast<double>(visible));
  }
  return a;
}

AttentionAverage::AttentionAverage(const PatternLaw& law, Index tokens) : law_(law) {
  if (!law.rope) return;
  const int half = law.head_dim / 2;
  cos_.resize(tokens, half);
  sin_.resize(tokens, half);
  for (int i = 0; i < half; ++i) {
    const double frequency = std::pow(rope_base, -2.0 * i / law.head_dim);
    for (Index t = 0; t < tokens; ++t) {
      cos_(t, i) = static_cast<float>(std::cos(static_cast<double>(t) * frequency));
      sin_(t, i) = static_cast<float>(std::sin(static_cast<double>(t) * frequency));
    }
  }
}

// QK-norm over the whole projection: the other heads enter by their mean, they are many and independent.
AttentionAverage::Sample AttentionAverage::projection(const Sample& factor, const Vector& diagonal, double variance,
                                                      int heads, const Sample& white) const {
  // Far beyond 1e12 the softmax picks one token whatever the scale, and float would overflow.
  const double spread = std::min(std::sqrt(variance), 1e12);
  Sample x = static_cast<float>(spread) * (factor * white);
  if (law_.qk_norm != QkNorm::none) {
    const double others = law_.qk_norm == QkNorm::full ? heads - 1 : 0;
    for (Index t = 0; t < x.rows(); ++t) {
      const double own = x.row(t).squaredNorm() / static_cast<float>(law_.head_dim);
      const double square = (own + others * spread * spread * diagonal(t)) / (1 + others) + law_.norm_eps;
      if (square > 0) x.row(t) /= static_cast<float>(std::sqrt(square));
    }
  }
  if (!law_.rope) return x;
  const int half = law_.head_dim / 2;
  Sample rotated(x.rows(), x.cols());
  rotated.leftCols(half) = x.leftCols(half).cwiseProduct(cos_) - x.rightCols(half).cwiseProduct(sin_);
  rotated.rightCols(half) = x.rightCols(half).cwiseProduct(cos_) + x.leftCols(half).cwiseProduct(sin_);
  return rotated;
}

Matrix AttentionAverage::mixed_kernel(const Matrix& k, int samples, PatternStream stream) const {
  if (is_uniform(law_)) return sandwich(uniform_pattern(k.rows(), law_.causal), k, law_.causal);
  Engine engine = engine_of(stream);
  // Kernels of every scale pass through float: divide by the largest entry first.
  const double scale = k.diagonal().maxCoeff();
  if (!(scale > 0.0) || !std::isfinite(scale)) return k;
  const Sample unit_kernel = (k / scale).cast<float>();
  const Sample f = factor(k / scale).cast<float>();
  const Vector diagonal = k.diagonal() / scale;
  const auto draw = [&](double variance, int heads) {
    return projection(f, diagonal, variance, heads, white_noise(engine, k.rows(), law_.head_dim));
  };
  Matrix sum = Matrix::Zero(k.rows(), k.cols());
  for (int i = 0; i < samples; ++i) {
    const Sample query = draw(law_.query_variance * scale, law_.query_heads);
    const Sample key = draw(law_.key_variance * scale, law_.key_heads);
    Sample pattern = query * key.transpose() / std::sqrt(static_cast<float>(law_.head_dim));
    softmax(pattern, law_.causal);
    sum += sandwich(pattern, unit_kernel, law_.causal).cast<double>();
  }
  return sum * (scale / samples);
}

}  // namespace periscope::theory
