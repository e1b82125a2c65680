#include "theory/attention/grid_gradients.h"

#include <Eigen/Cholesky>
#include <Eigen/Eigenvalues>
#include <algorithm>
#include <array>
#include <cmath>

#include "theory/attention/attention_pattern.h"
#include "theory/attention/flushed_subnormals.h"
#include "theory/attention/pattern_products.h"
#include "theory/attention/token_rows.h"

namespace periscope::theory {
namespace {

constexpr Index queries_per_block = 64;

/// Returns rows first … first + count − 1 as a factor.
FloatFactor rows_of(const Sample& x, Index first, Index count) {
  FloatFactor rows = factor_of(x);
  rows.data += first;
  rows.rows = count;
  return rows;
}

/// Returns WᵀX [g, n] for X [T, n].
Sample node_sums(const TokenGrid& grid, const Sample& x) {
  Sample sums = Sample::Zero(grid.nodes(), x.cols());
  for (Index j = 0; j < x.cols(); ++j) grid.add_node_sums(x.col(j), sums.col(j));
  return sums;
}

/// Gaussian rows of all tokens with the gradient kernel W O Wᵀ + Λ. With S = √Λ⁻¹ W, SᵀS = L Lᵀ and
/// H = (1 + Lᵀ O L)^½ − 1, rows are √Λ z + W L⁻ᵀ H L⁻¹ Sᵀ z for normal z. Noise makes O indefinite, but hardly ever
/// W O Wᵀ + Λ; clamping only the eigenvalues of 1 + Lᵀ O L therefore avoids a bias.
class GradientRows {
 public:
  GradientRows(const FittedKernel& kernel, double scale, const TokenGrid& grid) : grid_(grid) {
    constexpr double smallest = 1e-9;  // relative to the largest variance
    const Index singles = grid.singles();
    Matrix between = kernel.between / scale;
    Vector variance = kernel.remainder / scale;
    variance.head(singles) = between.diagonal().head(singles);
    const double largest = variance.maxCoeff();
    variance = variance.cwiseMax(smallest * (largest > 0.0 ? largest : 1.0));
    between.diagonal().head(singles) -= variance.head(singles);
    root_ = variance.cwiseSqrt().cast<float>();
    inverse_root_ = variance.cwiseSqrt().cwiseInverse().cast<float>();
    const Matrix l = node_products(grid, variance.cwiseInverse()).llt().matrixL();
    const Index g = grid.nodes();
    const Eigen::SelfAdjointEigenSolver<Matrix> solver(Matrix::Identity(g, g) + l.transpose() * between * l);
    const Matrix back = l.transpose().triangularView<Eigen::Upper>().solve(solver.eigenvectors());
    const Vector h = solver.eigenvalues().cwiseMax(0.0).cwiseSqrt().array() - 1.0;
    map_ = (back * h.asDiagonal() * back.transpose()).cast<float>();
  }
  [[nodiscard]] Sample draw(Index features, NormalStream& numbers) const {
    Sample rows = numbers.normals_float(grid_.tokens(), features);
    const Sample nodes = map_ * node_sums(grid_, inverse_root_.asDiagonal() * rows);
    rows.array().colwise() *= root_.array();
    grid_.add_interpolated(rows, nodes, Sample::Zero(static_cast<Index>(grid_.cells().size()), features));
    return rows;
  }

