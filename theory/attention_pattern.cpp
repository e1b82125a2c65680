#include "theory/attention_pattern.h"

#include <Random123/conventional/Engine.hpp>
#include <Random123/threefry.h>

#include <Eigen/Cholesky>
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

/// T × head_dim sample of the projection of one head before RoPE, QK-norm applied.
class ProjectionSampler {
 public:
  ProjectionSampler(const PatternLaw& law, const Matrix& k) : law_(law), factor_(factor(k)), diagonal_(k.diagonal()) {
    const int half = law.head_dim / 2;
    if (!law.rope) return;
    const Index tokens = k.rows();
    cos_.resize(tokens, half);
    sin_.resize(tokens, half);
    for (Index t = 0; t < tokens; ++t) {
      for (int i = 0; i < half; ++i) {
        const double angle = static_cast<double>(t) * std::pow(rope_base, -2.0 * i / law.head_dim);
        cos_(t, i) = std::cos(angle);
        sin_(t, i) = std::sin(angle);
      }
    }
  }

  Matrix draw(Engine& engine, double variance, int heads) const {
    boost::random::normal_distribution<double> unit;
    Matrix white(factor_.cols(), law_.head_dim);
    for (double& z : white.reshaped()) z = unit(engine);
    Matrix x = std::sqrt(variance) * (factor_ * white);
    normalise(x, variance, heads);
    rotate(x);
    return x;
  }

 private:
  // Over the whole projection the other heads enter by their mean: they are many and independent.
  void normalise(Matrix& x, double variance, int heads) const {
    if (law_.qk_norm == QkNorm::none) return;
    const double others = law_.qk_norm == QkNorm::full ? heads - 1 : 0;
    for (Index t = 0; t < x.rows(); ++t) {
      const double own = x.row(t).squaredNorm() / law_.head_dim;
      const double square = (own + others * variance * diagonal_(t)) / (1 + others) + law_.norm_eps;
      if (square > 0) x.row(t) /= std::sqrt(square);
    }
  }

  void rotate(Matrix& x) const {
    if (!law_.rope) return;
    const int half = law_.head_dim / 2;
    const Matrix first = x.leftCols(half);
    const Matrix second = x.rightCols(half);
    x.leftCols(half) = first.cwiseProduct(cos_) - second.cwiseProduct(sin_);
    x.rightCols(half) = second.cwiseProduct(cos_) + first.cwiseProduct(sin_);
  }

  const PatternLaw& law_;
  Matrix factor_;
  Vector diagonal_;
  Matrix cos_;
  Matrix sin_;
};

/// Softmax of every row of the logits, over the visible tokens.
void softmax(Matrix& z, bool causal) {
  const Index tokens = z.rows();
  for (Index t = 0; t < tokens; ++t) {
    const Index visible = causal ? t + 1 : tokens;
    auto seen = z.row(t).head(visible).array();
    seen = (seen - seen.maxCoeff()).exp();
    seen /= seen.sum();
    z.row(t).tail(tokens - visible).setZero();
  }
}

Matrix sandwich(const Matrix& a, const Matrix& k) { return a * k * a.transpose(); }

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

Matrix mixed_kernel(const PatternLaw& law, const Matrix& k, int samples, PatternStream stream) {
  if (is_uniform(law)) return sandwich(uniform_pattern(k.rows(), law.causal), k);
  Engine engine = engine_of(stream);
  const ProjectionSampler sampler(law, k);
  Matrix sum = Matrix::Zero(k.rows(), k.cols());
  for (int i = 0; i < samples; ++i) {
    const Matrix query = sampler.draw(engine, law.query_variance, law.query_heads);
    const Matrix key = sampler.draw(engine, law.key_variance, law.key_heads);
    Matrix pattern = query * key.transpose() / std::sqrt(static_cast<double>(law.head_dim));
    softmax(pattern, law.causal);
    sum += sandwich(pattern, k);
  }
  return sum / samples;
}

}  // namespace periscope::theory
