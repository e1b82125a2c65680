#include "theory/width/gram_signal.h"

#include <Eigen/Cholesky>
#include <Eigen/QR>
#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "sim/spec/weight.h"
#include "theory/kernels/activation_values.h"
#include "theory/modules/inside_modules.h"
#include "theory/norms/norm_law.h"

namespace periscope::theory {
namespace {

/// Smallest accepted pivot of Cholesky for a unit diagonal; smaller pivots have lost too many digits.
constexpr double min_pivot = 1e-8;
/// Pivots below this are rounding errors of an exact 0.
constexpr double zero_pivot = 1e-13;

/// Returns factors that scale rows of the given lengths to length 1; zero rows stay 0.
Vector inverse_of(const Vector& length) {
  return length.unaryExpr([](double n) { return n > 0.0 ? 1.0 / n : 1.0; });
}

/// Computes the Cholesky factor of a matrix with unit diagonal (lower triangle). Returns false if it is inaccurate.
bool cholesky(const Matrix& unit, Matrix& lower) {
  const Eigen::LLT<Matrix> llt(unit);
  if (llt.info() != Eigen::Success) return false;
  lower = llt.matrixL();
  return lower.diagonal().minCoeff() > std::sqrt(min_pivot);
}

Matrix gram_of(const Matrix& x) {
  Matrix gram = Matrix::Zero(x.rows(), x.rows());
  gram.selfadjointView<Eigen::Lower>().rankUpdate(x);
  return gram;
}

/// Hidden features per block, few enough to fit the cache of a core.
constexpr Index hidden_per_block = 128;

/// A module's input, scaled to rows of length 1 in float. Products with normal numbers dominate the cost; their
/// rounding error in float is far below the error of a measurement.
class ModuleInput {
 public:
  explicit ModuleInput(const Matrix& x) : length_(x.rowwise().norm()) {
    unit_ = (inverse_of(length_).asDiagonal() * x).cast<float>();
  }

  /// Samples the product with a Gaussian matrix of the given standard deviation [T, features].
  [[nodiscard]] Matrix drawn(double stddev, Index features, NormalStream& stream) const {
    const Eigen::MatrixXf product = unit_ * stream.normals_float(unit_.cols(), features);
    return (stddev * length_).asDiagonal() * product.cast<double>();
  }

  [[nodiscard]] Index tokens() const { return unit_.rows(); }

