#include "theory/certify/bounded_set.h"

#include "tests/support/doctest.h"

#include <Eigen/SVD>
#include <cmath>
#include <random>

#include "tests/theory/plain_parameters.h"
#include "theory/certify/module_bounds.h"

namespace periscope::theory {
namespace {

using doctest::Approx;
using Index = Eigen::Index;

RowMatrix random_matrix(Index rows, Index cols, unsigned seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<double> normal;
  RowMatrix w(rows, cols);
  for (Index i = 0; i < w.size(); ++i) w.data()[i] = normal(engine);
  return w;
}

Vector random_vector(Index n, unsigned seed) { return random_matrix(1, n, seed).row(0).transpose(); }

BoundedSet anything(Index n) { return {Vector::Constant(n, -infinity), Vector::Constant(n, infinity), {}}; }

/// T2 in plain words, eps 0.
Vector plain_norm(NormKind kind, Vector x, const Vector& gain, const Vector& bias) {
  if (kind == NormKind::layer) x.array() -= x.mean();
  return (gain.array() * x.array() / std::sqrt(x.squaredNorm() / static_cast<double>(x.size()))).matrix() + bias;
}

constexpr Index width = 7;

TEST_CASE("T17: a norm's bound on one feature is attained") {
  const Vector gain = random_vector(width, 1);
  const Vector bias = random_vector(width, 2);
  for (const NormKind kind : {NormKind::rms, NormKind::layer}) {
    const Vector bound = normalised(anything(width), {kind, 0.0, gain, bias}).magnitude();
    for (Index k = 0; k < width; ++k) {
      // One spike, of the sign that adds to the bias: √D for RMSNorm, √(D−1) for LayerNorm.
      const Vector spike = Vector::Unit(width, k) * (gain[k] * bias[k] < 0.0 ? -1.0 : 1.0);
      const double reached = std::abs(plain_norm(kind, spike, gain, bias)[k]);
      const double d = kind == NormKind::rms ? width : width - 1;
      CHECK(reached == Approx(std::sqrt(d) * std::abs(gain[k]) + std::abs(bias[k])).epsilon(1e-14));
      CHECK(bound[k] == Approx(reached).epsilon(1e-9));
      CHECK(bound[k] >= reached);
    }
  }
}

TEST_CASE("T17: the bound of a linear map after a norm is attained") {
  const RowMatrix w = random_matrix(5, width, 3);
  const Vector b = random_vector(5, 4);
  const Vector gain = random_vector(width, 5);
  const Vector bias = random_vector(width, 6);
  for (const NormKind kind : {NormKind::rms, NormKind::layer}) {
    const BoundedSet x = normalised(anything(width), {kind, 0.0, gain, bias});
    const Vector bound = shifted(image_and_sums(w, x).set, b).magnitude();
    for (Index k = 0; k < w.rows(); ++k) {
      Vector best = gain.cwiseProduct(w.row(k).transpose());
      if (kind == NormKind::layer) best.array() -= best.mean();
      if (w.row(k).dot(bias) + b[k] < 0.0) best = -best;
      const double reached = std::abs(w.row(k).dot(plain_norm(kind, best, gain, bias)) + b[k]);
      CHECK(bound[k] == Approx(reached).epsilon(1e-9));
      CHECK(bound[k] >= reached);
    }
  }
}

TEST_CASE("eps takes a norm's bound down to what the norm of the input allows") {
  const Vector gain = Vector::Ones(width);
  const BoundedSet small = ball(Vector::Constant(width, 0.1), 0.2);
  const BoundedSet y = normalised(small, {NormKind::rms, 0.01, gain, {}});
  CHECK(y.magnitude()[0] == Approx(0.1 / std::sqrt(0.01 / width + 0.01)).epsilon(1e-12));
  CHECK(y.norm() == Approx(std::sqrt(7.0) * 0.2 / std::sqrt(0.04 + 0.07)).epsilon(1e-12));
  BoundedSet silent = small;
  silent.low[3] = silent.high[3] = 0.0;
  CHECK(normalised(silent, {NormKind::rms, 0.0, gain, {}}).magnitude()[3] == 0.0);
}

TEST_CASE("activations of an interval, against a fine grid") {
  const std::pair<Activation, std::function<double(double)>> kinds[] = {
      {Activation::relu, [](double u) { return std::max(u, 0.0); }},
      {Activation::gelu, [](double u) { return u / 2 * std::erfc(-u / std::sqrt(2.0)); }},
      {Activation::silu, [](double u) { return u / (1 + std::exp(-u)); }},
      {Activation::gelu_tanh,
       [](double u) { return u / 2 * (1 + std::tanh(std::sqrt(2.0 / M_PI) * (u + 0.044715 * u * u * u))); }}};
  for (const auto& [kind, f] : kinds) {
    for (const auto& [low, high] : {std::pair{-3.0, 2.0}, {-3.0, -1.5}, {-0.5, 4.0}, {-9.0, -0.1}, {0.3, 0.4}}) {
      double least = infinity;
      double most = -infinity;
      constexpr int steps = 200'000;
      for (int i = 0; i <= steps; ++i) {
        const double y = f(low + (high - low) * i / steps);
        least = std::min(least, y);
        most = std::max(most, y);
      }
      const BoundedSet y = activated(kind, {Vector::Constant(1, low), Vector::Constant(1, high), {}});
      CHECK(y.low[0] <= least + 1e-15);
      CHECK(y.low[0] == Approx(least).epsilon(1e-9));
      CHECK(y.high[0] >= most - 1e-15);  // the grid's own rounding
      CHECK(y.high[0] == Approx(most).epsilon(1e-12));
    }
  }
}

TEST_CASE("a sum's ellipsoid holds every sum") {
  const BoundedSet a = normalised(anything(width), {NormKind::rms, 0.0, random_vector(width, 7), {}});
  const BoundedSet b =
      normalised(anything(width), {NormKind::layer, 0.0, random_vector(width, 8), random_vector(width, 9)});
  const BoundedSet sum = weighted_sum(0.7, a, -1.3, b);
  for (unsigned i = 0; i < 200; ++i) {
    const Vector u = random_vector(width, 100 + i);
    const double support = 0.7 * u.cwiseProduct(a.ellipsoid->axes).norm();
    Vector v = u.cwiseProduct(b.ellipsoid->axes);
    v.array() -= v.mean();
    const double most = support + 1.3 * v.norm() - 1.3 * u.dot(b.ellipsoid->centre);
    const double bound = u.cwiseProduct(sum.ellipsoid->axes).norm() + u.dot(sum.ellipsoid->centre);
    CHECK(bound >= most);
  }
}

TEST_CASE("the spectral norm is bounded from above, and closely") {
  for (const auto& [rows, cols] : {std::pair<Index, Index>{1, 1}, {3, 9}, {9, 3}, {40, 40}, {65, 130}, {130, 64}}) {
    const RowMatrix a = random_matrix(rows, cols, static_cast<unsigned>(rows));
    const double sigma = Eigen::JacobiSVD<Eigen::MatrixXd>(a).singularValues()[0];
    CHECK(spectral_bound(a) >= sigma);
    CHECK(spectral_bound(a) <= 1.03 * sigma);
  }
  CHECK(spectral_bound(RowMatrix::Zero(3, 4)) == 0.0);
  const RowMatrix one = Vector::Constant(30, 2.0) * Eigen::RowVectorXd::Constant(20, 0.5);
  CHECK(spectral_bound(one) == Approx(std::sqrt(600.0)).epsilon(1e-3));
  CHECK(spectral_bound(RowMatrix::Identity(50, 50)) == Approx(1.0).epsilon(2e-3));
  RowMatrix broken = random_matrix(3, 3, 1);
  broken(1, 1) = std::nan("");
  CHECK(spectral_bound(broken) == infinity);
}

/// A matrix whose leading eigenvector is orthogonal to where the power iteration starts: the proof must fail until
/// the bound is large enough.
TEST_CASE("a power iteration that misses the largest eigenvalue does no harm") {
  RowMatrix gram = RowMatrix::Zero(3, 3);
  gram.topLeftCorner(2, 2) << 1.0, 0.9, 0.9, 1.0;
  gram(2, 2) = 1.5;
  CHECK(largest_eigenvalue_bound(gram, 3) >= 1.9);
  CHECK(largest_eigenvalue_bound(gram, 3) <= 1.9 * 1.03);
}

ModelSpec gated_model() {
  ModelSpec m;
  m.width = width;
  m.mlp_width = 6;
  m.mlp = MlpKind::swiglu;
  return m;
}

TEST_CASE("T17: the bound of a gated MLP's hidden feature is attained where its gate is open") {
  PlainParameters p;
  p.matrices[{0, Weight::gate}] = 1e3 * random_matrix(6, width, 11);  // SiLU(u) is u or 0 there
  p.matrices[{0, Weight::up}] = random_matrix(6, width, 12);
  p.matrices[{0, Weight::down}] = random_matrix(width, 6, 13);
  const BoundedSet x = normalised(anything(width), {NormKind::rms, 0.0, Vector::Ones(width), {}});
  ComputedOps exact({}, 0);
  const MlpBounds bounds = mlp_bounds(gated_model(), p, 0, x, false, exact);
  for (Index j = 0; j < 6; ++j) {
    const Vector a = p.matrices[{0, Weight::gate}].row(j).transpose();
    const Vector b = p.matrices[{0, Weight::up}].row(j).transpose();
    double reached = 0.0;
    for (const double sign : {1.0, -1.0}) {
      Vector u = a.normalized() + sign * b.normalized();
      u *= std::sqrt(7.0) / u.norm();
      const double gate = std::abs(a.dot(u));
      reached = std::max(reached, gate / (1.0 + std::exp(-gate)) * std::abs(b.dot(u)));
    }
    CHECK(bounds.hidden.magnitude()[j] >= reached);
    CHECK(bounds.hidden.magnitude()[j] == Approx(reached).epsilon(1e-3));
  }
}

TEST_CASE("T17: the bound of an attention output is attained when every head reads a token of its own") {
  ModelSpec m;
  m.width = width;
  m.heads = 2;
  m.kv_heads = 2;
  m.head_dim = 4;
  PlainParameters p;
  for (const Weight w : {Weight::q, Weight::k, Weight::v}) p.matrices[{0, w}] = random_matrix(8, width, 20);
  p.matrices[{0, Weight::o}] = random_matrix(width, 8, 21);
  const BoundedSet x = normalised(anything(width), {NormKind::rms, 0.0, random_vector(width, 22), {}});
  ComputedOps exact({}, 0);
  const AttentionBounds bounds = attention_bounds(m, p, 0, x, false, exact);
  for (Index k = 0; k < width; ++k) {
    double reached = 0.0;
    for (Index h = 0; h < 2; ++h) {
      const Vector row =
          (p.matrices[{0, Weight::o}].row(k).segment(4 * h, 4) * p.matrices[{0, Weight::v}].middleRows(4 * h, 4))
              .transpose();
      reached += row.cwiseProduct(x.ellipsoid->axes).norm();
    }
    CHECK(bounds.out.magnitude()[k] >= reached);
    CHECK(bounds.out.magnitude()[k] == Approx(reached).epsilon(1e-6));
  }
}

}  // namespace
}  // namespace periscope::theory
