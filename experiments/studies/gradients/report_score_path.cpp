#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "experiments/engine/result/text_table.h"
#include "experiments/studies/gradients/report_columns.h"
#include "experiments/studies/gradients/score_path.h"

namespace periscope::gradients {
namespace {

std::string table_of(const std::vector<ScorePath>& results) {
  dataset::TextTable table({"placement", "largest share: measured", "predicted, verdict",
                            "gradient without it, at the input", "theory, with and without"});
  for (const ScorePath& path : results) {
    if (!path.refusal.empty()) {
      table.add_note(config::placement_label(path.spec), path.refusal);
      continue;
    }
    const auto& shares = path.share_measured.value;
    // A share that is no number is the one to show.
    const auto size = [](double share) { return std::isnan(share) ? HUGE_VAL : share; };
    const auto top = static_cast<std::size_t>(std::ranges::max_element(shares, {}, size) - shares.begin());
    const double missing = std::expm1(path.log_without.value.front() - path.log_with.value.front());
    table.add(
        {config::placement_label(path.spec),
         fmt::format("{} (layer {})", judge::plus_minus({shares[top], path.share_measured.standard_error[top]}), top),
         fmt::format("{}, {}", judge::shown(path.share_predicted.value[top], "{:.3f}"),
                     judge::name_of(judge::deciding(path.shares)->verdict)),
         fmt::format("predicted {} % of ‖∂loss/∂x₀‖²", judge::shown(100.0 * missing, "{:+.0f}")),
         fmt::format("{}, {}", judge::verdict_words(*judge::deciding(path.with)),
                     judge::verdict_words(*judge::deciding(path.without)))});
  }
  return table.text() +
         "share: S/(S+V), S the squared gradient that reaches attention's input through queries and keys, V through "
         "values.\nWithout the score path a theory of gradients is expected to disagree; only the whole theory's "
         "verdicts count.\n";
}

const Table<ScorePath>& score_path_table() {
  static const Table<ScorePath> all = [] {
    using P = ScorePath;
    Table<P> table;
    add_placement(table, "case");
    add_refusal(table, "case");
    add_curve(
        table, {"score_share", "case layer", "1", "share of the score path S/(S+V)"},
        [](const P& p) -> const Curve& { return p.share_measured; },
        [](const P& p) -> const Curve& { return p.share_predicted; });
    add_curve(
        table, {"log_grad_sq", "case depth", "nat", "log of the stream's squared gradient"},
        [](const P& p) -> const Curve& { return p.log_measured; },
        [](const P& p) -> const Curve& { return p.log_with; });
    add_series(table,
               {"log_grad_sq_without_scores_predicted", "case depth", "nat", "prediction without the score path"},
               {"log_grad_sq_without_scores_predicted_stderr", "case depth", "nat",
                "standard error of the prediction without the score path"},
               [](const P& p) -> const Curve& { return p.log_without; });
    add_verdict(table, {"share_verdict", "case", "", "agreement of the share with theory (T19)"},
                [](const P& p) { return judge::deciding(p.shares); });
    add_verdict(table, {"verdict", "case", "", "agreement of the stream's gradient with theory (T19)"},
                [](const P& p) { return judge::deciding(p.with); });
    add_verdict(table, {"without_scores_verdict", "case", "", "the same for a theory without the score path"},
                [](const P& p) { return judge::deciding(p.without); });
    return table;
  }();
  return all;
}

bool share_rejects(const ScorePath& path) {
  return std::ranges::any_of(path.shares, judge::disagrees) || std::ranges::any_of(path.with, judge::disagrees);
}

}  // namespace

const dataset::Schema& score_path_schema() {
  using dataset::Type;
  static const dataset::Schema schema("score_path", 3,
                                      {{"case"},
                                       {"depth", Type::integer, "1", "sublayers passed; 0 is the stack's input"},
                                       {"layer", Type::integer, "1", "layer, from 0"}},
                                      score_path_table().specs());
  return schema;
}

study::Outcome score_path_outcome(const config::Config& config, const std::vector<ScorePath>& results) {
  dataset::Builder builder(score_path_schema());
  const ModelSpec& model = config.base.model;
  builder.count("depth", static_cast<std::size_t>(model.sublayers()) + 1);
  builder.count("layer", static_cast<std::size_t>(model.layers));
  put_rows(builder, score_path_table(), "case", results);
  const bool rejected = std::ranges::any_of(results, share_rejects);
  return {.data = builder.finish(), .table = table_of(results), .code = study::code_of(!rejected)};
}

}  // namespace periscope::gradients
