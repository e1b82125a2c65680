#include "theory/first_steps/moved_fields.h"

#include <cmath>

namespace periscope::theory {
namespace {

using Index = Eigen::Index;

}  // namespace

Sampled both_signs(const Sampled& x) {
  Sampled both(x.rows(), 2 * x.cols());
  both.leftCols(x.cols()) = x;
  both.rightCols(x.cols()) = -x;
  return both;
}

Sampled ReadHistory::cross_with(const MovedInput& input, const TokensNow& now) const {
  const Index n = now.trained();
  Sampled cross = input.cross.leftCols(n) * keep_.head(n).asDiagonal();
  const float share = 1.0F / static_cast<float>(follows_.cols());
  cross.noalias() += share * (input.follows * follows_.topRows(n).transpose());
  cross.noalias() += share * (input.wanders * wanders_.topRows(n).transpose());
  return cross;
}

void ReadHistory::append(const MovedInput& input, const TokensNow& now, const Eigen::VectorXf& keep,
                         const Sampled& cross) {
  const Index first = now.trained();
  const Index count = now.next();
  keep_.segment(first, count) = keep.head(count);
  follows_.middleRows(first, count) = input.follows.topRows(count);
  wanders_.middleRows(first, count) = input.wanders.topRows(count);
  seen_.block(first, 0, count, first) = cross.topRows(count);
  seen_.block(0, first, first, count) = cross.topRows(count).transpose();
  seen_.block(first, first, count, count) = input.own.topLeftCorner(count, count).cast<float>();
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

double RowMoments::mean_square() const {
  double sum = 0.0;
  for (const UpdateLaw::Moments& m : of_row) sum += m.square;
  return sum / static_cast<double>(of_row.size());
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
  for (const Matrix& c : covariance) rows.of_row.push_back(law.moments(0.5 * (c + c.transpose())));
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

FieldMover::FieldMover(const Sampled& initial, const MovedInput& input, const ReadHistory& history,
                       const TokensNow& now, const UpdateLaw& law, int width, StepFault fault)
    : input_(input), now_(now), law_(law), width_(width), fault_(fault) {
  const Sampled before = now.square_of(initial);
  keep_.resize(now.count());
  for (Index s = 0; s < now.count(); ++s) {
    keep_(s) = before(s, s) > 0 ? input.cross(s, now.token(s)) / before(s, s) : 1.0F;
  }
  const Sampled kept = keep_.asDiagonal() * before * keep_.asDiagonal();
  const Sampled follow = (input.follows * input.follows.transpose() + input.wanders * input.wanders.transpose()) /
                         static_cast<float>(input.follows.cols());
  fresh_factor_ = clipped_factor_of(input.own - (kept + follow).cast<double>());
  true_cross_ = history.cross_with(input, now);
  cross_ = seen_kernel(true_cross_, fault);
  seen_ = seen_kernel(history.seen(now), fault);
  response_ = decayed(input.response, law, now);
}

MovedFields FieldMover::move(const RowFields& fields, double variance, NormalStream projection,
                             NormalStream& fresh) const {
  const double left = law_.kept(now_.done);
  const double spread = left * std::sqrt(variance * width_);
  const auto width = static_cast<float>(width_);
  const Index rows = fields.before.cols();
  const Sampled gradient = fields.gradient.topRows(now_.trained());
  const RowMoments moments = row_moments(seen_, gradient, now_, law_);
  MovedFields moved{.values = {}, .update_square = 0.0, .slope = moments.slopes(now_), .v = {}, .w = {}};
  const Sampled weighted = moved.slope.cwiseProduct(gradient);
  moved.v = cross_ * weighted;
  Matrix noise = width_ * (moments.mean_square() * input_.own -
                           (moved.v * moved.v.transpose()).cast<double>() / static_cast<double>(rows));
  const Index held = now_.tokens.held_out();
  moved.update_square = (width_ * width_ * moved.v.bottomRows(held).squaredNorm() / static_cast<double>(rows) +
                         noise.diagonal().tail(held).sum() +
                         std::pow(1.0 - left, 2) * variance * width_ * input_.own.diagonal().tail(held).sum()) /
                        static_cast<double>(held);
  if (fault_ == StepFault::no_noise) noise.setZero();
  moved.values = static_cast<float>(left) * keep_.asDiagonal() * now_.rows_of(fields.before);
  moved.values += static_cast<float>(variance * width_) * (response_ * gradient) - width * moved.v;
  const Index channels = input_.follows.cols();
  const Index half = (rows + 1) / 2;  // of an odd number, as a vocabulary may be, the last of the first half is alone
  const auto add = [&](const Sampled& random) { moved.values += both_signs(random).leftCols(rows); };
  add(static_cast<float>(spread / std::sqrt(static_cast<double>(channels))) *
      ((input_.follows + input_.wanders) * projection.normals_float(channels, half)));
  add(static_cast<float>(spread) * (fresh_factor_ * fresh.normals_float(fresh_factor_.cols(), half)));
  const Sampled noise_factor = clipped_factor_of(noise);
  add(noise_factor * fresh.normals_float(noise_factor.cols(), half));
  if (!law_.is_linear() && now_.done > 0) {
    // U depends on the direction of the gradients alone: what a token adds along what is there already changes nothing.
    moved.w = seen_ * weighted;
    const Eigen::RowVectorXf norm = weighted.cwiseProduct(moved.w).colwise().sum();
    const Eigen::RowVectorXf inverse = norm.unaryExpr([](float q) { return q > 0 ? 1.0F / q : 0.0F; });
    moved.w = moved.w.cwiseProduct(moved.slope) * inverse.asDiagonal();
  }
  return moved;
}

}  // namespace periscope::theory
