#include <cmath>
#include <numbers>
#include <string>
#include <vector>

#include "tests/support/compare.h"
#include "tests/support/doctest.h"
#include "tests/support/gradient_tolerances.h"
#include "tests/support/tolerances.h"
#include "tests/support/twin.h"

/// DyT, Derf and the scale alone on every backend: formulas of Backend::norm and norm_backward.
namespace periscope::testing {
namespace {

using Index = Tensor::Index;
using Values = std::vector<double>;

Tensor row(const Values& values) { return truth().from_host(1, static_cast<Index>(values.size()), DType::f64, values); }

Values host(const Tensor& x) { return truth().to_host(x); }

void check_values(const Values& actual, const Values& expected) {
  REQUIRE(actual.size() == expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) CHECK(actual[i] == doctest::Approx(expected[i]).epsilon(1e-12));
}

TEST_CASE("the reference's DyT, Derf, L2 norm and scale, on numbers worked out by hand") {
  const Tensor x = row({0.0, 1.0, -2.0});
  const Tensor gain = row({1.0, 2.0, 3.0});
  const Tensor bias = row({0.25, 0.0, -1.0});
  check_values(host(truth().norm(NormKind::dyt, x, gain, bias, 0.0, 1, row({0.5}))),
               {0.25, 2.0 * 0.46211715726000979, -3.0 * 0.76159415595576485 - 1.0});
  check_values(host(truth().norm(NormKind::derf, x, gain, bias, 0.0, 1, row({0.5}))),
               {0.25, 2.0 * 0.52049987781304663, -3.0 * 0.84270079294971489 - 1.0});
  check_values(host(truth().norm(NormKind::l2, row({3.0, 4.0}), row({1.0, 2.0}), {}, 0.0)), {0.6, 1.6});
  check_values(host(truth().norm(NormKind::l2, row({3.0, 4.0}), row({1.0, 2.0}), {}, 144.0)), {3.0 / 13.0, 8.0 / 13.0});
  check_values(host(truth().norm(NormKind::none, x, gain, {}, 0.0)), {0.0, 2.0, -6.0});
  // x = 1, gain 2, dy 3: φ' = 1/cosh²(½) and (2/√π)exp(−¼)
  const NormGradient tanh =
      truth().norm_backward(NormKind::dyt, row({1.0}), row({2.0}), row({3.0}), 0.0, 1, row({0.5}));
  const double sech2 = 1.0 - 0.46211715726000979 * 0.46211715726000979;
  check_values(host(tanh.dx), {0.5 * sech2 * 6.0});
  check_values(host(tanh.dalpha), {sech2 * 6.0});
  check_values(host(tanh.dgain), {3.0 * 0.46211715726000979});
  check_values(host(tanh.dbias), {3.0});
  const NormGradient erf =
      truth().norm_backward(NormKind::derf, row({1.0}), row({2.0}), row({3.0}), 0.0, 1, row({0.5}));
  check_values(host(erf.dalpha), {2.0 / std::sqrt(std::numbers::pi) * std::exp(-0.25) * 6.0});
  CHECK(truth().norm_backward(NormKind::none, x, gain, x, 0.0).dalpha.empty());
}

TEST_CASE("an alpha where there is none, or none where there is one, is refused") {
  const Tensor x = row({1.0, 2.0});
  CHECK_THROWS_WITH_AS((void)truth().norm(NormKind::rms, x, x, {}, 0.0, 1, row({1.0})),
                       "[norm] RMSNorm has no alpha, found [1, 1]", std::invalid_argument);
  CHECK_THROWS_WITH_AS((void)truth().norm(NormKind::dyt, x, x, {}, 0.0), "[norm] alpha is empty",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS((void)truth().norm_backward(NormKind::derf, x, x, x, 0.0, 1, x),
                       "[norm_backward] alpha must be [1, 1], found [1, 2] for x [1, 2], gain [1, 2]",
                       std::invalid_argument);
}

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

/// Sums of magnitudes behind the gradients. |φ'(αx)| ≤ 2/√π, and rounding αx moves it by as much as 2|αx|φ' ≤ 1.
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
        // αx, φ of it within a few roundings, the gain, the bias
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

TEST_CASE("where tanh and erf are flat nothing overflows, and what is not a number stays so") {
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
