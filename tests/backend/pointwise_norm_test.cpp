#include <cmath>
#include <numbers>
#include <string>
#include <vector>

#include "tests/support/compare.h"
#include "tests/support/doctest.h"
#include "tests/support/gradient_tolerances.h"
#include "tests/support/tolerances.h"
#include "tests/support/twin.h"

/// The norms that act entry by entry (DyT, Derf, plain gain) on every backend, compared with the reference.
namespace periscope::testing {
namespace {

using Index = Tensor::Index;
using Values = std::vector<double>;

Values host(const Tensor& x) { return truth().to_host(x); }

struct Case {
  NormKind kind;
  int groups;
  bool with_bias;
  double alpha;
  double size;
};

template <class Body>
void for_cases(const Body& body) {
  for (const NormKind kind : {NormKind::dyt, NormKind::derf, NormKind::none}) {
    for (const int groups : {1, 3}) {
      for (const bool with_bias : {false, true}) {
        for (const double alpha : {0.5, -3.0}) {
          for (const double size : {1e-6, 1.0, 1e3}) body(Case{kind, groups, with_bias, alpha, size});
        }
      }
    }
  }
}

Twin alpha_twin(const Target& target, const Case& c) {
  return facts_of(c.kind).has_alpha() ? twin_of(target, 1, 1, Values{c.alpha}) : Twin{};
}

/// Sums of the magnitudes of the terms. |φ'(αx)| ≤ 2/√π, and rounding αx changes φ' by at most 2|αx|φ' ≤ 1.
struct Magnitudes {
  Values y, dx, dgain, dbias, dalpha;
};
Magnitudes magnitudes(const Case& c, const Values& x, const Values& gain, const Values& bias, const Values& dy) {
  const std::size_t n = gain.size();
  const bool bends = facts_of(c.kind).has_alpha();
  Magnitudes m{Values(x.size()), Values(x.size()), Values(n), Values(n), Values(1)};
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double g = std::abs(gain[i % n] * dy[i]);
    const double hat = bends ? std::min(1.0, 1.2 * std::abs(c.alpha * x[i])) : std::abs(x[i]);
    m.y[i] = std::abs(gain[i % n]) * hat + (c.with_bias ? std::abs(bias[i % n]) : 0.0);
    m.dx[i] = bends ? 2.0 * std::abs(c.alpha) * g : g;
    m.dgain[i % n] += std::abs(dy[i]) * hat;
    m.dbias[i % n] += std::abs(dy[i]);
    m.dalpha[0] += 2.0 * std::abs(x[i]) * g;
  }
  return m;
}

void check_within(const std::string& what, const Target& target, const Tensor& actual, const Tensor& expected,
                  double error, Values allowed) {
  for (double& a : allowed) a *= error;
  check_close(what, target.backend->to_host(actual), truth().to_host(expected), allowed);
}

TEST_CASE("pointwise norms and their gradients, at odd sizes, in groups, with either sign of alpha") {
  for (const Target& target : targets()) {
    for_cases([&](const Case& c) {
      for (const Index n : {Index{1}, Index{31}, Index{1031}}) {
        const int rows = 67;
        const std::string what = target.name() + " " + std::string(facts_of(c.kind).name);
        CAPTURE(n);
        CAPTURE(c.groups);
        CAPTURE(c.alpha);
        CAPTURE(c.size);
        const Twin x = normal_twin(target, rows, n * c.groups, 24, c.size);
        const Twin gain = normal_twin(target, 1, n, 25);
        const Twin bias = c.with_bias ? normal_twin(target, 1, n, 27) : Twin{};
        const Twin dy = normal_twin(target, rows, n * c.groups, 26);
        const Twin alpha = alpha_twin(target, c);
        const Magnitudes m =
            magnitudes(c, host(x.truth), host(gain.truth),
                       c.with_bias ? host(bias.truth) : Values(static_cast<std::size_t>(n)), host(dy.truth));
        // Roundings of αx, φ, the gain and the bias.
        const double one = 16.0 * unit_roundoff(target.dtype);
        check_within(what, target,
                     target.backend->norm(c.kind, x.here, gain.here, bias.here, 0.0, c.groups, alpha.here),
                     truth().norm(c.kind, x.truth, gain.truth, bias.truth, 0.0, c.groups, alpha.truth), one, m.y);
        const NormGradient here =
            target.backend->norm_backward(c.kind, x.here, gain.here, dy.here, 0.0, c.groups, alpha.here);
        const NormGradient there =
            truth().norm_backward(c.kind, x.truth, gain.truth, dy.truth, 0.0, c.groups, alpha.truth);
        const double parts = one + norm_backward_error(static_cast<double>(rows * c.groups), target.dtype);
        check_within(what + " dx", target, here.dx, there.dx, one, m.dx);
        check_within(what + " dgain", target, here.dgain, there.dgain, parts, m.dgain);
        check_within(what + " dbias", target, here.dbias, there.dbias, parts, m.dbias);
        REQUIRE(here.dalpha.empty() == alpha.here.empty());
        if (!alpha.here.empty()) check_within(what + " dalpha", target, here.dalpha, there.dalpha, parts, m.dalpha);
      }
    });
  }
}

TEST_CASE("DyT and Derf saturate without overflow and propagate NaN") {
  const double far = 1e30;
  for (const Target& target : targets()) {
    for (const NormKind kind : {NormKind::dyt, NormKind::derf}) {
      const Twin x = twin_of(target, 1, 4, Values{far, -far, std::nan(""), 0.0});
      const Twin one = twin_of(target, 1, 4, Values{1.0, 1.0, 1.0, 1.0});
      const Twin alpha = twin_of(target, 1, 1, Values{2.0});
      const Values y = target.backend->to_host(target.backend->norm(kind, x.here, one.here, {}, 0.0, 1, alpha.here));
      CHECK(y[0] == 1.0);
      CHECK(y[1] == -1.0);
      CHECK(std::isnan(y[2]));
      CHECK(y[3] == 0.0);
      const Twin finite = twin_of(target, 1, 4, Values{far, -far, far, 0.0});
      const NormGradient g = target.backend->norm_backward(kind, finite.here, one.here, one.here, 0.0, 1, alpha.here);
      const Values dx = target.backend->to_host(g.dx);
      CHECK(std::abs(dx[0]) < 1e-30);  // of an exponential that cannot be smaller than the smallest number
      CHECK(std::abs(dx[1]) < 1e-30);
      CHECK(dx[3] == doctest::Approx(2.0 * (kind == NormKind::dyt ? 1.0 : 2.0 / std::sqrt(std::numbers::pi))));
      CHECK(std::abs(target.backend->to_host(g.dalpha)[0]) < 1e-6);
    }
  }
}

}  // namespace
}  // namespace periscope::testing
