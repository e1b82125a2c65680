#include "theory/attention/token_grid.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace periscope::theory {
namespace {

constexpr Index first_tokens = 32;       // number of single nodes with a causal mask
constexpr double default_ratio = 1.047;  // ratio of consecutive node positions, causal mask
constexpr double default_nodes = 120.0;  // number of nodes without a causal mask

}  // namespace

TokenGrid TokenGrid::of_all_tokens(Index tokens) {
  TokenGrid grid;
  grid.tokens_ = grid.singles_ = tokens;
  for (Index t = 0; t < tokens; ++t) grid.positions_.push_back(t);
  grid.interpolate(Vector::Zero(tokens));
  return grid;
}

TokenGrid::TokenGrid(Index tokens, bool causal, double refinement) : tokens_(tokens) {
  const Index singles = causal ? static_cast<Index>(refinement * first_tokens) : 0;
  // Each node needs its own pair of tokens; if the grid would keep most tokens, all tokens become nodes.
  const auto span = static_cast<double>(tokens - singles);
  const double nodes = causal ? refinement * std::log(static_cast<double>(tokens) / static_cast<double>(singles)) /
                                    std::log(default_ratio)
                              : refinement * default_nodes;
  if (!(span > 0.0) || !(2.0 * nodes + static_cast<double>(singles) < 0.75 * static_cast<double>(tokens))) {
    *this = of_all_tokens(tokens);
    return;
  }
  const auto cells = static_cast<Index>(std::ceil(nodes));
  const auto position_of = [&](Index i) {  // node i = 0 … cells; the last is at the end of the sequence
    const double share = static_cast<double>(i) / static_cast<double>(cells);
    const auto begin = static_cast<double>(singles);
    return causal ? begin * std::pow(static_cast<double>(tokens) / begin, share) : begin + span * share;
  };
  singles_ = singles;
  for (Index t = 0; t < singles; ++t) positions_.push_back(t);
  for (Index i = 0, free = singles; i < cells; ++i) {
    const Index at = i + 1 == cells ? tokens - 2 : std::max<Index>(std::lround(position_of(i)), free);
    if (at < free || at + 1 >= tokens) continue;
    positions_.push_back(at);
    positions_.push_back(at + 1);
    free = at + 2;
    ++pairs_;
  }
  const Vector position = Vector::LinSpaced(tokens, 1.0, static_cast<double>(tokens));
  interpolate(causal ? Vector(position.cwiseInverse()) : position);
}

void TokenGrid::interpolate(const Vector& coordinate) {
  upper_ = Eigen::VectorXf::Zero(tokens_);
  Vector at(nodes());
  for (Index i = 0; i < nodes(); ++i) {
    const auto k = static_cast<std::size_t>(first_of(i));
    at(i) =
        i < singles_ ? coordinate(positions_[k]) : 0.5 * (coordinate(positions_[k]) + coordinate(positions_[k + 1]));
  }
  Vector node_weights = Vector::Zero(nodes());
  node_weights.head(singles_).setOnes();
  for (Index t = 0; t < singles_; ++t) lower_.push_back(t);
  Matrix own = Matrix::Zero(nodes(), nodes());  // WᵀW
  own.diagonal().head(singles_).setOnes();
  for (Index node = singles_, t = singles_; node + 1 < nodes(); ++node) {
    const bool last = node + 2 == nodes();
    Cell cell{node, t, t};
    const Index next = last ? tokens_ : positions_[static_cast<std::size_t>(first_of(node + 1))];
    for (; t < next; ++t) {
      const auto share = static_cast<float>((coordinate(t) - at(node)) / (at(node + 1) - at(node)));
      upper_(t) = share;
      lower_.push_back(node);
      const double f = share;
      node_weights(node) += 1.0 - f;
      node_weights(node + 1) += f;
      own(node, node) += (1.0 - f) * (1.0 - f);
      own(node + 1, node + 1) += f * f;
      own(node, node + 1) += f * (1.0 - f);
      own(node + 1, node) += f * (1.0 - f);
    }
    cell.end = t;
    cells_.push_back(cell);
  }
  constexpr float sum_of_kink = 3.0F;  // ratio of ∫∫ min(a, b)(1 − max(a, b)) = 1/12 to (∫ a(1 − a))² = 1/36
  kink_ = std::sqrt(sum_of_kink) * upper_.array() * (1.0F - upper_.array());
  kink_sums_ = Vector::Zero(static_cast<Index>(cells_.size()));
  Index index = 0;
  for (const auto& [node, first, end] : cells_) {
    double before = 0.0;
    double excess = 0.0;
    for (Index t = first; t < end; ++t) {  // upper_ increases with t
      excess += 2.0 * (1.0 - upper_(t)) * before;
      before += upper_(t);
    }
    kink_sums_(index++) = excess;
    own(node, node) -= excess;
    own(node + 1, node + 1) -= excess;
    own(node, node + 1) += excess;
    own(node + 1, node) += excess;
  }
  const auto count = static_cast<double>(tokens_);
  pair_weights_ = (node_weights * node_weights.transpose() - own) / (count * (count - 1.0));
  weights_ = Vector::Zero(size());
  weights_.head(singles_) = node_weights.head(singles_) / count;
  for (Index i = singles_; i < nodes(); ++i) {
    weights_.segment(first_of(i), 2).setConstant(0.5 * node_weights(i) / count);
  }
}

