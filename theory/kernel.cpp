#include "theory/kernel.h"

#include <cmath>
#include <limits>

#include "sim/spec/weight.h"

namespace periscope::theory {

TokenKernel normalised(const TokenKernel& x, NormKind kind, double gamma, double eps) {
  const bool centred = kind == NormKind::layer;
  const Matrix k = centred ? Matrix(x.product - x.mean) : x.product;
  const Vector scale = norm_scale(x, kind, gamma, eps);
  const auto rescaled = [&](const Matrix& m) { return Matrix(scale.asDiagonal() * m * scale.asDiagonal()); };
  return {rescaled(k), centred ? Matrix(Matrix::Zero(k.rows(), k.cols())) : rescaled(x.mean)};
}

Vector norm_denominator(const TokenKernel& x, NormKind kind, double eps) {
  const Vector square =
      kind == NormKind::layer ? Vector((x.product - x.mean).diagonal()) : Vector(x.product.diagonal());
  return square.array() + eps;
}

Vector norm_scale(const TokenKernel& x, NormKind kind, double gamma, double eps) {
  return norm_denominator(x, kind, eps).unaryExpr([&](double r) { return r > 0 ? gamma / std::sqrt(r) : 0.0; });
}

TokenKernel combined(double a, const TokenKernel& x, double b, const TokenKernel& y) {
  return {a * a * x.product + b * b * y.product, a * a * x.mean + b * b * y.mean};
}

TokenKernel input_kernel(const StackSpec& spec, const std::vector<int>& ids) {
  const InputSpec& input = spec.input;
  const auto tokens = static_cast<Eigen::Index>(input.tokens);
  const EmbeddingSpec& e = spec.model.embedding;
  double looked_up = e.scale * e.scale;
  if (spec.model.projects_embedding()) {
    const double std = stddev_of(spec, Weight::project_in);
    looked_up *= std * std * spec.model.embedding_width();
  }
  const double position = e.positions > 0 ? 1.0 : 0.0;
  const double token_type = e.token_types > 0 ? 1.0 : 0.0;
  Matrix k(tokens, tokens);
  for (Eigen::Index t = 0; t < tokens; ++t) {
    for (Eigen::Index s = 0; s < tokens; ++s) {
      if (ids.empty()) {
        k(t, s) = input.second_moment * (t == s ? 1.0 : input.correlation);
        continue;
      }
      const bool same = ids[static_cast<std::size_t>(t)] == ids[static_cast<std::size_t>(s)];
      k(t, s) = input.second_moment * (looked_up * (same ? 1.0 : 0.0) + (t == s ? position : 0.0) + token_type);
    }
  }
  return TokenKernel::of_independent_features(k, spec.model.width);
}

double token_cosine(const Matrix& k) {
  const auto tokens = static_cast<double>(k.rows());
  if (k.rows() < 2) return std::numeric_limits<double>::quiet_NaN();
  const Vector inverse = k.diagonal().cwiseSqrt().cwiseInverse();
  return (inverse.dot(k * inverse) - tokens) / (tokens * (tokens - 1));
}

}  // namespace periscope::theory
