#include "experiments/studies/certify/headroom.h"

#include <algorithm>
#include <cmath>

#include "experiments/core/config/theory_parameters.h"
#include "sim/model/input.h"
#include "sim/model/loss.h"

namespace periscope::certify {
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

/// The largest bounds of what grows with c and with k.
struct Reach {
  double stream = 0.0;
  double branch = 0.0;
};

Reach reach_of(const ModelSpec& m, const theory::Certificate& certificate) {
  Reach reach;
  for (const theory::SignalBound& b : certificate.bounds) {
    if (grows_with_branch(m, b)) reach.branch = std::max(reach.branch, b.largest);
    if (grows_with_stream(m, b)) reach.stream = std::max(reach.stream, b.largest);
  }
  return reach;
}

std::vector<double> logits_of(const StackContext& c, std::span<const int> ids) {
  return c.ops.to_host(logits_forward(c, stack_forward(c, embedding_forward(c, ids)).output));
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

Headroom headroom_of(const ModelSpec& m, const theory::Certificate& certificate, const SignalMaxima* measured,
                     std::span<const theory::Certificate> runs) {
  Headroom h;
  h.possible = can_scale(m);
  if (!h.possible) return h;
  h.recipe = recipe_of(m);
  if (measured == nullptr) h.stream_measured = nan;
  const Reach exact = reach_of(m, certificate);
  h.stream_bound = exact.stream;
  h.branch_bound = exact.branch;
  for (const theory::SignalBound& b : certificate.bounds) {
    if (measured == nullptr || !grows_with_stream(m, b)) continue;
    h.stream_measured = std::max(h.stream_measured, measured->largest(b.signal, b.sublayer));
  }
  for (const NumberFormat& format : number_formats) {
    Reach reach = exact;
    for (const theory::Certificate& run : runs) {
      if (run.arithmetic.stored.name == format.name) reach = reach_of(m, run);
    }
    h.formats.push_back({format, format.largest / reach.stream,
                         reach.branch > 0.0 ? format.largest / reach.branch : nan,
                         format.largest / (Headroom::margin * h.stream_measured)});
  }
  return h;
}

double power_of_two_below(double x) {
  int exponent = 0;
  std::frexp(x, &exponent);
  return std::ldexp(1.0, exponent - 1);
}

ScaledRun run_scaled(const StackContext& c, const StackScale& scale, std::span<const int> ids,
                     std::span<const theory::Certificate> runs) {
  ScaledRun run{
      .scale = scale, .tokens = static_cast<int>(ids.size()), .model = scaled_model(c.model, scale), .certificate = {}};
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
  const config::TheoryParameters parameters(c.ops, run.model, weights);
  run.certificate = theory::certify(run.model, parameters, tokens);
  for (const theory::Certificate& of : runs) {
    run.runs.push_back(theory::certify(run.model, parameters, tokens, of.arithmetic, of.longest));
  }
  return run;
}

}  // namespace periscope::certify
