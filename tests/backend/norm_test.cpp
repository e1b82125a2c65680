#include <cmath>
#include <numbers>
#include <string>
#include <vector>

#include "tests/support/compare.h"
#include "tests/support/doctest.h"
#include "tests/support/tolerances.h"
#include "tests/support/twin.h"

/// Norms and their gradients on every backend, compared with the reference entry by entry within rounding bounds.
namespace periscope::testing {
namespace {

using Index = Tensor::Index;
using Values = std::vector<double>;

struct NormCase {
  NormKind kind;
  double eps = 0.0;
  int groups = 1;
  bool with_bias = false;
  double alpha = 0.5;
};

std::vector<NormCase> all_cases() {
  std::vector<NormCase> all;
  for (const NormFacts& facts : norm_table) {
    for (const int groups : {1, 3}) {
      for (const bool with_bias : {false, true}) {
        if (facts.has_alpha()) {
          for (const double alpha : {0.5, -3.0}) all.push_back({facts.kind, 0.0, groups, with_bias, alpha});
        } else {
          for (const double eps : {0.0, 1e-6, 0.5}) all.push_back({facts.kind, eps, groups, with_bias});
        }
      }
    }
  }
  return all;
}

/// For every result, the sum of the magnitudes of its terms; rounding bounds are relative to it.
struct Magnitudes {
  Values y, dx, dgain, dbias, dalpha;
};

/// Magnitudes of a pointwise norm φ(αx): |φ'| ≤ 2/√π, and rounding αx changes φ' by at most 2|αx|φ' ≤ 1.
Magnitudes pointwise_magnitudes(const NormCase& c, const Values& x, const Values& gain, const Values& dy) {
  const std::size_t n = gain.size();
  const bool has_alpha = facts_of(c.kind).has_alpha();
  Magnitudes m{Values(x.size()), Values(x.size()), Values(n), Values(n), Values(1)};
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double g = std::abs(gain[i % n] * dy[i]);
    const double normalised = has_alpha ? std::min(1.0, 1.2 * std::abs(c.alpha * x[i])) : std::abs(x[i]);
    m.y[i] = std::abs(gain[i % n]) * normalised;
    m.dx[i] = has_alpha ? 2.0 * std::abs(c.alpha) * g : g;
    m.dgain[i % n] += std::abs(dy[i]) * normalised;
    m.dbias[i % n] += std::abs(dy[i]);
    m.dalpha[0] += 2.0 * std::abs(x[i]) * g;
  }
  return m;
}

/// Magnitudes of a norm with divisor s, from (|x| + mean|x|)/s as in norm_error; 0 in a zero row without eps.
Magnitudes divided_magnitudes(const NormCase& c, const Values& x, const Values& gain, const Values& dy) {
  const std::size_t n = gain.size();
  const auto count = static_cast<double>(n);
  const double squares = c.kind == NormKind::l2 ? 1.0 : count;
  Magnitudes m{Values(x.size()), Values(x.size()), Values(n), Values(n), {}};
  for (std::size_t first = 0; first < x.size(); first += n) {
    double mean = 0.0, size = 0.0, square = c.eps, g_mean = 0.0, gx_mean = 0.0;
    for (std::size_t i = first; i < first + n; ++i) {
      mean += c.kind == NormKind::layer ? x[i] / count : 0.0;
      size += std::abs(x[i]) / count;
    }
    for (std::size_t i = first; i < first + n; ++i) square += (x[i] - mean) * (x[i] - mean) / squares;
    const double inverse = square > 0.0 ? 1.0 / std::sqrt(square) : 0.0;
    const auto normalised = [&](std::size_t i) { return (std::abs(x[first + i]) + size) * inverse; };
    for (std::size_t i = 0; i < n; ++i) {
      const double g = std::abs(gain[i] * dy[first + i]);
      g_mean += g / count;
      gx_mean += g * normalised(i) / squares;
      m.dgain[i] += std::abs(dy[first + i]) * normalised(i);
      m.dbias[i] += std::abs(dy[first + i]);
    }
    for (std::size_t i = 0; i < n; ++i) {
      m.y[first + i] = std::abs(gain[i]) * normalised(i);
      m.dx[first + i] = (std::abs(gain[i] * dy[first + i]) + g_mean + normalised(i) * gx_mean) * inverse;
    }
  }
  return m;
}

void check_norm(const Target& target, const NormCase& c, const Twin& x, Index n) {
  const Backend& ops = *target.backend;
  const Index rows = x.here.rows();
  const std::string prefix = target.name() + " " + std::string(facts_of(c.kind).name) + " ";
  INFO("rows := ", rows, ", n := ", n, ", c.eps := ", c.eps, ", c.groups := ", c.groups, ", c.alpha := ", c.alpha);
  const Twin gain = normal_twin(target, 1, n, 25);
  const Twin bias = c.with_bias ? normal_twin(target, 1, n, 27) : Twin{};
  const Twin dy = normal_twin(target, rows, x.here.cols(), 26);
  const Twin alpha = facts_of(c.kind).has_alpha() ? twin_of(target, 1, 1, Values{c.alpha}) : Twin{};
  const auto host = [](const Tensor& t) { return truth().to_host(t); };
  const bool pointwise = is_pointwise(c.kind);
  Magnitudes m =
      (pointwise ? pointwise_magnitudes : divided_magnitudes)(c, host(x.truth), host(gain.truth), host(dy.truth));
  if (c.with_bias) {
    const Values shift = host(bias.truth);
    for (std::size_t i = 0; i < m.y.size(); ++i) m.y[i] += std::abs(shift[i % shift.size()]);
  }
  const auto check = [&](const char* result, const Tensor& actual, const Tensor& expected, double error,
                         const Values& magnitudes) {
    check_close(prefix + result, ops.to_host(actual), host(expected), scaled(error, magnitudes));
  };
  const double fixed = pointwise ? 16.0 * unit_roundoff(target.dtype) : 0.0;  // roundings of αx, φ, gain and bias
  const auto features = static_cast<double>(n);
  const double sums = fixed + norm_backward_error(static_cast<double>(n + rows * c.groups), target.dtype);
  check("y", ops.norm(c.kind, x.here, gain.here, bias.here, c.eps, c.groups, alpha.here),
        truth().norm(c.kind, x.truth, gain.truth, bias.truth, c.eps, c.groups, alpha.truth),
        fixed + norm_error(features, target.dtype), m.y);
  const NormGradient here = ops.norm_backward(c.kind, x.here, gain.here, dy.here, c.eps, c.groups, alpha.here);
  const NormGradient there = truth().norm_backward(c.kind, x.truth, gain.truth, dy.truth, c.eps, c.groups, alpha.truth);
  check("dx", here.dx, there.dx, fixed + norm_backward_error(features, target.dtype), m.dx);
  check("dgain", here.dgain, there.dgain, sums, m.dgain);
  check("dbias", here.dbias, there.dbias, sums, m.dbias);
  REQUIRE(here.dalpha.empty() == alpha.here.empty());
  if (!alpha.here.empty()) check("dalpha", here.dalpha, there.dalpha, sums, m.dalpha);
}

TEST_CASE("norms and their gradients match the reference for every kind, eps, sign of alpha, bias and grouping") {
  for (const Target& target : targets()) {
    for (const NormCase& c : all_cases()) {
      for (const Index n : odd_sizes) {
        // Skipped: LayerNorm of one feature without eps divides 0 by a rounding error; validate rejects it.
        if (c.kind == NormKind::layer && n == 1 && c.eps == 0.0) continue;
        for (const Index rows : {Index{1}, Index{67}}) {
          check_norm(target, c, normal_twin(target, rows, n * c.groups, 24), n);
        }
      }
      for (const double size : {1e-15, 1e-6, 1e3, 1e15}) {
        CAPTURE(size);
        check_norm(target, c, normal_twin(target, 3, 33 * c.groups, 24, size), 33);
      }
    }
  }
}

TEST_CASE("norms and their gradients match the reference for zero rows and means far above the spread") {
  for (const Target& target : targets()) {
    for (const NormCase& c : all_cases()) {
      Values values = truth().to_host(normal_twin(target, 3, 33 * c.groups, 24).truth);
      for (std::size_t i = 33; i < 66; ++i) values[i] = 0.0;
      check_norm(target, c, twin_of(target, 3, 33 * c.groups, values), 33);
    }
    Values values = truth().to_host(normal_twin(target, 5, 257, 24).truth);
    for (double& x : values) x += 1000.0;
    check_norm(target, {NormKind::layer}, twin_of(target, 5, 257, values), 257);
  }
}

TEST_CASE("DyT and Derf saturate without overflow and propagate NaN") {
  const double huge = 1e30;
  for (const Target& target : targets()) {
    for (const NormKind kind : {NormKind::dyt, NormKind::derf}) {
      const Twin x = twin_of(target, 1, 4, Values{huge, -huge, std::nan(""), 0.0});
      const Twin one = twin_of(target, 1, 4, Values{1.0, 1.0, 1.0, 1.0});
      const Twin alpha = twin_of(target, 1, 1, Values{2.0});
      const Values y = target.backend->to_host(target.backend->norm(kind, x.here, one.here, {}, 0.0, 1, alpha.here));
      CHECK(y[0] == 1.0);
      CHECK(y[1] == -1.0);
      CHECK(std::isnan(y[2]));
      CHECK(y[3] == 0.0);
      const Twin finite = twin_of(target, 1, 4, Values{huge, -huge, huge, 0.0});
      const NormGradient g = target.backend->norm_backward(kind, finite.here, one.here, one.here, 0.0, 1, alpha.here);
      const Values dx = target.backend->to_host(g.dx);
      CHECK(std::abs(dx[0]) < 1e-30);  // Eigen's exp underflows to a tiny number instead of 0
      CHECK(std::abs(dx[1]) < 1e-30);
      CHECK(dx[3] == approx(2.0 * (kind == NormKind::dyt ? 1.0 : 2.0 / std::sqrt(std::numbers::pi))));
      CHECK(std::abs(target.backend->to_host(g.dalpha)[0]) < 1e-6);
    }
  }
}

}  // namespace
}  // namespace periscope::testing
