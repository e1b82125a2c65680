#include <fmt/format.h>

#include <numeric>

#include "experiments/core/config/provenance.h"
#include "experiments/core/dataset/text_table.h"
#include "experiments/studies/gradients/identity_path.h"

namespace periscope::gradients {
namespace {

std::string table_of(const std::vector<IdentityPath>& results) {
  TextTable table({"placement", "identity: error", "share at depth 0", "predicted", "theory", "log ‖s₀‖/‖g_L‖",
                   "predicted", "claim"});
  for (const IdentityPath& path : results) {
    const bool predicted = path.refusal.empty();
    const Curve share = path.share.curve();
    const Curve skip = path.log_skip.curve();
    const auto number = [&](const Curve& curve) {
      return predicted ? shown(curve.value.front(), "{:.3g}") : std::string("-");
    };
    table.add({std::string(path.spec.model.placement.name),
               fmt::format("{} {} {:.0e}", shown(path.error, "{:.1e}"),
                           path.error <= path.error_bound  ? "≤"
                           : path.error > path.error_bound ? ">"
                                                           : "?",
                           path.error_bound),
               plus_minus({share.value.front(), share.standard_error.front()}), number(path.share_predicted),
               path.worst >= 0 ? verdict_words(path.shares[static_cast<std::size_t>(path.worst)]) : path.refusal,
               plus_minus({skip.value.front(), skip.standard_error.front()}), number(path.log_skip_predicted),
               fmt::format("{}: {}", path.claim.id, name_of(path.claim.verdict))});
  }
  return table.text() +
         "g = s + r at every depth: s came down the skip connections alone, r took a branch at least once; error: "
         "‖g − s − r‖/‖g‖.\nshare: ‖s‖²/(‖s‖² + ‖r‖²), ± standard error; the verdict is that of the worst depth. G11: "
         "s "
         "is the top's gradient unchanged, or with norms behind it is not.\n";
}

}  // namespace

const Schema& identity_path_schema() {
  using enum Declared;
  static const Schema schema = outcome_schema(
      "identity_path", "case", {{"depth", "1", "sublayers passed"}, {"sublayer", "1", "sublayer"}},
      {{words, "placement", "", "normalization placement (T1)"},
       {words, "refusal", "", "why there is no prediction"},
       {curve, "skip_share", "1", "share of the skip path in the gradient", "depth"},
       {curve, "log_skip", "nat",
        "log norm of the gradient that came down the skip connections alone, over that at the top", "depth"},
       {series, "skip_cosine", "1", "cosine of the skip path's gradient and the whole: mean", "depth"},
       {series, "skip_cosine_stderr", "1", "its standard error over seeds", "depth"},
       {series, "branch_term", "1", "norm of a branch's term over that of the top's gradient: mean", "sublayer"},
       {series, "branch_term_stderr", "1", "its standard error over seeds", "sublayer"},
       {series, "branch_cosine", "1", "cosine of a branch's term and the top's gradient: mean", "sublayer"},
       {series, "branch_cosine_stderr", "1", "its standard error over seeds", "sublayer"},
       {number, "identity_error", "1", "largest norm of g - s - r over that of g"},
       {number, "identity_bound", "1", "what rounding may make of it"},
       {verdict, "verdict", "", "agreement of the share with theory at its worst depth (T19)"},
       {words, "claim_verdict", "", "what the data say of G11"}});
  return schema;
}

GradientOutcome identity_path_outcome(const Config& config, const std::vector<IdentityPath>& results) {
  GradientOutcome outcome{.data = Columns(identity_path_schema(), provenance(config)), .table = table_of(results)};
  Columns& data = *outcome.data;
  std::vector<double> depth(static_cast<std::size_t>(config.base.model.sublayers()) + 1);
  std::iota(depth.begin(), depth.end(), 0.0);
  data.put("depth", depth);
  data.put("sublayer", std::vector(depth.begin(), depth.end() - 1));
  for (std::size_t i = 0; i < results.size(); ++i) {
    const IdentityPath& path = results[i];
    const Columns::Row row = data.at("case", i);
    const auto series = [&](const std::string& name, const Curve& curve) {
      row.put(name, curve.value);
      row.put(name + "_stderr", curve.standard_error);
    };
    row.put("placement", placement_label(path.spec));
    row.put("refusal", path.refusal);
    put_curve(row, "skip_share", path.share.curve(), path.share_predicted);
    put_curve(row, "log_skip", path.log_skip.curve(), path.log_skip_predicted);
    series("skip_cosine", path.cosine.curve());
    series("branch_term", path.branch.curve());
    series("branch_cosine", path.branch_cosine.curve());
    row.put("identity_error", path.error);
    row.put("identity_bound", path.error_bound);
    put_verdict(row, "verdict", path.worst >= 0 ? &path.shares[static_cast<std::size_t>(path.worst)] : nullptr);
    row.put("claim_verdict", name_of(path.claim.verdict));
    outcome.rejected = outcome.rejected || (path.has_gradient && !(path.error <= path.error_bound));
    for (const Finding& f : path.shares) outcome.rejected = outcome.rejected || f.verdict == Verdict::disagrees;
  }
  return outcome;
}

}  // namespace periscope::gradients