Vector TokenGrid::of_nodes(const Vector& values) const {
  Vector x(nodes());
  x.head(singles_) = values.head(singles_);
  for (Index i = singles_; i < nodes(); ++i) x(i) = 0.5 * values.segment(first_of(i), 2).sum();
  return x;
}

Matrix TokenGrid::between(const Matrix& values) const {
  Matrix half(nodes(), size());
  half.topRows(singles_) = values.topRows(singles_);
  for (Index i = singles_; i < nodes(); ++i)
    half.row(i) = 0.5 * (values.row(first_of(i)) + values.row(first_of(i) + 1));
  Matrix o(nodes(), nodes());
  o.leftCols(singles_) = half.leftCols(singles_);
  for (Index i = singles_; i < nodes(); ++i) o.col(i) = 0.5 * (half.col(first_of(i)) + half.col(first_of(i) + 1));
  for (Index i = singles_; i < nodes(); ++i) o(i, i) = values(first_of(i), first_of(i) + 1);
  return o;
}

Matrix TokenGrid::at_grid(const Matrix& between, const Vector& diagonal) const {
  const auto node_of = [&](Index i) { return i < singles_ ? i : singles_ + (i - singles_) / 2; };
  return Matrix::NullaryExpr(size(), size(), [&](Index i, Index j) {
    return i == j ? diagonal(node_of(i)) : between(node_of(i), node_of(j));
  });
}

Vector TokenGrid::all(const Vector& values) const {
  const Vector x = of_nodes(values);
  Vector y(tokens_);
  y.head(singles_) = x.head(singles_);
  for (const auto& [node, first, end] : cells_) {
    y.segment(first, end - first) =
        (x(node) + (x(node + 1) - x(node)) * upper_.segment(first, end - first).cast<double>().array()).matrix();
  }
  return y;
}

Vector TokenGrid::kinks(const Matrix& between) const {
  Vector c(static_cast<Index>(cells_.size()));
  for (Index i = 0; i < c.size(); ++i) {
    const Index node = cells_[static_cast<std::size_t>(i)].node;
    c(i) = between(node, node) - 2.0 * between(node, node + 1) + between(node + 1, node + 1);
  }
  return c;
}

Vector TokenGrid::diagonal(const Matrix& between, const Vector& kinks) const {
  Vector y(tokens_);
  y.head(singles_) = between.diagonal().head(singles_);
  Index cell = 0;
  for (const auto& [node, first, end] : cells_) {
    const Eigen::ArrayXd f = upper_.segment(first, end - first).cast<double>().array();
    const Eigen::ArrayXd kink = kink_.segment(first, end - first).cast<double>().array();
    y.segment(first, end - first) =
        ((1.0 - f).square() * between(node, node) + 2.0 * f * (1.0 - f) * between(node, node + 1) +
         f.square() * between(node + 1, node + 1) + kink.square() * kinks(cell++))
            .matrix();
  }
  return y;
}

void TokenGrid::add_interpolated(Eigen::MatrixXf& rows, const Eigen::MatrixXf& nodes,
                                 const Eigen::MatrixXf& kinks) const {
  for (Index j = 0; j < rows.cols(); ++j) {
    auto row = rows.col(j).array();
    row.head(singles_) += nodes.col(j).head(singles_).array();
    Index cell = 0;
    for (const auto& [node, first, end] : cells_) {
      const float from = nodes(node, j);
      const float step = nodes(node + 1, j) - from;
      row.segment(first, end - first) += from + step * upper_.segment(first, end - first).array() +
                                         kinks(cell++, j) * kink_.segment(first, end - first).array();
    }
  }
}

void TokenGrid::add_node_sums(const Eigen::Ref<const Eigen::VectorXf>& x, Eigen::Ref<Eigen::VectorXf> sums) const {
  const Index singles = std::min(singles_, x.size());
  sums.head(singles) += x.head(singles);
  for (const auto& [node, first, end] : cells_) {
    if (first >= x.size()) break;
    const auto part = x.segment(first, std::min(end, x.size()) - first);
    const float upper = part.dot(upper_.segment(first, part.size()));
    sums(node) += part.sum() - upper;
    sums(node + 1) += upper;
  }
}

double TokenGrid::mean_of_pairs(const Matrix& values) const {
  if (tokens_ < 2) return std::numeric_limits<double>::quiet_NaN();
  return pair_weights_.cwiseProduct(between(values)).sum();
}

}  // namespace periscope::theory
