#include "experiments/studies/certify/headroom.h"

#include <algorithm>
#include <cmath>

#include "experiments/core/config/theory_parameters.h"
#include "experiments/core/stacks/same_function.h"
#include "experiments/core/stacks/stream_reach.h"

namespace periscope::certify {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

}  // namespace

Headroom headroom_of(const ModelSpec& m, const theory::Certificate& certificate, const SignalMaxima* measured,
                     std::span<const theory::Certificate> runs) {
  Headroom h;
  h.possible = can_scale(m);
  if (!h.possible) return h;
  h.recipe = recipe_of(m);
  if (measured == nullptr) h.stream_measured = nan;
  const stacks::StreamReach exact = stacks::reach_of(m, certificate);
  h.stream_bound = exact.stream;
  h.branch_bound = exact.branch;
  for (const theory::SignalBound& b : certificate.bounds) {
    if (measured == nullptr || !stacks::grows_with_stream(m, b)) continue;
    h.stream_measured = std::max(h.stream_measured, measured->largest(b.signal, b.sublayer));
  }
  for (const NumberFormat& format : number_formats) {
    stacks::StreamReach reach = exact;
    for (const theory::Certificate& run : runs) {
      if (run.arithmetic.stored.name == format.name) reach = stacks::reach_of(m, run);
    }
    h.formats.push_back({format, format.largest / reach.stream,
                         reach.branch > 0.0 ? format.largest / reach.branch : nan,
                         format.largest / (Headroom::margin * h.stream_measured)});
  }
  return h;
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
    return stacks::relative_difference(stacks::logits_of({.ops = c.ops, .model = before, .weights = c.weights}, ids),
                                       stacks::logits_of({.ops = c.ops, .model = after, .weights = weights}, ids));
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
