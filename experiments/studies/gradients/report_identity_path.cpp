#include <fmt/format.h>

#include <algorithm>

#include "experiments/engine/result/curves.h"
#include "experiments/engine/result/text_table.h"
#include "experiments/studies/gradients/identity_path.h"
#include "experiments/studies/gradients/report_columns.h"

namespace periscope::gradients {
namespace {

std::string table_of(const std::vector<IdentityPath>& results) {
  dataset::TextTable table({"placement", "identity: error", "share at depth 0", "predicted", "theory", "log ‖s₀‖/‖g_L‖",
                            "predicted", "claim"});
  for (const IdentityPath& path : results) {
    const bool predicted = path.refusal.empty();
    const Curve share = path.share.curve();
    const Curve skip = path.log_skip.curve();
    const auto number = [&](const Curve& curve) {
      return predicted ? judge::shown(curve.value.front(), "{:.3g}") : std::string("-");
    };
    table.add({config::placement_label(path.spec),
               fmt::format("{} {} {:.0e}", judge::shown(path.error, "{:.1e}"),
                           path.error <= path.error_bound  ? "≤"
                           : path.error > path.error_bound ? ">"
                                                           : "?",
                           path.error_bound),
               judge::plus_minus({share.value.front(), share.standard_error.front()}), number(path.share_predicted),
               path.shares.empty() ? path.refusal : judge::verdict_words(*judge::deciding(path.shares)),
               judge::plus_minus({skip.value.front(), skip.standard_error.front()}), number(path.log_skip_predicted),
               fmt::format("{}: {}", path.claim.id, judge::name_of(path.claim.verdict))});
  }
  return table.text() +
         "g = s + r at every depth: s came down the skip connections alone, r took a branch at least once; error: "
         "‖g − s − r‖/‖g‖.\nshare: ‖s‖²/(‖s‖² + ‖r‖²), ± standard error; the verdict is that of the worst depth. G11: "
         "s "
         "is the top's gradient unchanged, or with norms behind it is not.\n";
}

const Table<IdentityPath>& identity_path_table() {
  static const Table<IdentityPath> all = [] {
    using P = IdentityPath;
    Table<P> table;
    const auto series = [&](const std::string& name, const std::string& along, const std::string& meaning,
                            judge::SeedRows P::*rows) {
      add_series(table, {name, "case " + along, "1", meaning},
                 {name + "_stderr", "case " + along, "1", "its standard error over seeds"},
                 [rows](const P& p) { return (p.*rows).curve(); });
    };
    add_placement(table, "case");
    add_refusal(table, "case");
    add_curve(
        table, {"skip_share", "case depth", "1", "share of the skip path in the gradient"},
        [](const P& p) { return p.share.curve(); }, [](const P& p) -> const Curve& { return p.share_predicted; });
    add_curve(
        table,
        {"log_skip", "case depth", "nat",
         "log norm of the gradient that came down the skip connections alone, over that at the top"},
        [](const P& p) { return p.log_skip.curve(); }, [](const P& p) -> const Curve& { return p.log_skip_predicted; });
    series("skip_cosine", "depth", "cosine of the skip path's gradient and the whole: mean", &P::cosine);
    series("branch_term", "sublayer", "norm of a branch's term over that of the top's gradient: mean", &P::branch);
    series("branch_cosine", "sublayer", "cosine of a branch's term and the top's gradient: mean", &P::branch_cosine);
    table.column({"identity_error", "case", "1", "largest norm of g - s - r over that of g"}, &P::error);
    table.column({"identity_bound", "case", "1", "what rounding may make of it"}, &P::error_bound);
    add_verdict(table, {"verdict", "case", "", "agreement of the share with theory at its worst depth (T19)"},
                [](const P& p) { return judge::deciding(p.shares); });
    table.column({"claim_verdict", "case", "", "what the data say of G11"},
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

study::Outcome identity_path_outcome(const config::Config& config, const std::vector<IdentityPath>& results) {
  dataset::Builder builder(identity_path_schema());
  const auto sublayers = static_cast<std::size_t>(config.base.model.sublayers());
  builder.count("depth", sublayers + 1);
  dataset::put_sublayers(builder, config.base.model);
  put_rows(builder, identity_path_table(), "case", results);
  const bool rejected = std::ranges::any_of(results, rejects);
  return {.data = builder.finish(), .table = table_of(results), .code = study::code_of(!rejected)};
}

}  // namespace periscope::gradients
