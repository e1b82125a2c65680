#include "theory/attention_pattern.h"

#include <cmath>

namespace periscope::theory {
namespace {

using Index = Eigen::Index;

/// a·k·aᵀ; a causal pattern is lower triangular, which halves the work.
template <class M>
M sandwich(const M& a, const M& k, bool causal) {
  if (!causal) return a * k * a.transpose();
  const M mixed = a.template triangularView<Eigen::Lower>() * k;
  return mixed * a.template triangularView<Eigen::Lower>().transpose();
}

}  // namespace

bool is_uniform(const PatternLaw& law) { return law.query_variance == 0.0 || law.key_variance == 0.0; }

Matrix uniform_pattern(Index tokens, const PatternLaw& law) {
  Matrix a = Matrix::Zero(tokens, tokens);
  for (Index t = 0; t < tokens; ++t) {
    const Index first = law.first_seen(t);
    const Index visible = (law.causal ? t + 1 : tokens) - first;
    a.row(t).segment(first, visible).setConstant(1.0 / static_cast<double>(visible));
  }
  return a;
}

Matrix AttentionAverage::mixed_kernel(const Matrix& k, int samples, PatternStream stream) const {
  if (is_uniform(law_)) return sandwich(uniform_pattern(k.rows(), law_), k, law_.causal);
  PatternEngine engine = engine_of(stream);
  const ScaledKernel scaled(k);
  Matrix sum = Matrix::Zero(k.rows(), k.cols());
  for (int i = 0; i < samples; ++i) {
    const Projection query = head_.draw_query(engine, scaled);
    const Projection key = head_.draw_key(engine, scaled);
    sum += sandwich(head_.pattern(query, key), scaled.unit, law_.causal).cast<double>();
  }
  return sum * (scaled.scale / samples);
}

HeadGradients AttentionAverage::gradients(const Matrix& k, const Matrix& g, int samples, PatternStream stream) const {
  const Index tokens = k.rows();
  const Matrix zero = Matrix::Zero(tokens, tokens);
  HeadGradients sum{zero, zero, zero, zero};
  PatternEngine engine = engine_of(stream);
  stream.sublayer += std::uint64_t{1} << 32U;  // patterns must be those of the forward pass: other numbers elsewhere
  PatternEngine other = engine_of(stream);
  const ScaledKernel input(k);
  const ScaledKernel output(g);
  for (int i = 0; i < samples; ++i) {
    const Projection query = head_.draw_query(engine, input);
    const Projection key = head_.draw_key(engine, input);
    const Sample a = head_.pattern(query, key);
    sum.mixed += sandwich(a, input.unit, law_.causal).cast<double>();
    sum.value += (a.transpose() * output.unit * a).cast<double>();
    const Sample value = input.unit_factor * white_noise(other, tokens, law_.head_dim);
    const Sample cotangent = output.unit_factor * white_noise(other, tokens, law_.head_dim);
    const Sample da = cotangent * value.transpose();
    const Eigen::VectorXf mean = a.cwiseProduct(da).rowwise().sum();
    const Sample dz = a.cwiseProduct(da.colwise() - mean).cwiseProduct(head_.logit_slope(query, key));
    const Sample dq = head_.pull_back(query, dz * key.rotated, law_.query_heads);
    const Sample dk = head_.pull_back(key, dz.transpose() * query.rotated, law_.key_heads);
    sum.query += (dq * dq.transpose()).cast<double>();
    sum.key += (dk * dk.transpose()).cast<double>();
  }
  const double both = input.scale * output.scale / samples;
  return {.mixed = sum.mixed * (input.scale / samples),
          .value = sum.value * (output.scale / samples),
          .query = sum.query * both,
          .key = sum.key * both};
}

}  // namespace periscope::theory
