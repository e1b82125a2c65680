#include "theory/attention/attention_head.h"

#include <Eigen/Cholesky>
#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>
#include <span>
#include <utility>

#include "theory/attention/pattern_products.h"

namespace periscope::theory {
namespace {

// Eigen's exp(−∞) is 0 or subnormal, depending on the instruction set, and subnormal arithmetic is a hundred times
// slower. Negligible entries of softmax are therefore set to 0.
constexpr float min_logit = -80.0F;   // relative to the largest logit of the row
constexpr float negligible = 2e-35F;  // slightly above exp(min_logit)

/// Returns the factors by which QK-norm multiplies tokens: 1/rms, or 1 for a zero token, which stays 0.
Eigen::VectorXf inverse_or_one(const Eigen::VectorXf& rms) {
  return rms.unaryExpr([](float r) { return r > 0 ? 1.0F / r : 1.0F; });
}

/// Samples a head, 0 … heads − 1, with probability proportional to its weight.
int sample_head(NormalStream& numbers, int heads, const std::vector<double>& weights) {
  const double z = numbers.normals(1, 1)(0, 0);
  const double uniform = 0.5 * std::erfc(-z / std::numbers::sqrt2);
  if (weights.empty()) return std::clamp(static_cast<int>(heads * uniform), 0, heads - 1);
  double rest = uniform * std::accumulate(weights.begin(), weights.end(), 0.0);
  int head = 0;
  while (head < heads - 1 && rest >= weights[static_cast<std::size_t>(head)]) {
    rest -= weights[static_cast<std::size_t>(head++)];
  }
  return head;
}

/// Returns the mean square of the row factors of all other heads; 1 if there are no other heads or `rows` is empty.
double mean_of_others(const std::vector<double>& rows, int head, int head_dim) {
  if (rows.empty()) return 1.0;
  const auto square = [](std::span<const double> part) {
    return std::inner_product(part.begin(), part.end(), part.begin(), 0.0);
  };
  const auto e = static_cast<std::size_t>(head_dim);
  if (rows.size() == e) return 1.0;
  const double this_head = square(std::span(rows).subspan(static_cast<std::size_t>(head) * e, e));
  return (square(rows) - this_head) / static_cast<double>(rows.size() - e);
}

std::vector<Index> positions_in(const PatternLaw& law, Index tokens) {
  std::vector<Index> positions;
  for (Index t = 0; t < tokens; ++t) positions.push_back(law.position(t));
  return positions;
}

}  // namespace

double PatternLaw::scale() const {
  return scores.scale != 0.0 ? scores.scale : 1.0 / std::sqrt(static_cast<double>(head_dim));
}

Index PatternLaw::first_seen(Index t) const {
  const Index first = t - position(t);
  return scores.window > 0 ? std::max<Index>(first, t - scores.window + 1) : first;
}

Index PatternLaw::end_seen(Index t, Index tokens) const {
  if (causal) return t + 1;
  return sequence > 0 ? t - position(t) + sequence : tokens;
}

NormalStream numbers_of(PatternStream stream) {
  return NormalStream({stream.seed, stream.replicate, stream.sublayer + place::patterns});
}

double scale_of(const Matrix& k) {
  const double scale = k.diagonal().maxCoeff();
  return scale > 0.0 && std::isfinite(scale) ? scale : 1.0;
}

// If tokens repeat, the kernel is singular and only the pivoted Cholesky factorisation succeeds.
ScaledKernel::ScaledKernel(const Matrix& k) : scale(scale_of(k)) {
  const Matrix scaled = k / scale;
  unit = scaled.cast<float>();
  const Eigen::LLT<Matrix> llt(scaled);
  triangular = llt.info() == Eigen::Success;
  if (triangular) {
    unit_factor = Matrix(llt.matrixL()).cast<float>();
    return;
  }
  const Eigen::LDLT<Matrix> ldlt(scaled);
  Matrix f = ldlt.matrixL();
  f *= ldlt.vectorD().cwiseMax(0.0).cwiseSqrt().asDiagonal();
  unit_factor = Matrix(ldlt.transpositionsP().transpose() * f).cast<float>();
}

CentredKernel::CentredKernel(const Matrix& k, double scale_of_k)
    : scale(scale_of_k), mean(k.mean()), deviation(k.rowwise().mean().array() - mean) {
  Matrix centred = ((k.colwise() - deviation).rowwise() - deviation.transpose()).array() - mean;
  // Differences between equal tokens that come only from rounding in the kernel recursion are set to 0.
  constexpr double equal_tolerance = 1e-12;
  if (!(centred.cwiseAbs().maxCoeff() > equal_tolerance * k.cwiseAbs().maxCoeff())) {
    centred.setZero();
    deviation.setZero();
  }
  unit = (centred / scale).cast<float>();
}

Matrix CentredKernel::output_kernel(const Sample& a, const Sample& of_unit) const {
  const Vector rows = (a * (deviation / scale).cast<float>()).cast<double>();
  Matrix m = of_unit.cast<double>();
  m.colwise() += rows;
  m.rowwise() += rows.transpose();
  return (scale * m).array() + mean;
}

void softmax_in_place(Eigen::Ref<Eigen::VectorXf> logits) {
  logits.array() -= logits.maxCoeff();
  logits = logits.array().max(min_logit).exp();
  logits = (logits.array() < negligible).select(0.0F, logits);
  logits /= logits.sum();
}

AttentionHead::AttentionHead(const PatternLaw& law, Index tokens) : AttentionHead(law, positions_in(law, tokens)) {}

AttentionHead::AttentionHead(const PatternLaw& law, const std::vector<Index>& positions) : law_(law) {
  if (!law.rope) return;
  rotation_ = Rotation(positions,
                       law.rope_frequencies.empty() ? rope_frequencies(law.head_dim, rope_base) : law.rope_frequencies,
                       law.rope_gains);
}

Rotation::Rotation(const std::vector<Index>& positions, const std::vector<double>& frequencies,
                   const std::vector<double>& gains)
    : cos(static_cast<Index>(positions.size()), static_cast<Index>(frequencies.size())), sin(cos.rows(), cos.cols()) {
  for (Index i = 0; i < cos.cols(); ++i) {
    const double gain = gains.empty() ? 1.0 : gains[static_cast<std::size_t>(i)];
    for (Index t = 0; t < cos.rows(); ++t) {
      const double angle =
          static_cast<double>(positions[static_cast<std::size_t>(t)]) * frequencies[static_cast<std::size_t>(i)];
      cos(t, i) = static_cast<float>(gain * std::cos(angle));
      sin(t, i) = static_cast<float>(gain * std::sin(angle));
    }
  }
}

Sample Rotation::rotate(const Sample& x, float direction) const {
  const Index half = cos.cols();
  Sample y(x.rows(), x.cols());
  y.leftCols(half) = x.leftCols(half).cwiseProduct(cos) - direction * x.rightCols(half).cwiseProduct(sin);
  y.rightCols(half) = x.rightCols(half).cwiseProduct(cos) + direction * x.leftCols(half).cwiseProduct(sin);
  return y;
}

// For QK-norm over the whole projection, the mean square of the other heads is replaced by its expectation.
Projection AttentionHead::project(const ProjectionLaw& law, Sample rows, double scale, const Vector& unit,
                                  NormalStream& numbers, int head) const {
  const Index tokens = rows.rows();
  // Capped so that float cannot overflow. Softmax selects a single token at far smaller values.
  const double spread = std::min(std::sqrt(law.variance * scale), 1e12);
  Projection p{.rotated = {}, .normalised = std::move(rows), .rms = Eigen::VectorXf::Ones(tokens)};
  p.normalised *= static_cast<float>(spread);
  const Index of_head = Index{head} * law_.head_dim;
  for (Index i = 0; i < (law.rows.empty() ? 0 : law_.head_dim); ++i) {
    p.normalised.col(i) *= static_cast<float>(law.rows[static_cast<std::size_t>(of_head + i)]);
  }
  if (law.bias > 0.0) {
    const Sample bias = static_cast<float>(std::min(law.bias, 1e12)) * numbers.normals_float(1, law_.head_dim);
    p.normalised.rowwise() += Eigen::RowVectorXf(bias.row(0));
  }
  if (law_.qk_norm != QkNorm::none) {
    const double others = law_.qk_norm == QkNorm::full ? law.heads - 1 : 0;
    const double power = mean_of_others(law.rows, head, law_.head_dim);
    const Eigen::VectorXf mean_square = p.normalised.rowwise().squaredNorm() / static_cast<float>(law_.head_dim);
    for (Index t = 0; t < tokens; ++t) {
      const double expected = power * spread * spread * unit(t) + law.bias * law.bias;
      p.rms(t) = static_cast<float>(std::sqrt((mean_square(t) + others * expected) / (1 + others) + law_.norm_eps));
    }
    p.normalised.array().colwise() *= inverse_or_one(p.rms).array();
    for (Index i = 0; i < (law.gain.empty() ? 0 : law_.head_dim); ++i) {
      const Index first = law_.qk_norm == QkNorm::full ? of_head : 0;
      p.normalised.col(i) *= static_cast<float>(law.gain[static_cast<std::size_t>(first + i)]);
    }
  }
  p.rotated = law_.rope ? rotation_.rotate(p.normalised, 1.0F) : p.normalised;
  return p;
}

HeadSample AttentionHead::draw(NormalStream& numbers, const ScaledKernel& of_query, const ScaledKernel& of_key) const {
  const Index e = law_.head_dim;
  const Sample normals = numbers.normals_float(of_query.unit.rows(), 2 * e);
  Sample rows;
  Sample key_rows;
  product_into(rows, factor_of(of_query.unit_factor, of_query.triangular), factor_of(normals));
  const bool one_kernel = &of_query == &of_key;
  if (!one_kernel) product_into(key_rows, factor_of(of_key.unit_factor, of_key.triangular), factor_of(normals));
  const bool heads_differ =
      (law_.qk_norm == QkNorm::full && !law_.query.gain.empty()) || !law_.query.rows.empty() || !law_.key.rows.empty();
  const int query_head = heads_differ ? sample_head(numbers, law_.query.heads, law_.head_weights) : 0;
  const int kv_head = heads_differ ? query_head / (law_.query.heads / law_.key.heads) : 0;
  const auto unit = [](const ScaledKernel& k) { return Vector(k.unit.diagonal().cast<double>()); };
  HeadSample head{.query = project(law_.query, rows.leftCols(e), of_query.scale, unit(of_query), numbers, query_head),
                  .key = project(law_.key, one_kernel ? rows.rightCols(e) : key_rows.rightCols(e), of_key.scale,
                                 unit(of_key), numbers, kv_head),
                  .logits = {}};
  const Sample scaled = static_cast<float>(law_.scale()) * head.query.rotated;
  product_into(head.logits, factor_of(scaled), transposed(factor_of(head.key.rotated)), law_.causal);
  return head;
}

Sample AttentionHead::pattern(const HeadSample& head, float sign) const {
  const Index tokens = head.logits.rows();
  Sample z = sign * head.logits;
  if (law_.scores.soft_cap > 0.0) {
    const auto cap = static_cast<float>(law_.scores.soft_cap);
    z = cap * (z / cap).array().tanh();
  }
  // Columns are contiguous, so row maxima and row sums accumulate column by column. Column s covers the tokens that
  // attend to token s; its first row is rounded down to a multiple of the vector length.
  constexpr Index vector = 8;
  constexpr float masked = -std::numeric_limits<float>::infinity();
  const auto attending_rows = [&](Index s) {
    const Index first = law_.causal ? s : s - law_.position(s);
    const Index end = law_.sequence > 0 ? s - law_.position(s) + law_.sequence : tokens;
    return std::pair(first / vector * vector, law_.scores.window > 0 ? std::min(end, s + law_.scores.window) : end);
  };
  Eigen::VectorXf largest = Eigen::VectorXf::Constant(tokens, masked);
  for (Index s = 0; s < tokens; ++s) {
    const auto [first, end] = attending_rows(s);
    z.col(s).head(first).setZero();
    z.col(s).tail(tokens - end).setZero();
    const Index first_row = law_.causal ? s : s - law_.position(s);
    z.col(s).segment(first, first_row - first).setConstant(masked);
    largest.segment(first, end - first) =
        largest.segment(first, end - first).cwiseMax(z.col(s).segment(first, end - first));
  }
  Eigen::VectorXf total = Eigen::VectorXf::Zero(tokens);
  for (Index s = 0; s < tokens; ++s) {
    const auto [first, end] = attending_rows(s);
    auto seen = z.col(s).segment(first, end - first);
    seen -= largest.segment(first, end - first);
    const std::span column(seen.data(), static_cast<std::size_t>(end - first));
    for (float& below : column) below = below < min_logit ? min_logit : below;
    seen = seen.array().exp();
    for (float& share : column) share = share < negligible ? 0.0F : share;
    total.segment(first, end - first) += seen;
  }
  for (Index s = 0; s < tokens; ++s) {
    const auto [first, end] = attending_rows(s);
    z.col(s).segment(first, end - first).array() /= total.segment(first, end - first).array();
  }
  return z;
}

Sample AttentionHead::logit_derivative(const HeadSample& head) const {
  const Index tokens = head.logits.rows();
  const auto scale = static_cast<float>(law_.scale());
  if (law_.scores.soft_cap == 0.0) return Sample::Constant(tokens, tokens, scale);
  const Sample t = (head.logits / static_cast<float>(law_.scores.soft_cap)).array().tanh();
  return scale * (1.0F - t.array().square());
}

Sample AttentionHead::pull_back(const Projection& p, const Sample& gradient, int heads) const {
  Sample g = law_.rope ? rotation_.rotate(gradient, -1.0F) : gradient;
  if (law_.qk_norm == QkNorm::none) return g;
  const auto features = static_cast<float>(law_.head_dim * (law_.qk_norm == QkNorm::full ? heads : 1));
  const Eigen::VectorXf along = g.cwiseProduct(p.normalised).rowwise().sum() / features;
  g -= along.asDiagonal() * p.normalised;
  g.array().colwise() *= inverse_or_one(p.rms).array();
  return g;
}

}  // namespace periscope::theory