 private:
  const TokenGrid& grid_;
  Eigen::VectorXf root_, inverse_root_;  // √Λ and its inverse [T]
  Sample map_;                           // L⁻ᵀ H L⁻¹ [g, g]
};

}  // namespace

/// Queries, keys, values and output gradients of one head, all tokens. Without scores, all are empty.
struct GridGradients::Head {
  Projection query, key;
  Sample value, cotangent;
};

/// Sums over patterns, in units of the scales of the kernels.
class GridGradients::Sums {
 public:
  Sums(const FittedKernel& cotangents, double scale, const TokenGrid& grid)
      : grid_(grid),
        between_((cotangents.between / scale).cast<float>()),
        remainder_((cotangents.remainder / scale).cast<float>()) {
    for (Part& part : parts_) {
      part.nodes = Matrix::Zero(grid.nodes(), grid.nodes());
      part.diagonal = Vector::Zero(grid.tokens());
    }
  }
  [[nodiscard]] float remainder(Index t) const { return remainder_(t); }
  /// Adds AᵀGA. `mixed`: (A W)ᵀ [g, T]; `sums`: AᵀW [T, g]; `squares`: Σ_t Λ_t A_ts² [T].
  void add_values(const Sample& mixed, const Sample& sums, const Eigen::VectorXf& squares) {
    const Sample wm = node_sums(grid_, mixed.transpose());
    const Sample weighted = mixed * remainder_.asDiagonal();
    Sample product;
    symmetric_product_into(product, factor_of(weighted), transposed(factor_of(mixed)));
    parts_[0].nodes += (product + wm.transpose() * between_ * wm).cast<double>();
    product_into(product, factor_of(sums), factor_of(between_));
    parts_[0].diagonal += (product.cwiseProduct(sums).rowwise().sum() + squares).cast<double>();
  }
  /// Adds the outer product of gradients [T, e] of queries (part 1) or keys (part 2).
  void add_outer_product(std::size_t part, const Sample& x) {
    const Sample sums = node_sums(grid_, x);
    Sample product;
    symmetric_product_into(product, factor_of(sums), transposed(factor_of(sums)));
    parts_[part].nodes += product.cast<double>();
    parts_[part].diagonal += x.rowwise().squaredNorm().cast<double>();
  }
  [[nodiscard]] Matrix restricted(std::size_t part, const GridFit& fit, double factor) const {
    return fit.restricted(factor * parts_[part].nodes, factor * parts_[part].diagonal);
  }

