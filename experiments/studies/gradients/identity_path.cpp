#include "experiments/studies/gradients/identity_path.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "experiments/engine/run/over_seeds.h"
#include "experiments/engine/run/stacks.h"
#include "experiments/engine/run/token_ids.h"
#include "experiments/studies/gradients/decompose.h"
#include "sim/backends.h"
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
  path.share.add(share);
  path.log_skip.add(log_skip);
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
  const Curve measured = path.share.curve();
  for (std::size_t i = 0; i < total_log.value.size(); ++i) {
    const double p = std::exp(2.0 * (skip_log.value[i] - total_log.value[i]));
    const double p_error = 2.0 * p * std::hypot(skip_log.standard_error[i], total_log.standard_error[i]);
    path.share_predicted.value.push_back(p);
    path.share_predicted.standard_error.push_back(p_error);
    path.log_skip_predicted.value.push_back(skip_log.value[i] - skip_log.value.back());
    path.log_skip_predicted.standard_error.push_back(skip_log.standard_error[i]);
    if (i + 1 == total_log.value.size()) continue;  // at the top the share is 1
    // As `judge` does with the score path's share: allowances are those of log(S/R), times p(1−p).
    const double derivative = p * (1.0 - p);
    const double variance = config.run.seeds * measured.standard_error[i] * measured.standard_error[i];
    const double bias = 2.0 * log_norm_bias(config, path.spec, all, i, 0.0);
    path.shares.push_back(
        {.measured = {measured.value[i], measured.standard_error[i]},
         .predicted = {p, p_error},
         .tolerated_bias = derivative * bias + (derivative > 0.0 ? variance / (2.0 * derivative) : 0.0),
         .limit = config.agreement.power_limits.score_share,
         .seeds = path.share.seeds(),
         .replicates = all.replicates,
         .precise = total_precise[i] && skip_precise[i]});
  }
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

IdentityPathResult identity_path(const config::Config& config, stacks::Progress& progress) {
  require_one_stream(config);
  const std::unique_ptr<Backend> backend = make_backend(config.run.device);
  const std::vector<StackSpec> stacks = config.stacks();
  const std::vector<StackSpec> overridden = config.predicted_stacks();
  constexpr int predictions = 2;  // of all paths and of the skip path
  progress.begin("gradients identity-path", tasks_of(config, stacks.size(), predictions));
  IdentityPathResult result;
  result.stopped_early = stacks::until_stopped([&] {
    for (std::size_t j = 0; j < stacks.size(); ++j) {
      const StackSpec& spec = stacks[j];
      IdentityPath path;
      path.spec = spec;
      stacks::over_cached_seeds(
          "paths", spec, config.run, config.run.seeds, config::short_label(spec), progress,
          [&](std::uint64_t seed) { return decompose_seed(config, *backend, spec, seed); },
          [&](const GradientPathSizes& sizes) { add(path, sizes); });
      predict(config, overridden[j], progress, path);
      path.error_bound = rounding_bound(spec, config.run.dtype);
      result.stacks.push_back(std::move(path));
    }
  });
  if (result.stopped_early) return result;
  std::vector<judge::Test*> tests;
  for (IdentityPath& path : result.stacks) {
    for (judge::Test& test : path.shares) tests.push_back(&test);
  }
  judge::judge(tests, {config.agreement.familywise_error, config.base.model.width});
  for (IdentityPath& path : result.stacks) {
    // G11: with norms in front the skip path is the identity; with a norm behind it is not.
    const SublayerRule rule = path.spec.model.rule(path.spec.model.sublayers() - 1);
    const bool identity = path.skip_change == 0.0;
    const bool expected = !rule.norm_c && rule.alpha == 1.0;
    path.claim = {.id = "G11", .claimed = expected ? 1.0 : 0.0};
    const bool differs = path.spec.model.rule(0).norm_c != rule.norm_c;
    if (differs || !path.has_gradient) continue;  // Mix-LN: the claim speaks of neither
    path.claim.verdict = path.error <= path.error_bound && identity == expected ? judge::ClaimVerdict::holds
                                                                                : judge::ClaimVerdict::fails;
  }
  return result;
}

}  // namespace periscope::gradients
