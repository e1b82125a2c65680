#include "theory/attention/grid_attention.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "sim/numerics/exact_sqrt.h"
#include "theory/attention/attention_pattern.h"
#include "theory/attention/pattern_products.h"
#include "theory/attention/token_rows.h"

namespace periscope::theory {
namespace {

/// Grid tokens per block of a product. With a causal mask a block skips the tokens that its last token does not see.
constexpr Index tokens_per_block = 8;

}  // namespace

/// Kernel of the values of all tokens, in units of its scale.
struct GridAttention::Values {
  Values(const Matrix& k, const TokenGrid& grid) : between(grid.between(k)), centred(between, scale_of(k)) {
    const Vector c = kinks_of(between, grid);
    kinks = (c / centred.scale).cast<float>();
    residual = residual_variance(grid.all(k.diagonal()), grid.diagonal(between, c), centred.scale).cast<float>();
  }
  Matrix between;
  CentredKernel centred;
  Eigen::VectorXf kinks;     // diagonal of C
  Eigen::VectorXf residual;  // diagonal of D
};

/// Averages A K Aᵀ over patterns A. Sums A W and (A W) U (A W)ᵀ + (A V) C (A V)ᵀ + A D Aᵀ, U = `centred.unit`.
class GridAttention::Sum {
 public:
  Sum(const Values& values, const TokenGrid& grid)
      : values_(values),
        mixed_(Sample::Zero(grid.size(), grid.nodes())),
        of_unit_(Sample::Zero(grid.size(), grid.size())) {}
  void add(const Sample& mixed, const Sample& kink_sums, const Sample& residual_part) {
    mixed_ += mixed;
    of_unit_.noalias() += kink_sums * values_.kinks.asDiagonal() * kink_sums.transpose();
    work_.noalias() = mixed * values_.centred.unit;
    of_unit_.noalias() += work_ * mixed.transpose();
    of_unit_ += residual_part;
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
    : law_(law), grid_(grid), query_head_(law, grid.positions()), key_head_(law, grid.tokens()) {}

void GridAttention::add_pattern(const Sample& logits, float sign, const Values& values, Sum& sum) const {
  const Index count = grid_.size();
  const Eigen::VectorXf& upper = grid_.upper_weight();
  const Eigen::VectorXf& kink = grid_.kink_weight();
  const Eigen::VectorXf root = values.residual.unaryExpr(exact_sqrt);
  Sample a(grid_.tokens(), count);                                                   // first Aᵀ, later √D Aᵀ
  Sample mixed = Sample::Zero(count, grid_.nodes());                                 // A W
  Sample kink_sums = Sample::Zero(count, static_cast<Index>(grid_.cells().size()));  // A V
  for (Index i = 0; i < count; ++i) {
    const Index end = end_seen(i);
    auto column = a.col(i);
    auto seen = column.head(end);
    seen = sign * logits.col(i).head(end);
    if (law_.scores.soft_cap > 0.0) {
      const auto cap = static_cast<float>(law_.scores.soft_cap);
      seen = cap * (seen / cap).array().tanh();
    }
    softmax_in_place(seen);
    mixed.row(i).head(std::min(end, grid_.singles())) = seen.head(std::min(end, grid_.singles())).transpose();
    Index cell = 0;
    for (const auto& [node, first, last] : grid_.cells()) {
      if (first >= end) break;
      const Index n = std::min(end, last) - first;
      const float cell_sum = seen.segment(first, n).sum();
      const float upper_sum = seen.segment(first, n).dot(upper.segment(first, n));
      mixed(i, node) += cell_sum - upper_sum;
      mixed(i, node + 1) += upper_sum;
      kink_sums(i, cell++) = seen.segment(first, n).dot(kink.segment(first, n));
    }
    seen = seen.cwiseProduct(root.head(end));
    const Index block_end = end_seen(std::min(count, i / tokens_per_block * tokens_per_block + tokens_per_block) - 1);
    column.segment(end, block_end - end).setZero();
  }
  Sample residual_part(count, count);
  for (Index j = 0; j < count; j += tokens_per_block) {
    const Index n = std::min(tokens_per_block, count - j);
    const Index end = end_seen(j + n - 1);
    residual_part.block(j, j, count - j, n).noalias() =
        a.block(0, j, end, count - j).transpose() * a.block(0, j, end, n);
  }
  mirror_lower(residual_part);
  sum.add(mixed, kink_sums, residual_part);
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
  const TokenRows keys(of_query_and_key, grid_);
  NormalStream numbers = numbers_of(stream);
  for (int done = 0; done < samples; done += 2) {
    Sample rows;
    const Sample normals = numbers.normals_float(queries.unit_factor.cols(), law_.head_dim);
    product_into(rows, factor_of(queries.unit_factor, queries.triangular), factor_of(normals));
    const Projection query = query_head_.project(law_.query, std::move(rows), queries.scale, unit, numbers);
    const Projection key =
        key_head_.project(law_.key, keys.draw(law_.head_dim, numbers), keys.scale(), keys.unit(), numbers);
    const Sample scaled = static_cast<float>(law_.scale()) * query.rotated;
    for (Index j = 0; j < grid_.size(); j += tokens_per_block) {
      const Index n = std::min(tokens_per_block, grid_.size() - j);
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
  for (const Index t : grid.positions()) seen += static_cast<double>(causal ? t + 1 : grid.tokens());
  constexpr double drawn = 60.0;  // cost of drawing a normal number, in floating-point operations
  constexpr double exponential = 20.0;
  const auto count = static_cast<double>(grid.size());
  const auto tokens = static_cast<double>(grid.tokens());
  return drawn / 2.0 * tokens * head_dim + seen * (2.0 * head_dim + exponential + 2.0 * count) +
         2.0 * count * static_cast<double>(grid.nodes() * (grid.nodes() + grid.size()));
}

}  // namespace periscope::theory
