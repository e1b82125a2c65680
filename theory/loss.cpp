#include "theory/loss.h"

#include <cmath>

#include "sim/spec/weight.h"

namespace periscope::theory {
namespace {

/// How often two tokens have the same label, mean over the sequences [T, T].
Matrix label_collisions(const std::vector<std::vector<int>>& labels, Eigen::Index tokens) {
  Matrix same = Matrix::Zero(tokens, tokens);
  for (const std::vector<int>& sequence : labels) {
    for (Eigen::Index t = 0; t < tokens; ++t) {
      for (Eigen::Index s = 0; s < tokens; ++s) {
        same(t, s) += sequence[static_cast<std::size_t>(t)] == sequence[static_cast<std::size_t>(s)] ? 1.0 : 0.0;
      }
    }
  }
  return same / static_cast<double>(labels.size());
}

}  // namespace

Matrix loss_gradient(const StackSpec& spec, const Matrix& output, const std::vector<std::vector<int>>& labels,
                     int samples, PatternStream stream) {
  const ModelSpec& m = spec.model;
  const Eigen::Index tokens = output.rows();
  const int classes = m.unembedding ? m.vocab : m.width;
  const double std = stddev_of(spec, Weight::unembedding);
  const double gain = m.unembedding ? std * std * m.width : 1.0;
  const ScaledKernel logits(gain * output);
  PatternEngine engine = engine_of(stream);
  Matrix inner = Matrix::Zero(tokens, tokens);
  for (int i = 0; i < samples; ++i) {
    Sample p =
        static_cast<float>(std::sqrt(logits.scale)) * (logits.unit_factor * white_noise(engine, tokens, classes));
    p.colwise() -= p.rowwise().maxCoeff().eval();
    p = p.array().exp();
    p.array().colwise() /= p.rowwise().sum().array().eval();
    inner += (p * p.transpose()).cast<double>() / samples;
  }
  const Matrix product = inner + label_collisions(labels, tokens) - Matrix::Constant(tokens, tokens, 2.0 / classes);
  return gain / (static_cast<double>(tokens) * static_cast<double>(tokens)) * product;
}

}  // namespace periscope::theory
