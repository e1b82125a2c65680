#include "experiments/studies/verify/verify.h"

#include <algorithm>
#include <cmath>

#include "experiments/studies/verify/draw.h"
#include "sim/base/parallel_for.h"
#include "sim/numerics/larger.h"

namespace periscope::verify {
namespace {

constexpr int points_per_decade = 2, decades = 6;

/// Returns stack `number` for one placement. All placements have the same weights and input.
BoundCase massive_stack(const SublayerRule& rule, bool final_norm, std::uint64_t seed, std::uint32_t number) {
  constexpr int width = massive_width, hidden = massive_hidden;
  Draw draw({seed, number, Stream::verify_massive});
  BoundCase c = plain_case(rule, width);
  c.set("x", draw.normals(width, 1.0), width);
  c.set("up", draw.normals(hidden * width, 1.0 / std::sqrt(width)), width);
  c.set("down", draw.normals(width * hidden, 1.0 / std::sqrt(hidden)), hidden);
  if (final_norm) c.set("final_norm.gain", std::vector<double>(width, 1.0));
  const std::vector<double> a = evaluate(c).module;
  c.set("labels", {static_cast<double>(std::ranges::min_element(a) - a.begin())});
  return c;
}

double massive_ceiling(const BoundCase& c) {
  const Evaluation e = evaluate(c);
  if (e.tokens[0].path.norms.empty()) return HUGE_VAL;
  std::vector<double> stream(e.module.size(), 0.0);
  if (!c.has("norm_b.gain")) stream.assign(c.values("x").begin(), c.values("x").end());
  return theory::massive_ceiling(1.0, e.tokens[0].hidden, stream, e.module);
}

double quantile(std::vector<double> values, double q) {
  std::ranges::sort(values);
  const double at = q * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const std::size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (at - static_cast<double>(below)) * (values[above] - values[below]);
}

MassiveCurve massive_curve(const char* placement, const SublayerRule& rule, bool final_norm, std::uint64_t seed) {
  const std::vector<double> factors = massive_factors();
  std::vector<double> ceiling(massive_stacks);
  std::vector gradient(factors.size(), ceiling), bound = gradient;  // [factor][stack]
  parallel_for(ceiling.size(), [&](std::size_t s) {
    const BoundCase stack = massive_stack(rule, final_norm, seed, static_cast<std::uint32_t>(s));
    ceiling[s] = massive_ceiling(stack);
    for (std::size_t k = 0; k < factors.size(); ++k) {
      BoundCase c = stack;
      for (double& w : c.parameters.at("up").values) w *= factors[k];
      const Evaluation e = evaluate(c);
      gradient[k][s] = e.gradient_norm;
      bound[k][s] = theory::sharp_factor(e.tokens[0].path) * e.tokens[0].hidden;
    }
  });
  MassiveCurve m{.placement = placement, .final_norm = final_norm};
  for (std::size_t k = 0; k < factors.size(); ++k) {
    m.gradient.push_back(quantile(gradient[k], 0.5));
    m.low.push_back(quantile(gradient[k], 0.16));
    m.high.push_back(quantile(gradient[k], 0.84));
    m.bound.push_back(quantile(bound[k], 0.5));
  }
  if (ceiling[0] < HUGE_VAL) m.ceiling = quantile(ceiling, 0.5);
  for (std::size_t s = 0; s < ceiling.size(); ++s) {
    for (std::size_t k = 0; k < factors.size(); ++k) {
      m.largest_ratio = larger(m.largest_ratio, gradient[k][s] / bound[k][s]);
      m.largest_to_ceiling = larger(m.largest_to_ceiling, gradient[k][s] / ceiling[s]);
    }
    const double exponent = std::log10(gradient.back()[s] / gradient[factors.size() - 1 - points_per_decade][s]);
    m.lowest_exponent = -larger(-m.lowest_exponent, -exponent);
    m.highest_exponent = larger(m.highest_exponent, exponent);
  }
  return m;
}

}  // namespace

std::vector<double> massive_factors() {
  std::vector<double> all;
  for (int k = 0; k <= decades * points_per_decade; ++k) {
    all.push_back(std::pow(10.0, static_cast<double>(k) / points_per_decade));
  }
  return all;
}

std::vector<MassiveCurve> sweep_massive(std::uint64_t seed) {
  return {massive_curve("pre", pre, false, seed), massive_curve("pre", pre, true, seed),
          massive_curve("peri", peri, false, seed), massive_curve("post", post, false, seed)};
}

}  // namespace periscope::verify
