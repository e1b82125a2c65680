#include "experiments/studies/certify/certify.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "experiments/engine/run/rescaled_stack.h"

namespace periscope::certify {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

/// Returns the largest power of two, within 2^±most_doublings, by which `reach` can be multiplied without exceeding
/// the format; 0 for an infinite reach.
double fitting_factor(const NumberFormat& format, double reach) {
  const double fits = format.largest / reach;
  if (!(fits > 0.0)) return 0.0;
  return std::clamp(stacks::power_of_two_below(std::min(fits, 0x1p100)), std::ldexp(1.0, -Headroom::most_doublings),
                    std::ldexp(1.0, Headroom::most_doublings));
}

/// The first signal for which a scaled stack is not certified.
struct Overflow {
  Signal signal;
  int sublayer;
  double excess;  ///< ratio of bound to limit
  std::string reason;
};

using OverflowAt = std::function<std::optional<Overflow>(const StackScale&)>;

/// Returns the largest power of two for `factor`, at most `from`, for which no signal can overflow. Returns NaN if all
/// factors fail, or if a smaller factor does not reduce the excess. On input, `overflow` is the overflow at a larger
/// factor, if known. On output, it is the reason for NaN, else nullopt.
double largest_factor(const OverflowAt& overflow_at, StackScale scale, double StackScale::*factor, double from,
                      std::optional<Overflow>& overflow) {
  constexpr int lowest = -Headroom::most_doublings;
  const auto overflow_to = [&](int exponent) {
    scale.*factor = std::ldexp(1.0, exponent);
    return overflow_at(scale);
  };
  int good = std::ilogb(from);
  int bad = good + 1;
  for (int step = 1;; good = std::max(good - step, lowest), step *= 2) {
    const std::optional<Overflow> before = overflow;
    overflow = overflow_to(good);
    if (!overflow) break;
    bad = good;
    const bool stays = before && before->signal == overflow->signal && before->sublayer == overflow->sublayer;
    if (stays && std::isfinite(overflow->excess) && overflow->excess > 0.99 * before->excess) return nan;
    if (good == lowest) return nan;
  }
  while (bad - good > 1) {
    const int middle = good + (bad - good) / 2;
    (overflow_to(middle) ? bad : good) = middle;
  }
  return std::ldexp(1.0, good);
}

/// Sets the certified factors. Their upper limits follow from `least`, the bounds in exact arithmetic. The bounds of a
/// run give no useful limit: in a small stream they consist mostly of rounding near zero.
void judge(const ModelSpec& m, const theory::Certificate& certificate, const CertifyScaled& certify_at,
           const stacks::GrowingBounds& least, FormatHeadroom& f) {
  if (!(f.fitting.stream > 0.0)) {
    f.reason = "the stream has no bound";
    return;
  }
  const OverflowAt overflow_at = [&](const StackScale& scale) -> std::optional<Overflow> {
    const bool is_itself = scale.stream == 1.0 && scale.branch == 1.0;
    const theory::Certificate scaled = is_itself ? certificate : certify_at(scale, certificate);
    const theory::Verdict v = theory::verdict(scaled, std::nullopt, f.format);
    if (v.certified) return std::nullopt;
    return Overflow{v.first->signal, v.first->sublayer, v.first->largest / v.limit, reason_of(v, m)};
  };
  StackScale scale = f.fitting;
  std::optional<Overflow> overflow;
  const double most_stream = fitting_factor(f.format, least.stream);
  if (most_stream < 1.0) overflow = overflow_at({});
  scale.stream = f.stream = largest_factor(overflow_at, scale, &StackScale::stream, most_stream, overflow);
  if (overflow) f.reason = overflow->reason;
  if (std::isnan(f.stream) || !(least.branch > 0.0)) return;
  f.branch = f.fitting.branch;
  const double most_branch = fitting_factor(f.format, least.branch);
  if (most_branch <= f.branch) return;
  f.branch = std::max(f.branch, largest_factor(overflow_at, scale, &StackScale::branch, most_branch, overflow = {}));
}

}  // namespace

