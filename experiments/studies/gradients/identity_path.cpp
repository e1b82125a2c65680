#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "experiments/engine/result/curves.h"
#include "experiments/engine/result/text_table.h"
#include "experiments/engine/run/over_seeds.h"
#include "experiments/engine/run/token_ids.h"
#include "experiments/studies/gradients/decompose.h"
#include "experiments/studies/gradients/experiments.h"
#include "sim/base/error.h"
#include "sim/numerics/larger.h"

namespace periscope::gradients {

static auto parts(GradientPathSizes& s) {
  return std::tie(s.total, s.skip, s.rest, s.cosine, s.branch, s.branch_cosine, s.error);
}

namespace {

/// Each side of g = s + r rounds by itself: per sublayer a chain of at most six matrix products or norms, each a sum
/// over `longest` terms with a relative error of at most longest·ε, and 2L sublayers below one another.
double rounding_bound(const StackSpec& spec, DType dtype) {
  const ModelSpec& m = spec.model;
  const int longest = std::max({m.width, m.query_width(), m.mlp_width, spec.input.tokens});
  return 2.0 * 6.0 * m.sublayers() * longest * format_of(dtype).spacing_at_1();
}

GradientPathSizes decompose_seed(const config::Config& config, const Backend& backend, const StackSpec& spec,
                                 std::uint64_t seed) {
  const GeneratedWeights weights(backend, spec, config.run.dtype, seed);
  const StackContext context{.ops = backend, .model = spec.model, .weights = weights};
  return decompose_gradient(context, stacks::stack_input(context, spec, config.run.dtype, seed),
                            stacks::label_ids(spec, seed));
}

void add(IdentityPath& path, const GradientPathSizes& sizes) {
  std::vector<double> share, log_skip, branch;
  const double top = sizes.total.back();
  for (std::size_t i = 0; i < sizes.total.size(); ++i) {
    share.push_back(sizes.skip[i] / (sizes.skip[i] + sizes.rest[i]));
    log_skip.push_back(0.5 * std::log(sizes.skip[i] / top));
    path.skip_change = larger(path.skip_change, std::abs(std::sqrt(sizes.skip[i] / top) - 1.0));
    if (!(sizes.total[i] > 0.0) || !std::isfinite(sizes.total[i])) path.has_gradient = false;
  }
  for (const double b : sizes.branch) branch.push_back(std::sqrt(b / top));
  path.share.measured.add(share);
  path.log_skip.measured.add(log_skip);
  path.cosine.add(sizes.cosine);
  path.branch.add(branch);
  path.branch_cosine.add(sizes.branch_cosine);
  path.error = larger(path.error, sizes.error);
}

/// Predicted share and skip path, from two predictions that share their patterns.
void predict(const config::Config& config, const StackSpec& overridden, stacks::Progress& progress,
             IdentityPath& path) {
  const theory::Prediction all = predict_gradients(config, path.spec, overridden, progress);
  path.refusal = all.refusal;
  if (!path.refusal.empty()) return;
  const theory::Prediction skip =
      predict_gradients(config, path.spec, overridden, progress, theory::GradientPaths::skip_only);
  const Curve total_log = log_norm(all.profile, Signal::x_out);
  const Curve skip_log = log_norm(skip.profile, Signal::x_out);
  const std::vector<bool> total_precise = log_norm_precise(all, Signal::x_out);
  const std::vector<bool> skip_precise = log_norm_precise(skip, Signal::x_out);
  const Curve measured = path.share.measured.curve();
  for (std::size_t i = 0; i < total_log.value.size(); ++i) {
    const double p = std::exp(2.0 * (skip_log.value[i] - total_log.value[i]));
    const double p_error = 2.0 * p * std::hypot(skip_log.standard_error[i], total_log.standard_error[i]);
    path.share.predicted.value.push_back(p);
    path.share.predicted.standard_error.push_back(p_error);
    path.log_skip.predicted.value.push_back(skip_log.value[i] - skip_log.value.back());
    path.log_skip.predicted.standard_error.push_back(skip_log.standard_error[i]);
    if (i + 1 == total_log.value.size()) continue;  // at the top the share is 1
    const double bias =
        share_bias(p, 2.0 * log_norm_bias(config, path.spec, all, i, 0.0), variance_of(measured, i, config.run.seeds));
    path.shares.push_back({.measured = judge::entry(measured, i),
                           .predicted = {p, p_error},
                           .tolerated_bias = bias,
                           .limit = config.agreement.power_limits.score_share,
                           .seeds = config.run.seeds,
                           .replicates = all.replicates,
                           .precise = total_precise[i] && skip_precise[i]});
  }
}

IdentityPath measure_decomposition(const GradientConfig& config, const Backend& backend, const StackSpec& spec,
                                   const StackSpec& overridden, stacks::Progress& progress) {
  IdentityPath path;
  path.spec = spec;
  stacks::over_cached_seeds(
      "paths", spec, config.run, config.run.seeds, config::short_label(spec), progress,
      [&](std::uint64_t seed) { return decompose_seed(config, backend, spec, seed); },
      [&](const GradientPathSizes& sizes) { add(path, sizes); });
  predict(config, overridden, progress, path);
  path.error_bound = rounding_bound(spec, config.run.dtype);
  return path;
}

/// G11: with norms before branches the skip path is the identity; with a norm after the sum it is not.
void judge_claim(IdentityPath& path) {
  const ModelSpec& model = path.spec.model;
  const SublayerRule rule = model.rule(model.sublayers() - 1);
  const bool identity = path.skip_change == 0.0;
  const bool expected = !rule.norm_c && rule.alpha == 1.0;
  path.claim = {.id = "G11", .claimed = expected ? 1.0 : 0.0};
  if (model.rule(0).norm_c != rule.norm_c || !path.has_gradient) return;  // Mix-LN: the claim speaks of neither
  path.claim.verdict =
      path.error <= path.error_bound && identity == expected ? judge::ClaimVerdict::holds : judge::ClaimVerdict::fails;
}

std::string table_of(const std::vector<IdentityPath>& results) {
  dataset::TextTable table({"placement", "identity: error", "share at depth 0", "predicted", "theory", "log ‖s₀‖/‖g_L‖",
                            "predicted", "claim"});
  for (const IdentityPath& path : results) {
    const bool predicted = path.refusal.empty();
    const Curve share = path.share.measured.curve();
    const Curve skip = path.log_skip.measured.curve();
    const auto number = [&](const Curve& curve) {
      return predicted ? judge::shown(curve.value.front(), "{:.3g}") : std::string("-");
    };
    table.add({config::placement_label(path.spec),
               fmt::format("{} {} {:.0e}", judge::shown(path.error, "{:.1e}"),
                           path.error <= path.error_bound  ? "≤"
                           : path.error > path.error_bound ? ">"
                                                           : "?",
                           path.error_bound),
               judge::plus_minus(judge::entry(share, 0)), number(path.share.predicted),
               path.shares.empty() ? path.refusal : judge::verdict_words(*judge::deciding(path.shares)),
               judge::plus_minus(judge::entry(skip, 0)), number(path.log_skip.predicted),
               fmt::format("{}: {}", path.claim.id, judge::name_of(path.claim.verdict))});
  }
  return table.text() +
         "g = s + r at every depth: s came down the skip connections alone, r took a branch at least once; error: "
         "‖g − s − r‖/‖g‖.\nshare: ‖s‖²/(‖s‖² + ‖r‖²), ± standard error; the verdict is that of the worst depth. G11: "
         "s is the top's gradient unchanged, or with norms behind it is not.\n";
}

const Table<IdentityPath>& identity_path_table() {
  static const Table<IdentityPath> all = [] {
    using P = IdentityPath;
    Table<P> table;
    add_stack(table, "case");
    add_curve(table, {"skip_share", "case depth", "1", "share of the skip path in the gradient"}, &P::share);
    add_curve(table,
              {"log_skip", "case depth", "nat",
               "log norm of the gradient that came down the skip connections alone, over that at the top"},
              &P::log_skip);
    add_rows(table, {"skip_cosine", "case depth", "1", "cosine of the skip path's gradient and the whole: mean"},
             &P::cosine);
    add_rows(table,
             {"branch_term", "case sublayer", "1", "norm of a branch's term over that of the top's gradient: mean"},
             &P::branch);
    add_rows(table, {"branch_cosine", "case sublayer", "1", "cosine of a branch's term and the top's gradient: mean"},
             &P::branch_cosine);
    table.column({"identity_error", "case", "1", "largest norm of g - s - r over that of g"}, &P::error)
        .column({"identity_bound", "case", "1", "what rounding may make of it"}, &P::error_bound);
    add_verdict(table, {"verdict", "case", "", "agreement of the share with theory at its worst depth (T19)"},
                &P::shares);
    table.column({"claim_verdict", "case", "", "verdict on G11"},
                 [](const P& p) { return judge::name_of(p.claim.verdict); });
    return table;
  }();
  return all;
}

bool rejects(const IdentityPath& path) {
  const bool broken = path.has_gradient && !(path.error <= path.error_bound);
  return broken || std::ranges::any_of(path.shares, judge::disagrees);
}

}  // namespace

void require_one_stream(const config::Config& config) {
  for (const auto& all : {config.stacks(), config.predicted_stacks()}) {
    for (const StackSpec& spec : all) {
      if (!spec.model.ends().has(Signal::r_out)) continue;
      throw ConfigError(fmt::format("model.placement = \"{}\": expected one stream; its gradient is not decomposed",
                                    spec.model.placement.name));
    }
  }
}

Cases<IdentityPath> identity_path(const GradientConfig& config, stacks::Progress& progress) {
  require_one_stream(config);
  Cases<IdentityPath> result;
  const int tasks = config.run.seeds + 2;  // predictions of all paths and of the skip path
  over_stacks("identity-path", config, config.stacks(), config.predicted_stacks(), tasks, progress, result,
              measure_decomposition);
  if (result.stopped_early) return result;
  std::vector<judge::Test*> tests;
  for (IdentityPath& path : result.cases) {
    for (judge::Test& test : path.shares) tests.push_back(&test);
  }
  judge_together(config, tests);
  for (IdentityPath& path : result.cases) judge_claim(path);
  return result;
}

const dataset::Schema& identity_path_schema() {
  using dataset::Type;
  static const dataset::Schema schema = [] {
    std::vector<dataset::ColumnSpec> columns = identity_path_table().specs();
    std::ranges::copy(dataset::sublayer_labels(), std::back_inserter(columns));
    return dataset::Schema("identity_path", 3,
                           {{"case"},
                            {"depth", Type::integer, "1", "sublayers passed; 0 is the stack's input"},
                            {"sublayer", Type::integer, "1", "sublayer, from 0"}},
                           std::move(columns));
  }();
  return schema;
}

study::Outcome identity_path_outcome(const GradientConfig& config, const Cases<IdentityPath>& result) {
  dataset::Builder builder(identity_path_schema());
  const auto sublayers = static_cast<std::size_t>(config.base.model.sublayers());
  builder.count("depth", sublayers + 1);
  dataset::put_sublayers(builder, config.base.model);
  return outcome_of(builder, identity_path_table(), "case", result.cases, table_of(result.cases), rejects);
}

}  // namespace periscope::gradients