 private:
  Vector length_;
  Eigen::MatrixXf unit_;
};

/// Applies an RMSNorm of gain 1 to every group of `features` columns of every row.
void normalise_parts(Matrix& x, Index features, double eps) {
  const NormUse norm{.kind = NormKind::rms, .eps = eps, .width = static_cast<int>(features)};
  for (Index first = 0; first < x.cols(); first += features) normalise(x.middleCols(first, features), norm, 1.0);
}

/// Applies RoPE to every head: rotates the pair (i, i + e/2) at position t of a sequence by t·frequency_i. Multiplies
/// it by gains_i unless `gains` is empty.
void rotate(Matrix& x, Index head_dim, const std::vector<double>& frequencies, const std::vector<double>& gains,
            Index sequence) {
  const Index half = head_dim / 2;
  const Vector position =
      Vector::LinSpaced(sequence, 0.0, static_cast<double>(sequence - 1)).replicate(x.rows() / sequence, 1);
  const Matrix angle = position * Eigen::Map<const Vector>(frequencies.data(), half).transpose();
  Matrix cos = angle.array().cos();
  Matrix sin = angle.array().sin();
  for (Matrix* part : {&cos, &sin}) {
    if (!gains.empty()) *part = *part * Eigen::Map<const Vector>(gains.data(), half).asDiagonal();
  }
  Matrix first;
  for (Index head = 0; head < x.cols(); head += head_dim) {
    auto a = x.middleCols(head, half);
    auto b = x.middleCols(head + half, half);
    first = a;
    a = cos.cwiseProduct(first) - sin.cwiseProduct(b);
    b = cos.cwiseProduct(b) + sin.cwiseProduct(first);
  }
}

/// Returns the softmax of the scores of one head, one column per query: [keys, queries].
template <class Queries, class Keys>
Matrix pattern(const ModelSpec& m, const ScoreRule& rule, const Queries& query, const Keys& key) {
  const double scale = rule.scale != 0.0 ? rule.scale : 1.0 / std::sqrt(static_cast<double>(query.cols()));
  Matrix z = key * (scale * query).transpose();
  if (rule.soft_cap > 0.0) z = rule.soft_cap * (z.array() / rule.soft_cap).tanh();
  const Index tokens = z.cols();
  for (Index t = 0; t < tokens; ++t) {
    const Index first = rule.window > 0 ? std::max<Index>(0, t - rule.window + 1) : 0;
    const Index end = m.causal ? t + 1 : tokens;
    auto seen = z.col(t).segment(first, end - first).array();
    seen = (seen - seen.maxCoeff()).exp();
    seen /= seen.sum();
    z.col(t).head(first).setZero();
    z.col(t).tail(tokens - end).setZero();
  }
  return z;
}

}  // namespace

Matrix square_root(const Matrix& x) {
  const Index rows = x.rows();
  if (x.cols() <= rows) return x;
  const Vector length = x.rowwise().norm();
  const Matrix unit = inverse_of(length).asDiagonal() * x;
  Matrix lower;
  if (!cholesky(gram_of(unit), lower)) {
    const Eigen::HouseholderQR<Matrix> qr(unit.transpose());
    lower = Matrix(qr.matrixQR().topRows(rows).triangularView<Eigen::Upper>()).transpose();
  }
  return length.asDiagonal() * lower;
}

Matrix root_of_gram(const Matrix& gram) {
  const Vector length = gram.diagonal().cwiseSqrt();
  const Vector inverse = inverse_of(length);
  const Matrix unit = inverse.asDiagonal() * gram * inverse.asDiagonal();
  Matrix lower;
  if (!cholesky(unit, lower)) {
    const Eigen::LDLT<Matrix> ldlt(unit);
    const Vector pivots = ldlt.vectorD().unaryExpr([](double d) { return d < zero_pivot ? 0.0 : std::sqrt(d); });
    lower = ldlt.transpositionsP().transpose() * Matrix(Matrix(ldlt.matrixL()) * pivots.asDiagonal());
  }
  return length.asDiagonal() * lower;
}

Matrix compacted(const Matrix& x) {
  if (x.cols() <= x.rows() + 1) return x;
  Matrix all(x.rows(), x.rows() + 1);
  all << x.col(0), square_root(x.rightCols(x.cols() - 1));
  return all;
}

Matrix independent_features(const Matrix& root, Index frame, int width, NormalStream& stream) {
  const Matrix inside = stream.normals(root.cols(), frame);
  const Matrix beyond = stream.wishart_factor(root.cols(), width - frame);
  Matrix features(root.rows(), frame + beyond.cols());
  features << root * inside, root * beyond;
  return features;
}

SignalReading read_signal(const Eigen::Ref<const Matrix>& x, int width) {
  const Vector square = x.rowwise().squaredNorm();
  const auto tokens = static_cast<double>(x.rows());
  const Vector mean = x.col(0) / std::sqrt(static_cast<double>(width));
  const double second_moment = square.mean() / width;
  // Σ_{t≠s} cos = ‖Σ_t x_t/‖x_t‖‖² − T.
  const Vector inverse = square.cwiseSqrt().cwiseInverse();
  const double all = (inverse.transpose() * x).squaredNorm();
  return {.second_moment = second_moment,
          .variance = x.rightCols(x.cols() - 1).squaredNorm() / (tokens * width),
          .mean = mean.mean(),
          .token_cosine =
              x.rows() > 1 ? (all - tokens) / (tokens * (tokens - 1.0)) : std::numeric_limits<double>::quiet_NaN()};
}

Matrix attention_root(const StackSpec& spec, int layer, const Matrix& input, Index sequence, NormalStream& stream) {
  const ModelSpec& m = spec.model;
  const ModuleInput x(input);
  const Index e = m.head_dim_at(layer);
  Matrix q = x.drawn(stddev_of(spec, layer, Weight::q), m.query_width(layer), stream);
  Matrix k = x.drawn(stddev_of(spec, layer, Weight::k), m.key_width(layer), stream);
  Matrix v = x.drawn(stddev_of(spec, layer, Weight::v), m.key_width(layer), stream);
  if (m.v_norm_at(layer)) normalise_parts(v, e, m.norm_eps);
  Matrix gate;
  if (m.gates_at(layer) > 0) {
    gate = sigmoid(x.drawn(stddev_of(spec, layer, Weight::attention_gate), m.gates_at(layer), stream));
  }
  if (m.qk_norm_at(layer) != QkNorm::none) {
    const bool full = m.qk_norm_at(layer) == QkNorm::full;
    normalise_parts(q, full ? q.cols() : e, m.norm_eps);
    normalise_parts(k, full ? k.cols() : e, m.norm_eps);
  }
  if (m.rope) {
    const std::vector<double> frequencies = m.rope_frequencies_at(layer);
    const std::vector<double> gains = m.rope_gains_at(layer);
    rotate(q, e, frequencies, gains, sequence);
    rotate(k, e, frequencies, gains, sequence);
  }
  Matrix head_outputs(x.tokens(), m.query_width(layer));
  const int group = m.heads / m.kv_heads_at(layer);
  for (int head = 0; head < m.heads; ++head) {
    const Index query_column = head * e;
    const Index kv_column = head / group * e;
    for (Index first = 0; first < x.tokens(); first += sequence) {
      head_outputs.block(first, query_column, sequence, e) =
          pattern(m, m.scores_at(layer), q.block(first, query_column, sequence, e),
                  k.block(first, kv_column, sequence, e))
              .transpose() *
          v.block(first, kv_column, sequence, e);
    }
  }
  if (gate.size() > 0 && m.attention_gate_at(layer) == AttentionGate::head) {
    for (int head = 0; head < m.heads; ++head) {
      auto output = head_outputs.middleCols(head * e, e);
      output = gate.col(head).asDiagonal() * output;
    }
  } else if (gate.size() > 0) {
    head_outputs = head_outputs.cwiseProduct(gate);
  }
  if (m.inner_norm_at(2 * layer)) normalise_parts(head_outputs, head_outputs.cols(), m.norm_eps);
  return stddev_of(spec, layer, Weight::o) * square_root(head_outputs);
}

Matrix mlp_root(const StackSpec& spec, int layer, const Matrix& input, NormalStream& stream) {
  const ModelSpec& m = spec.model;
  const ModuleInput x(input);
  const Index tokens = x.tokens();
  const Activation activation = activation_of(m.mlp);
  const auto hidden = [&](Index features) {
    const Weight first = is_gated(m.mlp) ? Weight::gate : Weight::up;
    Matrix h = activation_values(activation, x.drawn(stddev_of(spec, layer, first), features, stream));
    if (is_gated(m.mlp)) h = h.cwiseProduct(x.drawn(stddev_of(spec, layer, Weight::up), features, stream));
    return h;
  };
  const double down = stddev_of(spec, layer, Weight::down);
  const bool normed = m.inner_norm_at(2 * layer + 1);
  if (m.mlp_width <= tokens) {
    Matrix h = hidden(m.mlp_width);
    if (normed) normalise_parts(h, h.cols(), m.norm_eps);
    return down * h;
  }
  Matrix gram = Matrix::Zero(tokens, tokens);
  for (Index done = 0; done < m.mlp_width; done += hidden_per_block) {
    gram.selfadjointView<Eigen::Lower>().rankUpdate(hidden(std::min<Index>(hidden_per_block, m.mlp_width - done)));
  }
  if (normed) {
    // The norm divides every token by its rms, which follows from the diagonal of the Gram matrix.
    const Matrix full = gram.selfadjointView<Eigen::Lower>();
    gram = through_inner_norm(full, inner_square(full / m.mlp_width, m.norm_eps));
  }
  return down * root_of_gram(gram);
}

}  // namespace periscope::theory
