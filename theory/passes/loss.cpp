#include "theory/passes/backward.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <stdexcept>

#include "sim/spec/weight.h"
#include "theory/attention/pattern_products.h"

namespace periscope::theory {
namespace {

/// Indicators of pairs of tokens, times 1/n² for n labels in the sequence, averaged over the sequences [T, T].
struct LabelPairs {
  Matrix both;  ///< both tokens have a label
  Matrix same;  ///< both tokens have the same label
};

LabelPairs label_pairs(const std::vector<std::vector<int>>& labels, Index tokens) {
  LabelPairs pairs{Matrix::Zero(tokens, tokens), Matrix::Zero(tokens, tokens)};
  for (const std::vector<int>& sequence : labels) {
    const auto n = static_cast<double>(std::ranges::count_if(sequence, [](int v) { return v >= 0; }));
    const double weight = 1.0 / (n * n * static_cast<double>(labels.size()));
    for (Index t = 0; t < tokens; ++t) {
      for (Index s = 0; s < tokens; ++s) {
        const int a = sequence[static_cast<std::size_t>(t)];
        const int b = sequence[static_cast<std::size_t>(s)];
        if (a < 0 || b < 0) continue;
        pairs.both(t, s) += weight;
        if (a == b) pairs.same(t, s) += weight;
      }
    }
  }
  return pairs;
}

/// Returns label_pairs for the p tokens of a grid, with the sums of GridFit over all tokens [p, p].
LabelPairs label_pairs(const std::vector<std::vector<int>>& labels, const GridFit& fit) {
  const TokenGrid& grid = fit.grid();
  Matrix nodes = Matrix::Zero(grid.nodes(), grid.nodes());  // Wᵀ same W
  Vector labelled = Vector::Zero(grid.tokens());            // diagonal of both kernels
  Matrix both = nodes;
  for (const std::vector<int>& sequence : labels) {
    std::map<int, std::map<Index, double>> found;  // Wᵀ 1[y = label] by label and node
    Eigen::VectorXf has_label(grid.tokens());
    for (Index t = 0; t < grid.tokens(); ++t) {
      const int label = sequence[static_cast<std::size_t>(t)];
      has_label(t) = label >= 0 ? 1.0F : 0.0F;
      if (label < 0) continue;
      const double upper = grid.upper_weight()(t);
      found[label][grid.lower_node(t)] += 1.0 - upper;
      if (upper != 0.0) found[label][grid.lower_node(t) + 1] += upper;
    }
    const double n = has_label.sum();
    const double weight = 1.0 / (n * n * static_cast<double>(labels.size()));
    for (const auto& of_label : found) {
      for (const auto& [i, a] : of_label.second) {
        for (const auto& [j, b] : of_label.second) nodes(i, j) += weight * a * b;
      }
    }
    Eigen::VectorXf sums = Eigen::VectorXf::Zero(grid.nodes());
    grid.add_node_sums(has_label, sums);
    both += weight * (sums * sums.transpose()).cast<double>();
    labelled += weight * has_label.cast<double>();
  }
  return {.both = fit.restricted(both, labelled), .same = fit.restricted(nodes, labelled)};
}

/// Returns the variance of a logit per unit of the output kernel.
double logit_gain(const StackSpec& spec) {
  const ModelSpec& m = spec.model;
  if (!m.unembedding) return 1.0;
  const double std = m.head.scale * stddev_of(spec, 0, Weight::unembedding);
  double gain = std * std * m.embedding_width();
  if (m.projects_embedding()) {
    const double project = stddev_of(spec, 0, Weight::project_out);
    gain *= project * project * m.width;
  }
  return gain;
}

}  // namespace

std::string loss_unsupported(const ModelSpec& model) {
  return model.head.transform ? "the gradient of BERT's head transform is not modelled" : "";
}

Matrix loss_gradient(const StackSpec& spec, const Matrix& output, const std::vector<std::vector<int>>& labels,
                     int samples, PatternStream stream, const GridFit* fit) {
  const ModelSpec& m = spec.model;
  if (const std::string reason = loss_unsupported(m); !reason.empty()) throw std::invalid_argument(reason);
  const Index tokens = output.rows();
  const int classes = m.unembedding ? m.vocab : m.width;
  const auto cap = static_cast<float>(m.unembedding ? m.head.soft_cap : 0.0);
  if (classes == 1) return Matrix::Zero(tokens, tokens);  // p = y: the gradient is exactly 0
  const double gain = logit_gain(spec);
  const ScaledKernel logits(gain * output);
  NormalStream numbers = numbers_of(stream);
  Matrix inner = Matrix::Zero(tokens, tokens);
  Matrix derivative_products = Matrix::Zero(tokens, tokens);
  for (int i = 0; i < samples; ++i) {
    Sample p;
    product_into(p, factor_of(logits.unit_factor, logits.triangular),
                 factor_of(numbers.normals_float(tokens, classes)));
    p *= static_cast<float>(std::sqrt(logits.scale));
    Sample derivative;
    if (cap > 0.0F) {
      derivative = (p / cap).array().tanh();
      p = cap * derivative;
      derivative = 1.0F - derivative.array().square();
    }
    p.colwise() -= p.rowwise().maxCoeff().eval();
    p = p.array().exp();
    p.array().colwise() /= p.rowwise().sum().array().eval();
    if (cap > 0.0F) {
      p = p.cwiseProduct(derivative);
      const Matrix once = (p * derivative.transpose()).cast<double>() / (samples * static_cast<double>(classes));
      inner -= once + once.transpose();
      derivative_products +=
          (derivative * derivative.transpose()).cast<double>() / (samples * static_cast<double>(classes));
    }
    inner += (p * p.transpose()).cast<double>() / samples;
  }
  if (cap == 0.0F) {
    inner -= Matrix::Constant(tokens, tokens, 2.0 / classes);
    derivative_products.setOnes();
  }
  const LabelPairs pairs = fit != nullptr ? label_pairs(labels, *fit) : label_pairs(labels, tokens);
  return gain * (pairs.both.cwiseProduct(inner) + pairs.same.cwiseProduct(derivative_products));
}

}  // namespace periscope::theory
