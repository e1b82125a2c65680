#include "theory/first_steps/trained_norm.h"

#include <cmath>

namespace periscope::theory {

TrainedNorm::TrainedNorm(const StackSpec& spec, const TrainingTokens& tokens, bool used, double gain)
    : norm_(norm_use(spec.model)),
      used_(used),
      gamma_(spec.model.gamma),
      gain_(used ? gain * gamma_ : gain),
      slopes_(tokens.trained()),
      output_(used ? tokens.trained() : 0, spec.model.width) {}

TrainedNorm::Passed TrainedNorm::forward(SignalParts& x, const Vector& correction, const CurrentTokens& now) {
  Vector slope = Vector::Constant(now.count(), gain_);
  if (used_) {
    // The first channel is the coordinate along the feature mean (T25).
    if (subtracts_mean(norm_.kind)) {
      for (Sampled* part : {&x.initial, &x.independent, &x.coherent}) part->col(0).setZero();
    }
    const Vector square = x.total().rowwise().squaredNorm().cast<double>() / norm_.width + correction;
    const Matrix product = square.asDiagonal();
    const NormLaw& law = law_of(norm_.kind);
    slope = law.slope(law.trace({product, Matrix::Zero(product.rows(), product.cols())}, norm_), norm_, gain_);
  }
  x.scale(slope);
  Sampled response = slope.cast<float>() * past(now).cast<float>().transpose();
  slopes_.segment(now.trained(), now.next()) = slope.head(now.next());
  if (used_) {
    const Sampled z = x.total();
    const Sampled before = output_.topRows(now.trained());
    const auto inverse = [](const Sampled& rows) {
      return Eigen::VectorXf(rows.rowwise().norm().unaryExpr([](float n) { return n > 0 ? 1.0F / n : 0.0F; }));
    };
    const Sampled cosine = inverse(z).asDiagonal() * (z * before.transpose()) * inverse(before).asDiagonal();
    const float directions = subtracts_mean(norm_.kind) ? 3.0F : 2.0F;
    response = response.cwiseProduct(Sampled(1.0F - (directions - cosine.array().square()) / norm_.width));
    output_.middleRows(now.trained(), now.next()) = z.topRows(now.next());
  }
  return {.slope = slope, .response = response};
}

void TrainedNorm::forward(TrainedSignal& signal, const CurrentTokens& now) {
  const Passed passed = forward(signal.x, signal.correction.diagonal(), now);
  signal.correction = passed.slope.asDiagonal() * signal.correction * passed.slope.asDiagonal();
  signal.response = signal.response.cwiseProduct(passed.response);
}

Sampled TrainedNorm::backward(Sampled gradients, const CurrentTokens& now, double& square) const {
  if (used_) {
    const Sampled z = output_.middleRows(now.trained(), now.next());
    const Sampled of_gains = gradients.cwiseProduct(z) / static_cast<float>(gamma_);
    square += of_gains.colwise().sum().squaredNorm();
    if (facts_of(norm_.kind).has_bias) square += std::pow(gain_ / gamma_, 2) * gradients.colwise().sum().squaredNorm();
    const double length = formula_of(norm_.kind).count(norm_.width) * gain_ * gain_;
    const Eigen::VectorXf along = of_gains.rowwise().sum() * static_cast<float>(gamma_ / length);
    gradients -= along.asDiagonal() * z;
    if (subtracts_mean(norm_.kind)) gradients.col(0).setZero();
  }
  return slopes_.segment(now.trained(), now.next()).cast<float>().asDiagonal() * gradients;
}

}  // namespace periscope::theory
