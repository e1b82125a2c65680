#include "theory/first_steps/update_law.h"

#include <Eigen/Cholesky>
#include <Eigen/Eigenvalues>
#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "theory/predict/normal_stream.h"

namespace periscope::theory {
namespace {

/// Pairs ±z of normal vectors. The means of a single entry are off by some percent, of different sign for every entry;
/// they are averaged over thousands of entries.
constexpr Eigen::Index sampled_pairs = 128;

/// Takes the place of an ε of 0, so that an entry without any gradient stays.
constexpr double least = 1e-30;

/// One step of AdamW's memory on entries; returns m̂/(√v̂ + ε).
template <class Array>
Array adam_step(const OptimizerLaw& o, int step, double clip, const Array& gradient, Array& mean, Array& square) {
  using Real = typename Array::Scalar;
  // 1 − β in double: in float 0.999999999 is 1.
  const auto keep = [](double beta) { return static_cast<Real>(beta); };
  const auto take = [](double beta) { return static_cast<Real>(1.0 - beta); };
  const Array g = static_cast<Real>(clip) * gradient;
  mean = keep(o.beta1) * mean + take(o.beta1) * g;
  square = keep(o.beta2) * square + take(o.beta2) * g.square();
  const auto first = static_cast<Real>(1.0 - std::pow(o.beta1, step));
  const auto second = static_cast<Real>(1.0 - std::pow(o.beta2, step));
  return (mean / first) / ((square / second).sqrt() + static_cast<Real>(std::max(o.eps, least)));
}

}  // namespace

UpdateLaw::UpdateLaw(const OptimizerLaw& optimizer, std::vector<double> clips, double sign_constant_factor)
    : optimizer_(optimizer), clips_(std::move(clips)), factor_(sign_constant_factor) {
  const int n = steps();
  weights_ = Matrix::Zero(n, n);
  if (!optimizer_.adam) {
    for (int t = 0; t < n; ++t) {
      if (t > 0) weights_.row(t) = left_by(static_cast<std::size_t>(t)) * weights_.row(t - 1);
      for (int b = 0; b <= t; ++b) {
        weights_(t, b) += optimizer_.rates[static_cast<std::size_t>(t)] * std::pow(optimizer_.momentum, t - b) *
                          clips_[static_cast<std::size_t>(b)];
      }
    }
  } else if (n > 1) {
    NormalStream numbers({.seed = 0x5eed, .replicate = 0, .place = 0});
    normals_ = numbers.normals(sampled_pairs, n);
    // Whitened, so that linear functions of the gradients have their exact means.
    const Matrix moment = normals_.transpose() * normals_ / static_cast<double>(sampled_pairs);
    normals_ = moment.llt().matrixL().solve(normals_.transpose()).transpose();
  }
}

double UpdateLaw::kept(Eigen::Index done) const {
  double product = 1.0;
  for (Eigen::Index s = 0; s < done; ++s) product *= left_by(static_cast<std::size_t>(s));
  return product;
}

UpdateLaw::Moments UpdateLaw::moments(const Matrix& c) const {
  const Eigen::Index n = c.rows();
  Moments result{Vector::Zero(n), 0.0};
  if (n == 0) return result;
  if (!optimizer_.adam) {
    result.slope = weights_.row(n - 1).head(n).transpose();
    result.square = result.slope.dot(c * result.slope);
    return result;
  }
  const double top = c.diagonal().maxCoeff();
  if (!(top > 0.0)) return result;
  if (n == 1) {
    const double s = std::sqrt(c(0, 0)) * clips_[0];
    const double rate = optimizer_.rates[0];
    // E u a/s² and E u² of u = a/(|a| + ε) by the midpoint rule in |a|.
    constexpr int nodes = 512;
    constexpr double reach = 5.0;
    double slope = 0.0;
    double square = 0.0;
    for (int i = 0; i < nodes; ++i) {
      const double z = reach * (i + 0.5) / nodes;
      const double weight = 2.0 / std::sqrt(2.0 * std::numbers::pi) * std::exp(-0.5 * z * z) * reach / nodes;
      const double u = s * z / (s * z + optimizer_.eps);
      slope += weight * u * z / s;
      square += weight * u * u;
    }
    result.slope(0) = factor_ * rate * slope * clips_[0];
    result.square = rate * rate * square;
    return result;
  }
  Matrix regular = c;
  regular.diagonal().array() += 1e-9 * top;
  Eigen::LLT<Matrix> factor(regular);
  if (factor.info() != Eigen::Success) {
    const Eigen::SelfAdjointEigenSolver<Matrix> solver(c);
    regular = solver.eigenvectors() * solver.eigenvalues().cwiseMax(1e-6 * top).asDiagonal() *
              solver.eigenvectors().transpose();
    factor.compute(regular);
  }
  const Matrix lower = factor.matrixL();
  const auto normals = normals_.leftCols(n);
  const Matrix gradients = normals * lower.transpose();  // [samples, n]; −z gives −U, which adds the same
  using Array = Eigen::ArrayXd;
  Array mean = Array::Zero(sampled_pairs);
  Array square = Array::Zero(sampled_pairs);
  Array sum = Array::Zero(sampled_pairs);
  for (Eigen::Index t = 0; t < n; ++t) {
    const auto i = static_cast<std::size_t>(t);
    const Array g = gradients.col(t).array();
    sum = left_by(i) * sum +
          optimizer_.rates[i] * adam_step<Array>(optimizer_, static_cast<int>(t) + 1, clips_[i], g, mean, square);
  }
  const Vector with = normals.transpose() * sum.matrix() / static_cast<double>(sampled_pairs);
  result.slope = factor_ * lower.transpose().triangularView<Eigen::Upper>().solve(with);
  result.square = sum.square().mean();
  return result;
}

Eigen::MatrixXf UpdateLaw::taken_off(const std::vector<Eigen::MatrixXf>& gradients) const {
  const auto n = static_cast<Eigen::Index>(gradients.size());
  const Eigen::Index rows = gradients.front().rows();
  const Eigen::Index cols = gradients.front().cols();
  using Array = Eigen::ArrayXXf;
  Array sum = Array::Zero(rows, cols);
  if (!optimizer_.adam) {
    for (Eigen::Index b = 0; b < n; ++b) {
      sum += static_cast<float>(weights_(n - 1, b)) * gradients[static_cast<std::size_t>(b)].array();
    }
    return sum.matrix();
  }
  Array mean = Array::Zero(rows, cols);
  Array square = Array::Zero(rows, cols);
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const Array g = gradients[i].array();
    sum = static_cast<float>(left_by(i)) * sum +
          static_cast<float>(factor_ * optimizer_.rates[i]) *
              adam_step<Array>(optimizer_, static_cast<int>(i) + 1, clips_[i], g, mean, square);
  }
  return sum.matrix();
}

}  // namespace periscope::theory
