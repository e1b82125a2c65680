#include "theory/attention/grid_attention.h"

#include <Eigen/Eigenvalues>
#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "theory/attention/attention_pattern.h"
#include "theory/attention/pattern_products.h"

namespace periscope::theory {
namespace {

/// Kept tokens whose products are taken together. Behind a causal mask they then leave out the tokens that the last of
/// them does not see.
constexpr Index keys_at_once = 8;

/// F with F Fᵀ = x, or what is nearest to a kernel: where few patterns were averaged, x may have negative eigenvalues.
Matrix factor_of(const Matrix& x) {
  const Eigen::SelfAdjointEigenSolver<Matrix> solver(x);
  return solver.eigenvectors() * solver.eigenvalues().cwiseMax(0.0).cwiseSqrt().asDiagonal();
}

/// What tokens have in common with themselves beyond `shared`, in units of `scale` [T]: 0 where that is rounding.
Vector own_part(const Vector& all, const Vector& shared, double scale) {
  constexpr double alike = 1e-12;
  const double largest = all.cwiseAbs().maxCoeff();
  return ((all - shared).array() > alike * largest).select((all - shared) / scale, 0.0);
}

/// C, 0 where few patterns or rounding make it negative.
Vector folds_of(const Matrix& between, const TokenGrid& grid) { return grid.folds(between).cwiseMax(0.0); }

}  // namespace

/// The kernel of all tokens' values, in units of its scale.
struct GridAttention::Values {
  Values(const Matrix& k, const TokenGrid& grid) : between(grid.between(k)), centred(between, scale_of(k)) {
    const Vector c = folds_of(between, grid);
    folds = (c / centred.scale).cast<float>();
    own = own_part(grid.all(k.diagonal()), grid.diagonal(between, c), centred.scale).cast<float>();
  }
  Matrix between;
  CentredKernel centred;
  Eigen::VectorXf folds;  // C
  Eigen::VectorXf own;    // D
};

/// The kernel of all tokens' keys, in units of its scale.
struct GridAttention::Keys {
  Keys(const Matrix& k, const TokenGrid& grid) : scale(scale_of(k)) {
    const Matrix between = grid.between(k) / scale;
    const Matrix f = factor_of(between);
    const Vector c = folds_of(between, grid);
    factor = f.cast<float>();
    folds = c.cwiseSqrt().cast<float>();
    unit = grid.all(k.diagonal()) / scale;
    own = own_part(unit, grid.diagonal(f * f.transpose(), c), 1.0).cwiseSqrt().cast<float>();
  }
  double scale;
  Vector unit;            // the kernel's diagonal
  Sample factor;          // of O
  Eigen::VectorXf folds;  // √C
  Eigen::VectorXf own;    // √D
};

/// The mean over patterns of A K Aᵀ: A W of the mean pattern, and (A W) unit (A W)ᵀ + A D Aᵀ.
class GridAttention::Sum {
 public:
  Sum(const Values& values, const TokenGrid& grid)
      : values_(values),
        mixed_(Sample::Zero(grid.size(), grid.nodes())),
        of_unit_(Sample::Zero(grid.size(), grid.size())) {}
  void add(const Sample& mixed, const Sample& folded, const Sample& of_own) {
    mixed_ += mixed;
    of_unit_.noalias() += folded * values_.folds.asDiagonal() * folded.transpose();
    work_.noalias() = mixed * values_.centred.unit;
    of_unit_.noalias() += work_ * mixed.transpose();
    of_unit_ += of_own;
  }
  [[nodiscard]] Matrix mean(int patterns) const {
    const float share = 1.0F / static_cast<float>(patterns);
    const Matrix m = values_.centred.output_kernel(share * mixed_, share * of_unit_);
    return 0.5 * (m + m.transpose());
  }

