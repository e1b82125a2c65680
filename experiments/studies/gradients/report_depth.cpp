#include <fmt/format.h>

#include <algorithm>

#include "experiments/engine/result/text_table.h"
#include "experiments/studies/gradients/depth.h"
#include "experiments/studies/gradients/report_columns.h"

namespace periscope::gradients {
namespace {

std::string table_of(const DepthResult& result) {
  const auto& layers = result.layers;
  dataset::TextTable table({"placement", fmt::format("exponent, {}–{}", layers.front(), layers.back()), "predicted",
                            "theory", fmt::format("exponent, {}–{}", layers[layers.size() - 3], layers.back()),
                            "predicted", "theory", "deepest", "claim"});
  for (const DepthLaw& law : result.laws) {
    if (!law.refusal.empty()) {
      table.add_note(config::placement_label(law.spec), law.refusal);
      continue;
    }
    const std::string claim =
        law.claim ? fmt::format("{}: {:g}: {}", law.claim->id, law.claim->claimed, judge::name_of(law.claim->verdict))
                  : "-";
    table.add({config::placement_label(law.spec), judge::plus_minus(law.exponent.measured),
               judge::shown(law.exponent.predicted.value, "{:.3f}"), judge::verdict_words(law.exponent),
               judge::plus_minus(law.late_exponent.measured), judge::shown(law.late_exponent.predicted.value, "{:.3f}"),
               judge::verdict_words(law.late_exponent), judge::shown(law.limit, "{:.3f}"), claim});
  }
  return table.text() +
         fmt::format(
             "‖∂loss/∂W_down‖ of the last layer ∝ L^exponent, ± standard error over seeds. deepest: theory's "
             "exponent between {:g} and {:g} layers.\nholds-with-condition: not at these depths, but less "
             "theory's finite-depth part, in the limit of many layers.\n",
             result.theory_layers[result.theory_layers.size() - 2], result.theory_layers.back());
}

const Table<DepthLaw>& law_table() {
  static const Table<DepthLaw> all = [] {
    Table<DepthLaw> table;
    add_placement(table, "law");
    add_refusal(table, "law");
    add_series(
        table,
        {"log_gradient_measured", "law layers", "nat", "log norm of the last W_down's gradient: mean over seeds"},
        {"log_gradient_stderr", "law layers", "nat", "its standard error over seeds"},
        [](const DepthLaw& l) { return l.gradient.curve(); });
    add_series(
        table,
        {"log_gradient_predicted", "law theory_layers", "nat", "log norm of the last W_down's gradient: prediction"},
        {"log_gradient_predicted_stderr", "law theory_layers", "nat", "standard error of the prediction"},
        [](const DepthLaw& l) -> const Curve& { return l.predicted; });
    add_test(table, {"exponent", "law", "1", "exponent of L, all measured depths"},
             [](const DepthLaw& l) -> const judge::Test& { return l.exponent; });
    add_test(table, {"late_exponent", "law", "1", "exponent of L, last three measured depths"},
             [](const DepthLaw& l) -> const judge::Test& { return l.late_exponent; });
    table.column({"limit_exponent", "law", "1", "theory's exponent at its greatest depths"}, &DepthLaw::limit);
    table.column({"claimed_exponent", "law", "1", "exponent of claim G8"},
                 [](const DepthLaw& l) { return l.claim ? std::optional(l.claim->claimed) : std::nullopt; });
    table.column({"claim_verdict", "law", "", "what the data say of G8"}, [](const DepthLaw& l) {
      return l.claim ? std::optional(judge::name_of(l.claim->verdict)) : std::nullopt;
    });
    return table;
  }();
  return all;
}

std::vector<int> whole(const std::vector<double>& layers) {
  std::vector<int> all;
  for (const double l : layers) all.push_back(static_cast<int>(l));
  return all;
}

}  // namespace

const dataset::Schema& depth_schema() {
  using dataset::Type;
  static const dataset::Schema schema(
      "gradient_depth", 3,
      {{"law"}, {"layers", Type::integer, "1", "L, measured"}, {"theory_layers", Type::integer, "1", "L, predicted"}},
      law_table().specs());
  return schema;
}

study::Outcome depth_outcome(const DepthResult& result) {
  dataset::Builder builder(depth_schema());
  builder.put("layers", whole(result.layers));
  builder.put("theory_layers", whole(result.theory_layers));
  put_rows(builder, law_table(), "law", result.laws);
  const bool rejected = std::ranges::any_of(
      result.laws, [](const DepthLaw& l) { return judge::disagrees(l.exponent) || judge::disagrees(l.late_exponent); });
  return {.data = builder.finish(), .table = table_of(result), .code = study::code_of(!rejected)};
}

}  // namespace periscope::gradients
