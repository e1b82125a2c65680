#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "experiments/engine/judge/tolerated_bias.h"
#include "experiments/engine/result/curves.h"
#include "experiments/engine/result/text_table.h"
#include "experiments/engine/run/over_seeds.h"
#include "experiments/engine/run/token_ids.h"
#include "experiments/studies/gradients/common.h"
#include "experiments/studies/gradients/decompose.h"
#include "sim/base/error.h"
#include "sim/numerics/larger.h"

/// Wang et al.'s decomposition (G11) of every stack's gradient g = s + r (decompose.h): the share that passes through
/// the skip connections alone.
namespace periscope::gradients {

static auto parts(GradientPathSizes& s) { return std::tie(s.total, s.skip, s.rest, s.branch, s.error); }

namespace {

/// Returns a bound on ‖g − s − r‖/‖g‖ due to rounding. Both sides of g = s + r have separate rounding errors. Each of
/// 2L sublayers has at most six successive products or norms: sums of `longest` terms with relative error ≤ longest·ε.
double rounding_bound(const StackSpec& spec, DType dtype) {
  const ModelSpec& m = spec.model;
  const int longest = std::max({m.width, m.largest_query_width(), m.mlp_width, spec.input.tokens});
  return 2.0 * 6.0 * m.sublayers() * longest * format_of(dtype).spacing_at_1();
}

GradientPathSizes decompose_seed(const config::Config& config, const Backend& backend, const StackSpec& spec,
                                 std::uint64_t seed) {
  const GeneratedWeights weights(backend, spec, config.run.dtype, seed);
  const StackContext context{.ops = backend, .model = spec.model, .weights = weights};
  return decompose_gradient(context, stacks::stack_input(context, spec, config.run.dtype, seed),
                            stacks::label_ids(spec, seed));
}

/// Adds a seed: ‖s‖²/(‖s‖² + ‖r‖²) and log (‖s_i‖/‖g_2L‖) at depths 0 … 2L, ‖b_i‖/‖g_2L‖ at 0 … 2L−1. Returns the
/// largest |‖s_i‖/‖g_2L‖ − 1|.
double add(const GradientPathSizes& sizes, Case& c) {
  std::vector<double> shares, logs, branches;
  double skip_change = 0.0;
  const double top = sizes.total.back();
  for (std::size_t i = 0; i < sizes.total.size(); ++i) {
    shares.push_back(sizes.skip[i] / (sizes.skip[i] + sizes.rest[i]));
    logs.push_back(0.5 * std::log(sizes.skip[i] / top));
    skip_change = larger(skip_change, std::abs(std::sqrt(sizes.skip[i] / top) - 1.0));
    if (!(sizes.total[i] > 0.0) || !std::isfinite(sizes.total[i])) c.has_gradient = false;
  }
  for (const double b : sizes.branch) branches.push_back(std::sqrt(b / top));
  c.rows["skip_share"].add(shares);
  c.rows["log_skip"].add(logs);
  c.rows["branch_term"].add(branches);
  c.identity_error = larger(c.identity_error, sizes.error);
  return skip_change;
}

/// Adds the tests of the share ‖s‖²/‖g‖² (branches are orthogonal to the skip path) and of the skip path. They need two
/// predictions with the same attention patterns. The share is judged at every depth below the top, where it is 1.
void predict(const Work& work, const StackSpec& overridden, Case& c) {
  const GradientConfig& config = work.config;
  const theory::Prediction all = work.predict(c.spec, overridden);
  c.unsupported = all.unsupported;
  std::vector<judge::Test> shares, log_skips;
  if (c.unsupported.empty()) {
    const theory::Prediction skip = work.predict(c.spec, overridden, theory::GradientPaths::skip_only);
    const std::vector<judge::Test> wholes = log_norms(config, c.spec, all, Signal::x_out);
    const std::vector<judge::Test> skips = log_norms(config, c.spec, skip, Signal::x_out);
    const Curve measured = c.rows.at("skip_share").curve();
    for (std::size_t i = 0; i < wholes.size(); ++i) {
      const judge::Estimate &whole = wholes[i].predicted, &part = skips[i].predicted;
      const double p = std::exp(2.0 * (part.value - whole.value));
      const judge::Estimate share{p, 2.0 * p * std::hypot(part.error, whole.error)};
      const double variance = judge::variance_of(judge::entry(measured, i), config.run.seeds);
      shares.push_back({.predicted = share,
                        .tolerated_bias = judge::share_bias(p, 2.0 * wholes[i].tolerated_bias, variance),
                        .limit = config.agreement.power_limits.score_share,
                        .seeds = i + 1 < wholes.size() ? config.run.seeds : 0,
                        .replicates = all.replicates,
                        .precise = wholes[i].precise && skips[i].precise});
      log_skips.push_back({.predicted = {part.value - skips.back().predicted.value, part.error}});
    }
  }
  c.compare("skip_share", shares);
  c.compare("log_skip", log_skips);
}

/// Judges claim G11: with norms before branches the skip path is the identity; with a norm after the sum it is not.
judge::Claim claim_of(const Case& c, double skip_change) {
  const ModelSpec& model = c.spec.model;
  const SublayerRule rule = model.rule(model.sublayers() - 1);
  const bool expected = !rule.norm_c && rule.alpha == 1.0;
  judge::Claim claim{.id = "G11", .claimed = expected ? 1.0 : 0.0};
  if (model.rule(0).norm_c != rule.norm_c || !c.has_gradient) return claim;  // G11 does not cover Mix-LN
  const bool holds = c.identity_error <= c.identity_bound && (skip_change == 0.0) == expected;
  claim.verdict = holds ? judge::ClaimVerdict::holds : judge::ClaimVerdict::fails;
  return claim;
}

Case decompose(const Work& work, const StackSpec& spec, const StackSpec& overridden) {
  const config::RunOptions& run = work.config.run;
  Case c{.spec = spec, .identity_bound = rounding_bound(spec, run.dtype)};
  double skip_change = 0.0;  // largest |‖s_i‖/‖g_2L‖ − 1|: 0 for an identity
  stacks::over_cached_seeds(
      "paths", spec, run, run.seeds, config::short_label(spec), work.progress,
      [&](std::uint64_t seed) { return decompose_seed(work.config, work.backend, spec, seed); },
      [&](const GradientPathSizes& sizes) { skip_change = larger(skip_change, add(sizes, c)); });
  c.compare("branch_term");
  predict(work, overridden, c);
  c.claims["claim"] = claim_of(c, skip_change);
  return c;
}

std::string identity_path_table(const GradientConfig&, const Result& result) {
  dataset::TextTable table({"placement", "identity: error", "share at depth 0", "predicted", "theory", "log ‖s₀‖/‖g_L‖",
                            "predicted", "claim"});
  for (const Case& c : result.cases) {
    const auto predicted = [&](const std::string& name) {
      return judge::number_or_dash(c.tests.at(name).front().predicted.value, "{:.3g}");
    };
    const auto measured = [&](const std::string& name) { return judge::plus_minus(c.tests.at(name).front().measured); };
    const double error = c.identity_error, bound = c.identity_bound;
    table.add({config::placement_label(c.spec),
               fmt::format("{} {} {:.0e}", judge::number_or_dash(error, "{:.1e}"),
                           error <= bound  ? "≤"
                           : error > bound ? ">"
                                           : "?",
                           bound),
               measured("skip_share"), predicted("skip_share"),
               c.unsupported.empty() ? judge::verdict_words(c.test("skip_share")) : c.unsupported, measured("log_skip"),
               predicted("log_skip"), fmt::format("G11: {}", judge::name_of(c.claims.at("claim").verdict))});
  }
  return table.text() +
         "g = s + r at every depth: s passes through skip connections alone, r through at least one branch; error: "
         "‖g − s − r‖/‖g‖.\nshare: ‖s‖²/(‖s‖² + ‖r‖²), ± standard error; the verdict is for the depth nearest to "
         "rejection. G11: s equals the gradient at the top, unless a norm follows the sum.\n";
}

void require_one_stream(const GradientConfig& config) {
  for (const auto& all : {config.stacks(), config.predicted_stacks()}) {
    for (const StackSpec& spec : all) {
      if (!spec.model.ends().has(Signal::r_out)) continue;
      throw ConfigError(
          fmt::format("model.placement = \"{}\": expected a placement with one stream", spec.model.placement.name));
    }
  }
}

}  // namespace

Experiment identity_path_experiment() {
  using dataset::Type;
  Columns columns = columns_of("case");
  add_compared(columns, {"skip_share", "case depth", "1", "share of the skip path in the gradient"});
  add_compared(columns, {"log_skip", "case depth", "nat",
                         "log of the skip path's gradient norm over the gradient norm at the top"});
  add_measured(columns,
               {"branch_term", "case sublayer", "1", "norm of a branch's term over the gradient norm at the top"});
  columns.column({"identity_error", "case", "1", "largest |g - s - r| / |g| (norms)"}, &Case::identity_error)
      .column({"identity_bound", "case", "1", "rounding bound of identity_error"}, &Case::identity_bound);
  add_verdict(columns, "verdict", "skip_share", "case", "verdict on the share, over all depths (T19)");
  add_claim(columns, "claim", "case", "1");
  std::vector<dataset::ColumnSpec> all = columns.specs();
  std::ranges::copy(dataset::sublayer_labels(), std::back_inserter(all));
  return {.name = "gradients identity-path",
          .question = "The gradient as a sum over paths: the skip connections alone, and the branches",
          .configuration = "identity_path.toml",
          .columns = columns,
          .schema = dataset::Schema("identity_path", 4,
                                    {{"case"},
                                     {"depth", Type::integer, "1", "sublayers passed; 0 is the stack's input"},
                                     {"sublayer", Type::integer, "1", "sublayer, from 0"}},
                                    std::move(all)),
          .compared = [](const Profile& p) { return stream_and(p, Statistic::score_share, Signal::A_out); },
          .decomposes = true,
          .predictions = 2,  // one with all paths, one with the skip path alone
          .require = require_one_stream,
          .measure = decompose,
          .table = identity_path_table};
}

}  // namespace periscope::gradients