 private:
  const Values& values_;
  Sample mixed_, of_unit_, work_;
};

GridAttention::GridAttention(const PatternLaw& law, const TokenGrid& grid)
    : law_(law), grid_(grid), query_head_(law, grid.kept()), key_head_(law, grid.tokens()) {}

Projection GridAttention::draw_keys(const Keys& keys, NormalStream& numbers) const {
  const Index e = law_.head_dim;
  const Sample nodes = keys.factor * numbers.normals_float(keys.factor.cols(), e);
  const Sample folds = keys.folds.asDiagonal() * numbers.normals_float(keys.folds.size(), e);
  Sample rows = numbers.normals_float(grid_.tokens(), e);
  const Eigen::VectorXf& upper = grid_.upper_share();
  const Eigen::VectorXf& fold = grid_.fold_share();
  for (Index j = 0; j < e; ++j) {
    auto row = rows.col(j).array();
    row *= keys.own.array();
    row.head(grid_.singles()) += nodes.col(j).head(grid_.singles()).array();
    Index cell = 0;
    for (const auto& [node, first, end] : grid_.cells()) {
      const float from = nodes(node, j);
      const float step = nodes(node + 1, j) - from;
      row.segment(first, end - first) += from + step * upper.segment(first, end - first).array() +
                                         folds(cell++, j) * fold.segment(first, end - first).array();
    }
  }
  return key_head_.project(law_.key, std::move(rows), keys.scale, keys.unit, numbers);
}

void GridAttention::add_pattern(const Sample& logits, float sign, const Values& values, Sum& sum) const {
  const Index kept = grid_.size();
  const Eigen::VectorXf& upper = grid_.upper_share();
  const Eigen::VectorXf& fold = grid_.fold_share();
  const Eigen::VectorXf root = values.own.cwiseSqrt();
  constexpr float least = -80.0F;  // as in AttentionHead::pattern
  constexpr float negligible = 2e-35F;
  Sample a(grid_.tokens(), kept);                                                // Aᵀ, and then √D Aᵀ
  Sample mixed = Sample::Zero(kept, grid_.nodes());                              // A W
  Sample folded = Sample::Zero(kept, static_cast<Index>(grid_.cells().size()));  // A V
  for (Index i = 0; i < kept; ++i) {
    const Index end = end_seen(i);
    auto column = a.col(i);
    auto seen = column.head(end);
    seen = sign * logits.col(i).head(end);
    if (law_.scores.soft_cap > 0.0) {
      const auto cap = static_cast<float>(law_.scores.soft_cap);
      seen = cap * (seen / cap).array().tanh();
    }
    seen.array() -= seen.maxCoeff();
    seen = seen.array().max(least).exp();
    seen = (seen.array() < negligible).select(0.0F, seen);
    seen /= seen.sum();
    mixed.row(i).head(std::min(end, grid_.singles())) = seen.head(std::min(end, grid_.singles())).transpose();
    Index cell = 0;
    for (const auto& [node, first, last] : grid_.cells()) {
      if (first >= end) break;
      const Index n = std::min(end, last) - first;
      const float both = seen.segment(first, n).sum();
      const float second = seen.segment(first, n).dot(upper.segment(first, n));
      mixed(i, node) += both - second;
      mixed(i, node + 1) += second;
      folded(i, cell++) = seen.segment(first, n).dot(fold.segment(first, n));
    }
    seen = seen.cwiseProduct(root.head(end));
    const Index of_block = end_seen(std::min(kept, i / keys_at_once * keys_at_once + keys_at_once) - 1);
    column.segment(end, of_block - end).setZero();
  }
  Sample of_own(kept, kept);
  for (Index j = 0; j < kept; j += keys_at_once) {
    const Index n = std::min(keys_at_once, kept - j);
    const Index end = end_seen(j + n - 1);
    of_own.block(j, j, kept - j, n).noalias() = a.block(0, j, end, kept - j).transpose() * a.block(0, j, end, n);
  }
  mirror_lower(of_own);
  sum.add(mixed, folded, of_own);
}

Matrix GridAttention::head_output_kernel(const Matrix& of_query_and_key, const Matrix& of_value, int samples,
                                         PatternStream stream) const {
  const Values values(of_value, grid_);
  Sum sum(values, grid_);
  Sample logits(grid_.tokens(), grid_.size());
  if (is_uniform(law_)) {
    logits.setZero();
    add_pattern(logits, 1.0F, values, sum);
    return sum.mean(1);
  }
  const ScaledKernel queries(of_query_and_key);
  const Vector unit = of_query_and_key.diagonal() / queries.scale;
  const Keys keys(of_query_and_key, grid_);
  NormalStream numbers = numbers_of(stream);
  for (int done = 0; done < samples; done += 2) {
    Sample rows;
    const Sample normals = numbers.normals_float(queries.unit_factor.cols(), law_.head_dim);
    product_into(rows, factor_of(queries.unit_factor, queries.triangular), factor_of(normals));
    const Projection query = query_head_.project(law_.query, std::move(rows), queries.scale, unit, numbers);
    const Projection key = draw_keys(keys, numbers);
    const Sample scaled = static_cast<float>(law_.scale()) * query.rotated;
    for (Index j = 0; j < grid_.size(); j += keys_at_once) {
      const Index n = std::min(keys_at_once, grid_.size() - j);
      const Index end = end_seen(j + n - 1);
      logits.block(0, j, end, n).noalias() = key.rotated.topRows(end) * scaled.middleRows(j, n).transpose();
    }
    const int patterns = std::min(2, samples - done);
    for (int i = 0; i < patterns; ++i) add_pattern(logits, i == 0 ? 1.0F : -1.0F, values, sum);
    if (stream.on_work != nullptr) (*stream.on_work)(patterns);
  }
  return sum.mean(samples);
}

double GridAttention::operations(const TokenGrid& grid, bool causal, int head_dim) {
  double seen = 0.0;
  for (const Index t : grid.kept()) seen += static_cast<double>(causal ? t + 1 : grid.tokens());
  constexpr double drawn = 60.0;  // a normal number costs as much as these operations of a product
  constexpr double exponential = 20.0;
  const auto kept = static_cast<double>(grid.size());
  const auto tokens = static_cast<double>(grid.tokens());
  return drawn / 2.0 * tokens * head_dim + seen * (2.0 * head_dim + exponential + 2.0 * kept) +
         2.0 * kept * static_cast<double>(grid.nodes() * (grid.nodes() + grid.size()));
}

}  // namespace periscope::theory