const theory::Certificate& Certificates::in(const NumberFormat& format) const {
  const auto stored = [](const theory::Certificate& c) { return c.arithmetic.stored.name; };
  const auto at = std::ranges::find(runs, format.name, stored);
  return at == runs.end() ? exact : *at;
}

const theory::Certificate& Certificates::of(std::optional<theory::SignalClass> kind, const NumberFormat& format) const {
  const auto name = [](const theory::Certificate& c) { return c.cached->name; };
  const auto at = std::ranges::find(caches, format.name, name);
  return kind == theory::SignalClass::cache && at != caches.end() ? *at : in(format);
}

std::string why_unscalable(const ModelSpec& m) {
  return is_pointwise(m.norm)
             ? fmt::format("model.norm = \"{}\": expected a norm that divides by its input's size, such as \"rms\"",
                           facts_of(m.norm).name)
             : "expected a final norm or an unembedding, as otherwise the output is the scaled stream itself";
}

Headroom headroom_of(const ModelSpec& m, const Certificates& all, std::span<const NumberFormat> formats,
                     const SignalMaxima* measured, const CertifyScaled& certify_at, TableFactor embedding) {
  if (!can_scale(m)) return {};
  Headroom h{.recipe = recipe_of(m, embedding), .formats = {}, .run = {}};
  const stacks::GrowingBounds exact = stacks::growing_bounds(m, all.exact);
  double largest = measured == nullptr ? nan : 0.0;  // largest measured magnitude of signals that grow with c
  for (const theory::SignalBound& b : all.exact.bounds) {
    if (measured == nullptr || !stacks::grows_with_stream(m, b)) continue;
    largest = std::max(largest, measured->largest(b.signal, b.sublayer));
  }
  for (const NumberFormat& format : formats) {
    const theory::Certificate& certificate = all.in(format);
    // If a run has no finite bounds (for example because weights exceed the format), start from the exact bounds.
    stacks::GrowingBounds reach = stacks::growing_bounds(m, certificate);
    if (!std::isfinite(reach.stream)) reach.stream = exact.stream;
    if (!std::isfinite(reach.branch)) reach.branch = exact.branch;
    FormatHeadroom f{.format = format,
                     .stream = nan,
                     .branch = nan,
                     .measured = format.largest / (Headroom::margin * largest),
                     .fitting = {.stream = fitting_factor(format, reach.stream), .embedding = embedding}};
    if (const double k = fitting_factor(format, reach.branch); k > 0.0) f.fitting.branch = std::min(1.0, k);
    judge(m, certificate, certify_at, exact, f);
    h.formats.push_back(std::move(f));
  }
  return h;
}

CertifyScaled certify_scaled(const StackContext& c, const theory::InputDomain& domain, config::EntryNames names) {
  return [&c, domain, names = std::move(names)](const StackScale& scale, const theory::Certificate& like) {
    const ModelSpec model = scaled_model(c.model, scale);
    const ScaledWeights weights(c.ops, c.model, c.weights, scale);
    theory::InputDomain scaled = domain;
    if (!domain.tokens && !model.embedding_norm) scaled.largest *= scale.stream;
    return theory::certify(model, config::TheoryParameters(c.ops, model, weights, names), scaled, like.arithmetic,
                           like.longest, like.cached ? std::vector{*like.cached} : std::vector<NumberFormat>());
  };
}

ScaledRun run_scaled(const StackContext& c, const StackScale& scale, std::span<const int> ids,
                     const Certificates& certificates, const CertifyScaled& certify_at) {
  ScaledRun run{.scale = scale, .tokens = static_cast<int>(ids.size()), .model = scaled_model(c.model, scale)};
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
  StackScale gains_alone = scale;
  gains_alone.branch = 1.0;
  gains_alone.gains_only = true;
  run.gains_alone = compare(gains_alone, c.model.norm_eps);
  run.certificates.exact = certify_at(scale, certificates.exact);
  for (const theory::Certificate& of : certificates.runs) run.certificates.runs.push_back(certify_at(scale, of));
  for (const theory::Certificate& of : certificates.caches) run.certificates.caches.push_back(certify_at(scale, of));
  return run;
}

}  // namespace periscope::certify
