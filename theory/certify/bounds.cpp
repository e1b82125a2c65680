#include "theory/certify/bounds.h"

#include <Eigen/Dense>
#include <algorithm>
#include <cassert>
#include <cmath>
#include <numbers>

namespace periscope::theory {

double gain_over_rms(const NormPass& n) { return n.gain == 0.0 ? 0.0 : n.gain / std::sqrt(n.mean_square + n.eps); }

double jacobian_norm(const NormPass& n) {
  const int directions = n.width - (subtracts_mean(n.kind) ? 2 : 1);  // number of directions orthogonal to x
  if (directions >= 1) return gain_over_rms(n);
  return n.eps == 0.0 ? 0.0 : gain_over_rms(n) * n.eps / (n.mean_square + n.eps);
}

double path_norm(const GradientPath& path) {
  double product = std::abs(path.beta) * path.unembedding.value_or(1.0);
  double smallest = product;
  for (const NormPass& norm : path.norms) {
    const double factor = jacobian_norm(norm);
    smallest = std::min(smallest, factor);
    product *= factor;
  }
  return smallest == 0.0 ? 0.0 : product;
}

double sharp_factor(const GradientPath& path) {
  return path.wrong_probability == 0.0 ? 0.0 : std::numbers::sqrt2 * path.wrong_probability * path_norm(path);
}

double sharp_entry_factor(const GradientPath& path) {
  if (path.unembedding || path.norms.size() > 1) return sharp_factor(path);
  const double constant = path.norms.empty() ? 1.0 : 0.5 * (1.0 + std::numbers::sqrt2);
  return constant / std::numbers::sqrt2 * sharp_factor(path);
}

double paper_factor(const GradientPath& path) {
  assert(path.norms.size() == 1);
  const NormPass& n = path.norms.front();
  return 4.0 * std::abs(path.beta) * n.gain / std::sqrt(n.mean_square);
}

double review_factor(const GradientPath& path) {
  return paper_factor(path) / static_cast<double>(path.norms.front().width);
}

double grown_second_moment(double stream, double branch, double cosine) {
  return stream * stream + branch * branch + 2.0 * branch * stream * cosine;
}

double normed_rms_bound(double max_gain, double bias_rms) { return max_gain + bias_rms; }

double massive_ceiling(double max_gain, double hidden, std::span<const double> x, std::span<const double> a) {
  using Row = Eigen::Map<const Eigen::VectorXd>;
  const Row xs(x.data(), static_cast<Eigen::Index>(x.size()));
  const Row as(a.data(), static_cast<Eigen::Index>(a.size()));
  // sin θ from the component of x orthogonal to a, because computing it from the cosine would cancel at small angles.
  const double along = xs.dot(as);
  const double sine = along >= 0.0 ? 1.0 : (xs - as * (along / as.squaredNorm())).norm() / xs.norm();
  return std::numbers::sqrt2 * max_gain * std::sqrt(static_cast<double>(a.size())) * hidden / (as.norm() * sine);
}

}  // namespace periscope::theory
