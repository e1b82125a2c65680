#include <cmath>
#include <functional>
#include <numbers>
#include <string>

#include "tests/support/doctest.h"
#include "theory/norms/norm_law.h"
#include "theory/predict/finite_width_chain.h"
#include "theory/predict/predict.h"
#include "theory/width/gram_chain.h"

namespace periscope::theory {
namespace {

NormUse with_alpha(NormKind kind, double alpha) { return {.kind = kind, .width = 64, .alpha = alpha}; }

double phi(NormKind kind, double u) { return kind == NormKind::dyt ? std::tanh(u) : std::erf(u); }
double slope(NormKind kind, double u) {
  return kind == NormKind::dyt ? 1.0 / std::pow(std::cosh(u), 2) : 2.0 / std::sqrt(std::numbers::pi) * std::exp(-u * u);
}

/// E f(u)g(v) for normal u and v of variances a and b and correlation rho, by the trapezoid rule over two independent
/// normal numbers, with a step that resolves the poles of tanh.
double expectation(const std::function<double(double)>& f, const std::function<double(double)>& g, double a, double b,
                   double rho) {
  const double step = 1.0 / (16.0 + 8.0 * std::sqrt(std::max(a, b)));
  const double other = std::sqrt(1.0 - rho * rho);
  double sum = 0.0;
  for (double z = -8.5; z <= 8.5; z += step) {
    const double outer = f(std::sqrt(a) * z) * std::exp(-0.5 * z * z);
    double inner = 0.0;
    for (double w = -8.5; w <= 8.5; w += step)
      inner += g(std::sqrt(b) * (rho * z + other * w)) * std::exp(-0.5 * w * w);
    sum += outer * inner;
  }
  return sum * step * step / (2.0 * std::numbers::pi);
}

struct Pair {
  double a, b, rho;
};
constexpr Pair pairs[] = {{0.01, 0.02, 0.5}, {0.25, 0.25, -0.7}, {1.0, 4.0, 0.3},    {3.9, 3.9, 0.999},
                          {16.0, 1.0, 0.9},  {40.0, 40.0, 0.6},  {100.0, 0.1, -0.4}, {900.0, 400.0, 0.99}};

/// Derf has closed forms. DyT with one large and one small variance is accurate to four digits, limited by the
/// quadrature over Kolmogorov's distribution.
double tolerance_of(NormKind kind, const Pair& p) {
  if (kind == NormKind::derf) return 1e-9;
  return std::max(p.a, p.b) > 4.0 && std::min(p.a, p.b) < 1.0 ? 1e-4 : 1e-5;
}

TokenKernel kernel_of(const Pair& p) {
  Matrix k(2, 2);
  const double c = p.rho * std::sqrt(p.a * p.b);
  k << p.a, c, c, p.b;
  return TokenKernel::of_independent_features(k, 64);
}

TEST_CASE("kernel, gradient factor and slope of pointwise norms agree with quadrature (T2, T8)") {
  const auto one = [](double) { return 1.0; };
  for (const NormKind kind : {NormKind::dyt, NormKind::derf}) {
    const auto f = [&](double u) { return phi(kind, u); };
    const auto df = [&](double u) { return slope(kind, u); };
    for (const Pair& p : pairs) {
      INFO("p.a := ", p.a, ", p.b := ", p.b, ", p.rho := ", p.rho);
      const double tolerance = tolerance_of(kind, p);
      const auto close = [&](double expected) { return approx(expected).epsilon(tolerance); };
      const double different = expectation(f, f, p.a, p.b, p.rho);
      const double same = expectation(f, f, p.a, p.a, 1.0);
      const double slopes = expectation(df, df, p.a, p.b, p.rho);
      const double squared_slope = expectation(df, df, p.b, p.b, 1.0);
      const double mean_slope = expectation(df, one, p.a, 1.0, 0.0);
      for (const double alpha : {0.5, 2.0}) {
        TokenKernel x = kernel_of(p);
        x.product /= alpha * alpha;  // the input kernel is the kernel of u divided by alpha squared
        const NormUse norm = with_alpha(kind, alpha);
        const TokenKernel y = law_of(kind).kernel(x, norm, 3.0);
        CHECK(y.product(0, 1) == close(9.0 * different));
        CHECK(y.product(0, 0) == close(9.0 * same));
        CHECK(y.product(1, 0) == y.product(0, 1));
        CHECK(y.mean(0, 0) == approx(y.product(0, 0) / 64.0));
        Matrix g(2, 2);
        g << 5.0, -2.0, -2.0, 7.0;
        const NormTrace trace = law_of(kind).trace(x, norm);
        const Matrix before = law_of(kind).gradient(g, trace, norm, 3.0);
        CHECK(before(0, 1) == close(-18.0 * alpha * alpha * slopes));
        CHECK(before(1, 1) == close(63.0 * alpha * alpha * squared_slope));
        CHECK(law_of(kind).slope(trace, norm, 3.0)[0] == close(3.0 * alpha * mean_slope));
      }
    }
  }
}

TEST_CASE("a norm with only a gain multiplies kernels and gradients by gamma squared") {
  const TokenKernel x = kernel_of({2.0, 3.0, 0.5});
  const NormUse norm = with_alpha(NormKind::none, 1.0);
  CHECK(scale_law.kernel(x, norm, 3.0).product.isApprox(9.0 * x.product, 1e-14));
  CHECK(scale_law.gradient(x.product, scale_law.trace(x, norm), norm, 3.0).isApprox(9.0 * x.product, 1e-14));
}

TEST_CASE("the L2 norm is RMSNorm with gain gamma/sqrt(D) and eps/D") {
  const TokenKernel x = kernel_of({2.0, 3.0, 0.5});
  const NormUse l2{.kind = NormKind::l2, .eps = 6.4, .width = 64};
  const NormUse rms{.kind = NormKind::rms, .eps = 0.1, .width = 64};
  const NormLaw& law = law_of(NormKind::l2);
  CHECK(law.kernel(x, l2, 8.0).product.isApprox(law.kernel(x, rms, 1.0).product, 1e-14));
  CHECK(law.kernel(x, l2, 8.0).product(0, 0) == approx(2.0 / 2.1));
  CHECK(law.gradient(x.product, law.trace(x, l2), l2, 8.0)
            .isApprox(law.gradient(x.product, law.trace(x, rms), rms, 1.0), 1e-14));
  Matrix a = Matrix::Random(3, 4);
  Matrix b = a;
  normalise(a, l2, 8.0);
  normalise(b, rms, 1.0);
  CHECK(a.isApprox(b, 1e-14));
}

TEST_CASE("the elasticity of the second moment is 1 for small inputs and 0 in saturation") {
  for (const NormKind kind : {NormKind::dyt, NormKind::derf}) {
    const auto elasticity = [&](double moment) { return law_of(kind).elasticity(moment, with_alpha(kind, 1.0)); };
    CHECK(elasticity(1e-6) == approx(1.0).epsilon(1e-4));
    CHECK(elasticity(1e6) < 1e-2);
    CHECK(elasticity(1.0) < elasticity(0.25));
  }
  CHECK(dividing_law.elasticity(1.0, {.kind = NormKind::rms}) == 0.0);
  CHECK(scale_law.elasticity(1.0, with_alpha(NormKind::none, 1.0)) == approx(1.0));
}

StackSpec small_stack(std::string_view placement, NormKind kind) {
  StackSpec spec;
  spec.model = {.layers = 2, .width = 64, .heads = 4, .kv_heads = 4, .head_dim = 16, .mlp_width = 128};
  spec.model.norm = kind;
  spec.model.placement = *find_placement(placement);
  spec.model.final_norm = spec.model.placement.defaults.final_norm;
  spec.init.scheme = InitScheme::lecun;
  spec.input.tokens = 6;
  return spec;
}

TEST_CASE("a pointwise norm of a non-normal signal is unsupported, and the norm is named") {
  const auto unsupported_reason = [](std::string_view placement, bool embedding_norm = false) {
    StackSpec spec = small_stack(placement, NormKind::derf);
    spec.model.embedding_norm = embedding_norm;
    return predict(spec, {}, {.max_samples = 16}).unsupported;
  };
  CHECK(unsupported_reason("pre").empty());
  CHECK(unsupported_reason("lns").empty());
  CHECK(unsupported_reason("none").empty());
  CHECK(unsupported_reason("b-only").empty());
  for (const char* placement : {"peri", "post", "a+c", "deepnorm", "residual-dual"}) {
    const std::string name = placement;
    CAPTURE(name);
    CHECK(unsupported_reason(placement).find("non-normal") != std::string::npos);
  }
  CHECK(unsupported_reason("peri").find("norm A of sublayer 1 (Derf)") == 0);
  CHECK(unsupported_reason("peri").find("norm B of sublayer 0 makes") != std::string::npos);
  CHECK(unsupported_reason("pre", true).find("the embedding norm makes") != std::string::npos);
}

TEST_CASE("with pointwise norms, gradients through norm B and a final norm, and the chain, are unsupported") {
  StackSpec spec = small_stack("b-only", NormKind::dyt);
  const PredictionOptions options{.max_samples = 16, .labels = {{0, 1, 2, 0, 1, 2}}};
  Prediction p = predict(spec, {}, options);
  CHECK(p.unsupported.empty());
  CHECK(p.gradient_unsupported.find("the final norm (DyT)") == 0);
  CHECK(p.profile.find(Statistic::grad_sq, Signal::x_out) == nullptr);
  CHECK(p.profile.find(Statistic::kurtosis, Signal::x_out) == nullptr);
  CHECK(p.profile.find(Statistic::second_moment, Signal::x_out) != nullptr);
  spec.model.final_norm = false;
  p = predict(spec, {}, options);
  CHECK(p.gradient_unsupported.empty());
  predict_at_width(spec, {}, {.seeds = 4}, p);
  CHECK_FALSE(p.exact_at_width);
  CHECK(p.unsupported.empty());
  CHECK(p.left_out.find("the finite-width chain (T25) follows only Gram matrices") != std::string::npos);
  CHECK_THROWS_AS((void)gram_chain(spec, {}, {}), std::logic_error);
  CHECK(coordinates_unsupported(small_stack("pre", NormKind::l2).model).empty());
}

}  // namespace
}  // namespace periscope::theory
