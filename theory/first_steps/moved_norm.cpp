#include "theory/first_steps/moved_norm.h"

namespace periscope::theory {

Vector slope_of(const Vector& square, const NormUse& norm, double gamma) {
  const TokenKernel kernel = TokenKernel::of_independent_features(Matrix(square.asDiagonal()), norm.width);
  return norm_slope(norm_trace(kernel, norm), norm, gamma);
}

Vector mean_square(const Sampled& rows) {
  return (rows.rowwise().squaredNorm() / static_cast<float>(rows.cols())).cast<double>();
}

void MovedNorm::append(const Vector& slope, const TokensNow& now) {
  times_.segment(now.trained(), now.next()) = slope.head(now.next());
}

void MovedNorm::append(const Vector& slope, const Sampled& follows, const TokensNow& now) {
  append(slope, now);
  passed_ = follows.topRows(now.next());
}

Sampled MovedNorm::back(Sampled gradients, double gain, const TokensNow& now) const {
  if (passed_.size() > 0) {
    const Eigen::VectorXf along = gradients.cwiseProduct(passed_).rowwise().mean() / static_cast<float>(gain * gain);
    gradients -= along.asDiagonal() * passed_;
  }
  return times_.segment(now.trained(), now.next()).cast<float>().asDiagonal() * gradients;
}

}  // namespace periscope::theory
