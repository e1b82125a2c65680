#include "theory/passes/kernel_profile.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <utility>

namespace periscope::theory {

void KernelProfile::write(int index, Signal signal, const ChannelKernel& x) {
  const Vector q = x.total.product.diagonal();
  set(Statistic::second_moment, signal, index, mean(q));
  set(Statistic::variance, signal, index, mean(q - x.total.mean.diagonal()));
  set(Statistic::mean, signal, index, 0.0);
  compute_tails(x.second_moments());
  set(Statistic::kurtosis, signal, index, kurtosis_);
  set(Statistic::maximum, signal, index, maximum_);
  set(Statistic::token_cosine, signal, index, cosine(x.total.product));
}

void KernelProfile::write_sum(int depth, const ChannelKernel& x) {
  compute_tails(x.second_moments());
  set(Statistic::maximum, Signal::sum, depth, maximum_);
}

double KernelProfile::cosine(const Matrix& k) const {
  if (grid_ != nullptr) {
    const Vector inverse = k.diagonal().cwiseSqrt().cwiseInverse();
    return grid_->mean_of_pairs(inverse.asDiagonal() * k * inverse.asDiagonal());
  }
  const Index tokens = k.rows() / sequences_;
  double sum = 0.0;
  for (Index first = 0; first < k.rows(); first += tokens) {
    sum += token_cosine(k.block(first, first, tokens, tokens)) / sequences_;
  }
  return sum;
}

void KernelProfile::write(int depth, const StreamEnds& ends, const KernelStreams& streams) {
  const int parts = ends.parts_of_stream();
  if (parts > 1 && !streams.are_equal()) {
    // Writes every part in turn, then replaces the result by the mean over parts.
    std::map<Statistic, double> means;
    for (std::size_t i = 0; i < streams.count(); ++i) {
      write(depth, Signal::x_out, streams[i]);
      for (const auto& [key, curve] : profile_.curves) {
        if (key.second == CurvePlace(Signal::x_out))
          means[key.first] += curve.value[static_cast<std::size_t>(depth)] / parts;
      }
    }
    for (const auto& [statistic, mean] : means) set(statistic, Signal::x_out, depth, mean);
    maximum_known_ = false;
    return;
  }
  for (std::size_t i = 0; i < streams.count(); ++i) {
    if (ends.names[i] && (i == 0 || *ends.names[i] != Signal::x_out)) write(depth, *ends.names[i], streams[i]);
  }
}

Profile KernelProfile::take() {
  if (!maximum_known_) profile_.curves.erase({Statistic::maximum, Signal::x_out});
  return std::move(profile_);
}

void KernelProfile::write_branch(int sublayer, double scale, const TokenKernel& stream, const TokenKernel& branch) {
  const Vector ratio = (branch.product.diagonal().array() / stream.product.diagonal().array()).sqrt();
  set(Statistic::branch_ratio, Signal::B_out, sublayer, scale * mean(ratio));
  set(Statistic::branch_cosine, Signal::B_out, sublayer, 0.0);
}

void KernelProfile::compute_tails(Matrix second_moments) {
  // x_in equals the previous x_out and, without a norm B, B_out equals f_out.
  if (second_moments.rows() == last_.rows() && second_moments.cols() == last_.cols() && second_moments == last_) return;
  last_ = std::move(second_moments);
  const Matrix& v = last_;
  const double n = width_;
  kurtosis_ = 3.0 * (n - 1.0) / (n + 1.0);
  if (v.cols() == 1) {
    maximum_ = expected_maximum(grid_ != nullptr ? grid_->all(v.col(0)) : Vector(v.col(0)), width_);
    return;
  }
  const Vector sums = v.rowwise().sum();
  const Vector squares = v.rowwise().squaredNorm();
  kurtosis_ *= (n * squares.array() / sums.array().square()).mean();
  maximum_ = expected_maximum(v.reshaped(), 1);
}

void KernelProfile::set(Statistic statistic, Signal signal, int index, double value) {
  profile_.entry(statistic, signal, model_.curve_length(signal), index) = value;
}

std::vector<double> angular_distances(const std::vector<Vector>& step_cosine, const TokenGrid* grid) {
  constexpr std::size_t max_depths = 513;
  const std::size_t depths = step_cosine.size() + 1;
  if (depths > max_depths) return {};
  std::vector<double> distance(depths * depths, 0.0);
  for (std::size_t i = 0; i < depths; ++i) {
    Vector cosine = Vector::Ones(step_cosine.empty() ? 0 : step_cosine[0].size());
    for (std::size_t j = i + 1; j < depths; ++j) {
      cosine = cosine.cwiseProduct(step_cosine[j - 1]);
      const Vector angle = cosine.unaryExpr([](double c) { return std::acos(std::clamp(c, -1.0, 1.0)); });
      const double mean = grid != nullptr ? grid->mean(angle) : angle.mean();
      distance[i * depths + j] = distance[j * depths + i] = mean / std::numbers::pi;
    }
  }
  return distance;
}

}  // namespace periscope::theory
