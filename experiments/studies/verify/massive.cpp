#include "experiments/studies/verify/massive.h"

#include <algorithm>
#include <boost/random/normal_distribution.hpp>
#include <cmath>
#include <limits>

#include "experiments/engine/judge/seed_rows.h"
#include "experiments/studies/verify/evaluate.h"
#include "sim/base/first_exception.h"
#include "sim/numerics/allowances.h"
#include "sim/numerics/larger.h"
#include "sim/random/philox.h"

namespace periscope::verify {
namespace {

constexpr int stack_count = 32, stack_width = 64, stack_hidden = 256;
constexpr int points_per_decade = 2, decades = 6;
constexpr int exponent_decades = 1;

struct Setting {
  const char* placement;
  SublayerRule rule;
  bool final_norm;
};
constexpr Setting settings[] = {{"pre", {.norm_a = true}, false},
                                {"pre", {.norm_a = true}, true},
                                {"peri", {.norm_a = true, .norm_b = true}, false},
                                {"post", {.norm_c = true}, false}};

/// Stack `number` under one setting. Weights and input are the same for all settings.
BoundCase stack_of(const Setting& setting, std::uint64_t seed, std::uint32_t number) {
  PhiloxEngine engine({seed, number, Stream::verify_massive});
  boost::random::normal_distribution<double> normal;
  const auto draw = [&](int count, double scale) {
    std::vector<double> values(static_cast<std::size_t>(count));
    for (double& v : values) v = scale * normal(engine);
    return values;
  };
  BoundCase c = plain_case(setting.rule, stack_width);
  c.set("x", draw(stack_width, 1.0), stack_width);
  c.set("up", draw(stack_hidden * stack_width, 1.0 / std::sqrt(stack_width)), stack_width);
  c.set("down", draw(stack_width * stack_hidden, 1.0 / std::sqrt(stack_hidden)), stack_hidden);
  if (setting.final_norm) c.set("final_norm.gain", std::vector<double>(stack_width, 1.0));
  const std::vector<double> a = evaluate(c).module;
  c.set("labels", {static_cast<double>(std::ranges::min_element(a) - a.begin())});
  return c;
}

double quantile(std::vector<double> values, double q) {
  std::ranges::sort(values);
  const double at = q * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const std::size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (at - static_cast<double>(below)) * (values[above] - values[below]);
}

/// One stack over all factors.
struct StackCurve {
  std::vector<double> gradient, bound;
  double ceiling = std::numeric_limits<double>::infinity();
};

double ceiling_of(const Setting& setting, const BoundCase& c, const Evaluation& e) {
  const double hidden = e.tokens.front().hidden;
  const std::vector<double> nothing(e.module.size(), 0.0);
  if (setting.rule.norm_b) return theory::massive_ceiling(1.0, hidden, nothing, e.module);
  if (setting.rule.norm_c || setting.final_norm) return theory::massive_ceiling(1.0, hidden, c.values("x"), e.module);
  return std::numeric_limits<double>::infinity();
}

StackCurve measure(const Setting& setting, const BoundCase& stack, const std::vector<double>& factors) {
  StackCurve curve;
  curve.ceiling = ceiling_of(setting, stack, evaluate(stack));
  for (const double factor : factors) {
    BoundCase c = stack;
    for (double& w : c.parameters.at("up").values) w *= factor;
    const Evaluation e = evaluate(c);
    const TokenFacts& t = e.tokens.front();
    curve.gradient.push_back(e.gradient_norm);
    curve.bound.push_back(theory::sharp_factor(e.path(t)) * t.hidden);
  }
  return curve;
}

MassiveCurve summary(const Setting& setting, const std::vector<StackCurve>& stacks, std::size_t factors) {
  MassiveCurve m{.placement = setting.placement, .final_norm = setting.final_norm};
  const auto over_stacks = [&](auto value) {
    std::vector<double> values;
    for (const StackCurve& s : stacks) values.push_back(std::invoke(value, s));
    return values;
  };
  for (std::size_t k = 0; k < factors; ++k) {
    const std::vector<double> gradient = over_stacks([k](const StackCurve& s) { return s.gradient[k]; });
    m.gradient.push_back(quantile(gradient, 0.5));
    m.low.push_back(quantile(gradient, 0.16));
    m.high.push_back(quantile(gradient, 0.84));
    m.bound.push_back(quantile(over_stacks([k](const StackCurve& s) { return s.bound[k]; }), 0.5));
    for (const StackCurve& s : stacks) {
      m.largest_ratio = larger(m.largest_ratio, s.gradient[k] / s.bound[k]);
      m.largest_to_ceiling = larger(m.largest_to_ceiling, s.gradient[k] / s.ceiling);
    }
  }
  m.ceiling = stacks.front().ceiling < HUGE_VAL ? quantile(over_stacks(&StackCurve::ceiling), 0.5)
                                                : std::numeric_limits<double>::infinity();
  const std::size_t from = factors - 1 - static_cast<std::size_t>(exponent_decades * points_per_decade);
  const std::vector<double> exponents = over_stacks(
      [&](const StackCurve& s) { return std::log10(s.gradient.back() / s.gradient[from]) / exponent_decades; });
  m.lowest_exponent = m.highest_exponent = exponents.front();
  for (const double e : exponents) {
    m.lowest_exponent = -larger(-m.lowest_exponent, -e);
    m.highest_exponent = larger(m.highest_exponent, e);
  }
  return m;
}

}  // namespace

bool MassiveSweep::grows_without_final_norm() const {
  return std::ranges::all_of(curves, [](const MassiveCurve& c) {
    return c.placement != "pre" || c.final_norm || (c.lowest_exponent > 0.99 && c.highest_exponent < 1.01);
  });
}

bool MassiveSweep::bounded_with_final_norm() const {
  return std::ranges::all_of(curves, [](const MassiveCurve& c) {
    return !c.final_norm || (c.largest_to_ceiling <= attained_limit && c.highest_exponent < 0.01);
  });
}

MassiveSweep sweep_massive(std::uint64_t seed) {
  MassiveSweep sweep{.stacks = stack_count, .width = stack_width, .hidden = stack_hidden};
  for (int k = 0; k <= decades * points_per_decade; ++k) {
    sweep.factor.push_back(std::pow(10.0, static_cast<double>(k) / points_per_decade));
  }
  for (const Setting& setting : settings) {
    std::vector<StackCurve> stacks(stack_count);
    FirstException failure;
#pragma omp parallel for schedule(dynamic, 1)
    for (int s = 0; s < stack_count; ++s) {
      failure.run([&] {
        const BoundCase stack = stack_of(setting, seed, static_cast<std::uint32_t>(s));
        stacks[static_cast<std::size_t>(s)] = measure(setting, stack, sweep.factor);
      });
    }
    failure.rethrow();
    sweep.curves.push_back(summary(setting, stacks, sweep.factor.size()));
  }
  return sweep;
}

}  // namespace periscope::verify
