#include "theory/first_steps/first_matrix.h"

#include <cmath>

namespace periscope::theory {
namespace {

using Index = Eigen::Index;
using Use = ChainDraws::Use;

}  // namespace

void ReadHistory::read(const MovedSignal& input, const TokensNow& now) {
  const Index first = now.trained();
  const Index count = now.next();
  const auto width = static_cast<float>(context_.spec.model.width);
  total_ = input.x.total();
  square_ = total_.rowwise().squaredNorm().cast<double>() / width + input.correction.diagonal();
  cross_ = total_ * read_.topRows(first).transpose() / width;
  seen_now_ = seen_.topLeftCorner(first, first);
  response_ = decayed(input.response, context_.law, now);
  read_.middleRows(first, count) = total_.topRows(count);
  seen_.block(first, 0, count, first) = cross_.topRows(count);
  seen_.block(0, first, first, count) = cross_.topRows(count).transpose();
  seen_.block(first, first, count, count) = total_.topRows(count) * total_.topRows(count).transpose() / width +
                                            input.correction.topLeftCorner(count, count).cast<float>();
}

Sampled RowMoments::slopes(const TokensNow& now) const {
  Sampled result(now.trained(), static_cast<Index>(of_row.size()));
  const Index batch = now.tokens.batch;
  for (Index b = 0; b < now.done; ++b) {
    Eigen::RowVectorXf row(result.cols());
    for (Index j = 0; j < row.size(); ++j) row(j) = static_cast<float>(of_row[static_cast<std::size_t>(j)].slope(b));
    result.middleRows(b * batch, batch).rowwise() = row;
  }
  return result;
}

RowMoments row_moments(const Sampled& k, const Sampled& g, const TokensNow& now, const UpdateLaw& law) {
  const Index n = now.done;
  const Index batch = now.tokens.batch;
  std::vector<Matrix> covariance(static_cast<std::size_t>(g.cols()), Matrix::Zero(n, n));
  for (Index b = 0; b < n; ++b) {
    const Sampled product = k.middleCols(b * batch, batch) * g.middleRows(b * batch, batch);
    for (Index a = 0; a < n; ++a) {
      const Eigen::RowVectorXf sums =
          product.middleRows(a * batch, batch).cwiseProduct(g.middleRows(a * batch, batch)).colwise().sum();
      for (Index j = 0; j < g.cols(); ++j) covariance[static_cast<std::size_t>(j)](a, b) = sums(j);
    }
  }
  RowMoments rows;
  rows.of_row.reserve(covariance.size());
  rows.remainder.resize(g.cols());
  for (Index j = 0; j < g.cols(); ++j) {
    const Matrix& c = covariance[static_cast<std::size_t>(j)];
    const Matrix symmetric = 0.5 * (c + c.transpose());
    const UpdateLaw::Moments& m = rows.of_row.emplace_back(law.moments(symmetric));
    rows.remainder(j) = static_cast<float>(std::max(0.0, m.square - m.slope.dot(symmetric * m.slope)));
  }
  return rows;
}

Sampled seen_kernel(const Sampled& k, StepFault fault) {
  if (fault != StepFault::no_token_mean || k.size() == 0) return k;
  return k.array() - k.mean();
}

Sampled decayed(const Sampled& response, const UpdateLaw& law, const TokensNow& now) {
  Sampled result = static_cast<float>(law.kept(now.done)) * response;
  const Index batch = now.tokens.batch;
  for (Index b = 0; b < now.done; ++b) result.middleCols(b * batch, batch) *= static_cast<float>(law.kept(b));
  return result;
}

Sampled FirstMatrix::matrix() const {
  NormalStream numbers = context_.draws.numbers(place_.sublayer, Use::forward, place_.number);
  return static_cast<float>(place_.stddev) * numbers.normals_float(context_.spec.model.width, place_.drawn);
}

FirstMatrix::Fields FirstMatrix::now(const TokensNow& now) const {
  const double left = context_.law.kept(now.done);
  const double width = context_.spec.model.width;
  const double variance = place_.stddev * place_.stddev;
  const Index held = now.tokens.held_out();
  Fields fields{.values = static_cast<float>(left) * (history_.total() * matrix()), .slope = {}, .v = {}, .w = {}};
  if (now.done == 0) return fields;
  const Sampled gradient = gradient_.topRows(now.trained());
  const Sampled seen = seen_kernel(history_.seen(), context_.fault);
  const RowMoments moments = row_moments(seen, gradient, now, context_.law);
  fields.slope = moments.slopes(now);
  const Sampled weighted = fields.slope.cwiseProduct(gradient);
  fields.v = seen_kernel(history_.cross(), context_.fault) * weighted;
  fields.values -= static_cast<float>(width) * fields.v;
  if (!place_.transposed) {
    fields.values += static_cast<float>(variance * width) * (history_.response() * gradient);
  }
  if (context_.fault != StepFault::no_noise) {
    NormalStream numbers = context_.draws.numbers(place_.sublayer, Use::remainder, place_.number);
    const Sampled u =
        numbers.normals_float(static_cast<Index>(width), place_.drawn) * moments.remainder.cwiseSqrt().asDiagonal();
    fields.values += history_.total() * u;
  }
  const double random = moments.remainder.mean() + std::pow(1.0 - left, 2) * variance;
  fields.update_square = width *
                         (width * fields.v.bottomRows(held).squaredNorm() / static_cast<double>(place_.drawn) +
                          random * history_.square().tail(held).sum()) /
                         static_cast<double>(held);
  if (!context_.law.is_linear()) {
    // U depends on the direction of the gradients alone: a gradient along those that are already there does not change
    // it.
    fields.w = seen * weighted;
    const Eigen::RowVectorXf norm = weighted.cwiseProduct(fields.w).colwise().sum();
    const Eigen::RowVectorXf inverse = norm.unaryExpr([](float q) { return q > 0 ? 1.0F / q : 0.0F; });
    fields.w = fields.w.cwiseProduct(fields.slope) * inverse.asDiagonal();
  }
  return fields;
}

Sampled FirstMatrix::response(const Fields& fields, const Sampled& a, const Sampled& b) const {
  const auto rows = static_cast<float>(a.cols());
  const auto d = static_cast<float>(context_.spec.model.width);
  const auto variance = static_cast<float>(place_.stddev * place_.stddev);
  const Sampled cross = seen_kernel(history_.cross(), context_.fault);
  Sampled sum = (variance * d / rows) * history_.response().cwiseProduct(a * b.transpose());
  sum -= (d / rows) * cross.cwiseProduct(a * b.cwiseProduct(fields.slope).transpose());
  if (fields.w.size() > 0) sum += (d / rows) * (a.cwiseProduct(fields.v) * b.cwiseProduct(fields.w).transpose());
  return sum;
}

Sampled FirstMatrix::back(const Sampled& gradient, const TokensNow& now, double& square) {
  gradient_.middleRows(now.trained(), now.next()) = gradient;
  const auto each = static_cast<float>(place_.rows) / static_cast<float>(place_.drawn);
  const auto left = static_cast<float>(context_.law.kept(now.done));
  Sampled result;
  if (place_.transposed) {
    result = left * (gradient * matrix().transpose());
  } else {
    NormalStream numbers = context_.draws.numbers(place_.sublayer, Use::backward, place_.number);
    const float spread = left * static_cast<float>(place_.stddev) * std::sqrt(each);
    result = spread * (gradient * numbers.normals_float(place_.drawn, context_.spec.model.width));
  }
  if (!entries_.empty()) result -= each * (gradient * context_.law.taken_off(entries_));
  entries_.emplace_back(gradient.transpose() * history_.total().topRows(now.next()));
  square += each * entries_.back().cast<double>().squaredNorm();
  return result;
}

}  // namespace periscope::theory
