#include <fmt/format.h>

#include <cmath>

#include "experiments/common/provenance.h"
#include "experiments/gradients/identity_path.h"

namespace periscope {
namespace {

std::string table_of(const std::vector<IdentityPath>& results) {
  std::string table = fmt::format("{:<13} {:<19} {:<18} {:<9} {:<20} {:<18} {:<9} {}\n", "placement", "identity: error",
                                  "share at depth 0", "predicted", "theory", "log ‖s₀‖/‖g_L‖", "predicted", "claim");
  for (const IdentityPath& path : results) {
    const bool predicted = path.refusal.empty();
    const Curve share = path.share.curve();
    const Curve skip = path.log_skip.curve();
    const auto number = [&](const Curve& curve) {
      return predicted ? fmt::format("{:.3g}", curve.value.front()) : std::string("-");
    };
    table += fmt::format(
        "{:<13} {:<19} {:<18} {:<9} {:<20} {:<18} {:<9} {}: {}\n", path.spec.model.placement.name,
        fmt::format("{:.1e} {} {:.0e}", path.error, path.error <= path.error_bound ? "≤" : ">", path.error_bound),
        plus_minus({share.value.front(), share.standard_error.front()}), number(path.share_predicted),
        path.worst >= 0 ? verdict_words(path.shares[static_cast<std::size_t>(path.worst)]) : path.refusal,
        plus_minus({skip.value.front(), skip.standard_error.front()}), number(path.log_skip_predicted), path.claim.id,
        name_of(path.claim.verdict));
  }
  return table +
         "g = s + r at every depth: s came down the skip connections alone, r took a branch at least once; error: "
         "‖g − s − r‖/‖g‖.\nshare: ‖s‖²/(‖s‖² + ‖r‖²), ± standard error; the verdict is that of the worst depth. G11: "
         "s "
         "is the top's gradient unchanged, or with norms behind it is not.\n";
}

}  // namespace

GradientOutcome identity_path_outcome(const Config& config, const std::vector<IdentityPath>& results) {
  GradientOutcome outcome{.data = {}, .table = table_of(results)};
  NetcdfDataset& data = outcome.data;
  data.attributes = provenance(config);
  const auto sublayers = static_cast<std::size_t>(config.base.model.sublayers());
  std::vector<double> depth(sublayers + 1);
  for (std::size_t i = 0; i <= sublayers; ++i) depth[i] = static_cast<double>(i);
  data.dimensions = {{"case", results.size()}, {"depth", sublayers + 1}, {"sublayer", sublayers}};
  data.variables = {{"depth", {"depth"}, depth, "1", "sublayers passed"},
                    {"sublayer", {"sublayer"}, std::vector(depth.begin(), depth.end() - 1), "1", "sublayer"}};
  Columns columns(data, {"case"});
  for (const IdentityPath& path : results) {
    columns.add("placement", placement_label(path.spec), "normalization placement (T1)");
    columns.add("refusal", path.refusal, "why there is no prediction");
    columns.add("skip_share", path.share.curve(), path.share_predicted, "share of the skip path in the gradient",
                "depth");
    columns.add("log_skip", path.log_skip.curve(), path.log_skip_predicted,
                "log norm of the gradient that came down the skip connections alone, over that at the top", "depth");
    const Curve cosine = path.cosine.curve();
    columns.add("skip_cosine", cosine.value, "cosine of the skip path's gradient and the whole: mean", {"depth"});
    columns.add("skip_cosine_stderr", cosine.standard_error, "its standard error over seeds", {"depth"});
    const Curve branch = path.branch.curve();
    columns.add("branch_term", branch.value, "norm of a branch's term over that of the top's gradient: mean",
                {"sublayer"});
    columns.add("branch_term_stderr", branch.standard_error, "its standard error over seeds", {"sublayer"});
    const Curve along = path.branch_cosine.curve();
    columns.add("branch_cosine", along.value, "cosine of a branch's term and the top's gradient: mean", {"sublayer"});
    columns.add("branch_cosine_stderr", along.standard_error, "its standard error over seeds", {"sublayer"});
    columns.add("identity_error", std::vector{path.error}, "largest norm of g - s - r over that of g");
    columns.add("identity_bound", std::vector{path.error_bound}, "what rounding may make of it");
    const Finding* worst = path.worst >= 0 ? &path.shares[static_cast<std::size_t>(path.worst)] : nullptr;
    columns.add_verdict("verdict", worst, "agreement of the share with theory at its worst depth (T19)");
    columns.add("claim_verdict", std::string(name_of(path.claim.verdict)), "what the data say of G11");
    outcome.rejected = outcome.rejected || !(path.error <= path.error_bound);
    for (const Finding& f : path.shares) outcome.rejected = outcome.rejected || f.verdict == Verdict::disagrees;
  }
  return outcome;
}

}  // namespace periscope
