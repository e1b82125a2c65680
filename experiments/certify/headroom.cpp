#include "experiments/certify/headroom.h"

#include <algorithm>
#include <cmath>

#include "experiments/certify/theory_parameters.h"
#include "sim/model/head.h"
#include "sim/model/input.h"
#include "sim/model/stack.h"

namespace periscope {

using theory::Signal;

namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

bool grows_with_stream(const ModelSpec& m, const theory::SignalBound& b) {
  switch (b.signal) {
    case Signal::embedding:
    case Signal::input: return !m.embedding_norm;
    case Signal::x_out:
    case Signal::sum:
    case Signal::r_out:
    case Signal::B_out: return true;
    case Signal::f_out: return !m.rule(b.sublayer).norm_b;
    default: return false;
  }
}

bool grows_with_branch(const ModelSpec& m, const theory::SignalBound& b) {
  if (b.sublayer < 0 || b.sublayer >= m.sublayers() || !m.rule(b.sublayer).norm_b) return false;
  return b.signal == Signal::f_out || (is_gated(m.mlp) && (b.signal == Signal::up || b.signal == Signal::hidden));
}

std::vector<double> logits_of(const StackContext& c, std::span<const int> ids) {
  IdleObserver silent;
  const StackOutput out = stack_forward(c, embedding_forward(c, ids), silent);
  return c.ops.to_host(head_forward(c, out.output).logits);
}

/// max |a − b| / max |a|.
double difference(const std::vector<double>& a, const std::vector<double>& b) {
  double apart = 0.0;
  double largest = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double d = std::abs(a[i] - b[i]);
    apart = std::isnan(d) ? theory::infinity : std::max(apart, d);
    largest = std::max(largest, std::abs(a[i]));
  }
  return apart / largest;
}

}  // namespace

Headroom headroom_of(const ModelSpec& m, const theory::Certificate& certificate, const SignalMaxima* measured) {
  Headroom h;
  h.possible = can_scale(m);
  if (!h.possible) return h;
  h.recipe = recipe_of(m);
  if (measured == nullptr) h.stream_measured = nan;
  for (const theory::SignalBound& b : certificate.bounds) {
    if (grows_with_branch(m, b)) h.branch_bound = std::max(h.branch_bound, b.largest);
    if (!grows_with_stream(m, b)) continue;
    h.stream_bound = std::max(h.stream_bound, b.largest);
    if (measured != nullptr) h.stream_measured = std::max(h.stream_measured, measured->largest(b.signal, b.sublayer));
  }
  for (const NumberFormat& format : number_formats) {
    h.formats.push_back({format, format.largest / h.stream_bound,
                         h.branch_bound > 0.0 ? format.largest / h.branch_bound : nan,
                         format.largest / (Headroom::margin * h.stream_measured)});
  }
  return h;
}

double power_of_two_below(double x) {
  int exponent = 0;
  std::frexp(x, &exponent);
  return std::ldexp(1.0, exponent - 1);
}

ScaledRun run_scaled(const StackContext& c, const StackScale& scale, std::span<const int> ids) {
  ScaledRun run{.scale = scale, .tokens = static_cast<int>(ids.size()), .certificate = {}};
  const auto compare = [&](const StackScale& s, double eps) {
    ModelSpec before = c.model;
    before.norm_eps = eps;
    const ModelSpec after = scaled_model(before, s);
    const ScaledWeights weights(c.ops, before, c.weights, s);
    return difference(logits_of({.ops = c.ops, .model = before, .weights = c.weights}, ids),
                      logits_of({.ops = c.ops, .model = after, .weights = weights}, ids));
  };
  run.difference = compare(scale, c.model.norm_eps);
  run.without_eps = compare(scale, 0.0);
  run.gains_alone = compare({.stream = scale.stream, .branch = 1.0, .gains_only = true}, c.model.norm_eps);
  const ScaledWeights weights(c.ops, c.model, c.weights, scale);
  const theory::InputDomain tokens;
  run.certificate = theory::certify(scaled_model(c.model, scale), TheoryParameters(c.ops, weights), tokens);
  return run;
}

}  // namespace periscope
