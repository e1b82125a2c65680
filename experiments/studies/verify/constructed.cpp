#include "experiments/studies/verify/attacks.h"

#include <algorithm>
#include <cmath>

#include "experiments/studies/verify/draw.h"
#include "experiments/studies/verify/statements.h"
#include "sim/base/in_parallel.h"
#include "sim/measure/signal_keeper.h"
#include "sim/model/parameters.h"
#include "sim/model/resident_weights.h"
#include "sim/model/stack.h"
#include "sim/numerics/larger.h"
#include "sim/reference/backend.h"

namespace periscope::verify {
namespace {

/// x̂ x̂ᵀ for every matrix, W_up and W_down through the first of the hidden units alone; the norms have that gain.
ResidentWeights aligned_weights(const Backend& ops, const StackSpec& spec, std::vector<double> direction, double gain) {
  double square = 0.0;
  for (const double v : direction) square += v * v;
  for (double& v : direction) v /= std::sqrt(square);
  std::vector<double> first(direction.size(), 0.0);
  first[0] = 1.0;
  const int width = spec.model.width;
  ResidentWeights::Parameters all;
  for (const ParameterId& id : matrices_of(spec)) {
    std::vector<double> w;
    for (const double row : id.weight == Weight::up ? first : direction) {
      for (const double column : id.weight == Weight::down ? first : direction) w.push_back(row * column);
    }
    all[id] = ops.from_host(width, width, DType::f64, w);
  }
  for (const ParameterId& id : gains_of(spec.model)) all[id] = ops.constant(1, width, DType::f64, gain);
  return {spec.model, std::move(all)};
}

constexpr int points_per_decade = 2, decades = 6;

/// Stack `number` under one setting. Weights and input are the same for all settings.
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
  std::vector<double> stream(e.module.size(), 0.0);
  if (e.tokens[0].norms.empty()) return HUGE_VAL;
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
  using PerStack = std::vector<double>;
  const PerStack zeros(massive_stacks);
  std::vector<PerStack> gradient(factors.size(), zeros), bound(factors.size(), zeros);
  PerStack ceiling = zeros;
  in_parallel(ceiling.size(), [&](std::size_t s) {
    const BoundCase stack = massive_stack(rule, final_norm, seed, static_cast<std::uint32_t>(s));
    ceiling[s] = massive_ceiling(stack);
    for (std::size_t k = 0; k < factors.size(); ++k) {
      BoundCase c = stack;
      for (double& w : c.parameters.at("up").values) w *= factors[k];
      const Evaluation e = evaluate(c);
      gradient[k][s] = e.gradient_norm;
      bound[k][s] = theory::sharp_factor(e.path(e.tokens[0])) * e.tokens[0].hidden;
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

BoundAttackResult grow_aligned(int layers, int width, double gain) {
  const std::unique_ptr<Backend> ops = make_reference_backend();
  StackSpec spec;
  ModelSpec& model = spec.model;
  model.layers = layers;
  model.width = model.head_dim = model.mlp_width = width;
  model.heads = model.kv_heads = 1;
  model.mlp = MlpKind::relu;
  model.norm_eps = 0.0;
  model.rope = model.final_norm = model.unembedding = false;
  std::vector<double> x;
  for (int i = 0; i < width; ++i) x.push_back(std::cos(1.0 + i));  // any direction
  const ResidentWeights weights = aligned_weights(*ops, spec, x, gain);
  const StackContext context{.ops = *ops, .model = model, .weights = weights};
  const auto rms = [&](const Tensor& t) { return std::sqrt(ops->row_moments(t)[Statistic::second_moment][0]); };
  SignalKeeper signals(Pass::forward);
  (void)stack_forward(context, ops->from_host(1, width, DType::f64, x), {.recorders = {&signals}});
  constexpr Attack aligned{.name = "aligned stack (T16)",
                           .about = "rms at depth l / (rms of the input + l gamma)",
                           .objective = nullptr,
                           .limit = 1.0,
                           .required = 1.0 - 1e-12,
                           .permitted = 1.0 + 1e-12};
  const double start = rms(signals.at(-1, Signal::x_out));
  double farthest = 1.0;
  for (int l = 0; l < model.sublayers(); ++l) {
    const double ratio = rms(signals.at(l, Signal::x_out)) / (start + (l + 1) * gain);
    if (!(std::abs(ratio - 1.0) <= std::abs(farthest - 1.0))) farthest = ratio;
  }
  return {aligned, farthest, {}};
}

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