 private:
  struct Part {
    Matrix nodes;
    Vector diagonal;
  };
  const TokenGrid& grid_;
  Sample between_;
  Eigen::VectorXf remainder_;
  std::array<Part, 3> parts_;
};

GridGradients::GridGradients(const PatternLaw& law, const TokenGrid& grid, const GridFit& fit)
    : law_(law), grid_(grid), fit_(fit), head_(law, grid.tokens()) {}

void GridGradients::add_patterns(const Head& head, int patterns, Sums& sums) const {
  const Index tokens = grid_.tokens();
  const Index e = law_.head_dim;
  const bool scores = head.value.size() > 0;
  const auto scale = static_cast<float>(law_.scale());
  const auto cap = static_cast<float>(law_.scores.soft_cap);
  struct Pattern {
    Sample mixed, sums, dquery, dkey;
    Eigen::VectorXf squares;
  };
  std::vector<Pattern> all(static_cast<std::size_t>(patterns));
  for (Pattern& p : all) {
    p.mixed = Sample::Zero(grid_.nodes(), tokens);
    p.sums = Sample::Zero(tokens, grid_.nodes());
    p.squares = Eigen::VectorXf::Zero(tokens);
    if (!scores) continue;
    p.dquery = Sample::Zero(tokens, e);
    p.dkey = Sample::Zero(tokens, e);
  }
  Sample logits = Sample::Zero(tokens, queries_per_block);
  Sample da(tokens, scores ? queries_per_block : 0);
  Sample a(tokens, queries_per_block);
  const Eigen::VectorXf& upper = grid_.upper_weight();
  for (Index first = 0; first < tokens; first += queries_per_block) {
    const Index count = std::min(queries_per_block, tokens - first);
    const Index end = law_.end_seen(first + count - 1, tokens);
    if (scores) {
      multiply({.a = rows_of(head.key.rotated, 0, end),
                .b = transposed(rows_of(head.query.rotated, first, count)),
                .c = logits.data(),
                .c_column_step = tokens,
                .weight = scale});
      if (cap > 0.0F) logits.topLeftCorner(end, count) = (logits.topLeftCorner(end, count) / cap).array().tanh();
      multiply({.a = rows_of(head.value, 0, end),
                .b = transposed(rows_of(head.cotangent, first, count)),
                .c = da.data(),
                .c_column_step = tokens});
    }
    float sign = cap > 0.0F ? cap : 1.0F;
    for (Pattern& p : all) {
      for (Index i = 0; i < count; ++i) {
        const Index t = first + i;
        const Index n = law_.end_seen(t, tokens);
        auto seen = a.col(i).head(n);
        const auto z = logits.col(i).head(n);
        seen = sign * z;
        softmax_in_place(seen);
        grid_.add_node_sums(seen, p.mixed.col(t));
        if (t < grid_.singles()) {
          p.sums.col(t).head(n) += seen;
        } else {
          const Index node = grid_.lower_node(t);
          p.sums.col(node).head(n) += (1.0F - upper(t)) * seen;
          p.sums.col(node + 1).head(n) += upper(t) * seen;
          p.squares.head(n).array() += sums.remainder(t) * seen.array().square();
        }
        if (!scores) continue;
        const auto m = da.col(i).head(n);
        const float mean = seen.dot(m);
        seen.array() *= scale * (m.array() - mean);
        if (cap > 0.0F) seen.array() *= 1.0F - z.array().square();
        a.col(i).segment(n, end - n).setZero();
      }
      sign = -sign;
      if (!scores) continue;
      const FloatFactor dz = {.data = a.data(), .rows = end, .columns = count, .row_step = 1, .column_step = tokens};
      multiply({.a = transposed(dz),
                .b = rows_of(head.key.rotated, 0, end),
                .c = p.dquery.data() + first,
                .c_column_step = tokens});
      // The second pattern belongs to (−q, k); the sign of q cancels in the outer product.
      multiply({.a = dz,
                .b = rows_of(head.query.rotated, first, count),
                .c = p.dkey.data(),
                .c_column_step = tokens,
                .accumulate = true});
    }
  }
  for (const Pattern& p : all) {
    sums.add_values(p.mixed, p.sums, p.squares);
    if (!scores) continue;
    sums.add_outer_product(1, head_.pull_back(head.query, p.dquery, law_.query.heads));
    sums.add_outer_product(2, head_.pull_back(head.key, p.dkey, law_.key.heads));
  }
}

GridHeadGradients GridGradients::gradients(const Matrix& k, const Matrix& of_value, const Matrix& g, int samples,
                                           PatternStream stream) const {
  const FittedKernel cotangents = fit_.fitted(g);
  const double scale = scale_of(g);
  Sums sums(cotangents, scale, grid_);
  if (is_uniform(law_)) {
    add_patterns({}, 1, sums);
    const Matrix zero = Matrix::Zero(grid_.size(), grid_.size());
    return {.value = sums.restricted(0, fit_, scale), .query = zero, .key = zero};
  }
  const TokenRows inputs(k, grid_);
  const TokenRows values(of_value, grid_, TokenRows::Centred::yes);
  const GradientRows gradients(cotangents, scale, grid_);
  const Index e = law_.head_dim;
  NormalStream numbers = numbers_of(stream);
  for (int done = 0; done < samples; done += 2) {
    const int patterns = std::min(2, samples - done);
    {
      const FlushedSubnormals flushed;  // reset before on_work is called
      const auto project = [&](const ProjectionLaw& law) {
        return head_.project(law, inputs.draw(e, numbers), inputs.scale(), inputs.unit(), numbers);
      };
      Head head;
      head.query = project(law_.query);
      head.key = project(law_.key);
      head.value = values.draw(e, numbers);
      head.cotangent = gradients.draw(e, numbers);
      add_patterns(head, patterns, sums);
    }
    if (stream.on_work != nullptr) (*stream.on_work)(patterns);
  }
  const double scores = values.scale() * scale / samples;
  return {.value = sums.restricted(0, fit_, scale / samples),
          .query = sums.restricted(1, fit_, scores),
          .key = sums.restricted(2, fit_, scores)};
}

double GridGradients::operations(const TokenGrid& grid, bool causal, int head_dim) {
  const auto tokens = static_cast<double>(grid.tokens());
  const auto nodes = static_cast<double>(grid.nodes());
  const double seen = causal ? 0.5 * tokens * tokens : tokens * tokens;
  constexpr double drawn = 60.0;        // cost of drawing a normal number, in floating-point operations
  constexpr double elementwise = 60.0;  // softmax, sums over nodes, and the Jacobian of softmax
  return 2.0 * drawn * tokens * head_dim + seen * (6.0 * head_dim + elementwise) + 4.0 * tokens * nodes * nodes;
}

}  // namespace periscope::theory
