#include "theory/first_steps/moved_norm.h"

namespace periscope::theory {

Vector slope_of(const Vector& square, const NormUse& norm, double gamma) {
  const TokenKernel kernel = TokenKernel::of_independent_features(Matrix(square.asDiagonal()), norm.width);
  return norm_slope(norm_trace(kernel, norm), norm, gamma);
}

Vector ratio(const Vector& a, const Vector& b) { return (b.array() == 0.0).select(0.0, a.array() / b.array()); }

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
  if (passed_.size() > 0 && gain != 0.0) {  // nothing comes out of a norm with gain 0, and goes back
    const Eigen::VectorXf along = gradients.cwiseProduct(passed_).rowwise().mean() / static_cast<float>(gain * gain);
    gradients -= along.asDiagonal() * passed_;
  }
  return times_.segment(now.trained(), now.next()).cast<float>().asDiagonal() * gradients;
}

}  // namespace periscope::theory
