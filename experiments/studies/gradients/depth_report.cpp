#include <fmt/format.h>

#include <cmath>

#include "experiments/core/config/provenance.h"
#include "experiments/core/dataset/text_table.h"
#include "experiments/studies/gradients/depth.h"

namespace periscope::gradients {
namespace {

std::string table_of(const DepthResult& result) {
  const auto& layers = result.layers;
  TextTable table({"placement", fmt::format("exponent, {}–{}", layers.front(), layers.back()), "predicted", "theory",
                   fmt::format("exponent, {}–{}", layers[layers.size() - 3], layers.back()), "predicted", "theory",
                   "deepest", "claim"});
  for (const DepthLaw& law : result.laws) {
    if (!law.refusal.empty()) {
      table.add_note(std::string(law.spec.model.placement.name), law.refusal);
      continue;
    }
    const std::string claim =
        law.claim ? fmt::format("{}: {:g}: {}", law.claim->id, law.claim->claimed, name_of(law.claim->verdict)) : "-";
    table.add({std::string(law.spec.model.placement.name), plus_minus(law.exponent.measured),
               shown(law.exponent.predicted.value, "{:.3f}"), verdict_words(law.exponent),
               plus_minus(law.late_exponent.measured), shown(law.late_exponent.predicted.value, "{:.3f}"),
               verdict_words(law.late_exponent), shown(law.limit, "{:.3f}"), claim});
  }
  return table.text() +
         fmt::format(
             "‖∂loss/∂W_down‖ of the last layer ∝ L^exponent, ± standard error over seeds. deepest: theory's "
             "exponent between {:g} and {:g} layers.\nholds-with-condition: not at these depths, but less "
             "theory's finite-depth part, in the limit of many layers.\n",
             result.theory_layers[result.theory_layers.size() - 2], result.theory_layers.back());
}

}  // namespace

const Schema& depth_schema() {
  using enum Declared;
  static const Schema schema = outcome_schema(
      "gradient_depth", "law", {{"layers", "1", "L, measured"}, {"theory_layers", "1", "L, predicted"}},
      {{words, "placement", "", "normalization placement (T1)"},
       {words, "refusal", "", "why there is no prediction"},
       {series, "log_gradient_measured", "nat", "log norm of the last W_down's gradient: mean over seeds", "layers"},
       {series, "log_gradient_stderr", "nat", "its standard error over seeds", "layers"},
       {series, "log_gradient_predicted", "nat", "log norm of the last W_down's gradient: prediction", "theory_layers"},
       {series, "log_gradient_predicted_stderr", "nat", "standard error of the prediction", "theory_layers"},
       {finding, "exponent", "1", "exponent of L, all measured depths"},
       {finding, "late_exponent", "1", "exponent of L, last three measured depths"},
       {number, "limit_exponent", "1", "theory's exponent at its greatest depths"},
       {number, "claimed_exponent", "1", "exponent of claim G8"},
       {words, "claim_verdict", "", "what the data say of G8"}});
  return schema;
}

GradientOutcome depth_outcome(const Config& config, const DepthResult& result) {
  GradientOutcome outcome{.data = Columns(depth_schema(), provenance(config)), .table = table_of(result)};
  Columns& data = *outcome.data;
  data.put("layers", result.layers);
  data.put("theory_layers", result.theory_layers);
  for (std::size_t i = 0; i < result.laws.size(); ++i) {
    const DepthLaw& law = result.laws[i];
    const Columns::Row row = data.at("law", i);
    const Curve measured = law.gradient.curve();
    row.put("placement", placement_label(law.spec));
    row.put("refusal", law.refusal);
    row.put("log_gradient_measured", measured.value);
    row.put("log_gradient_stderr", measured.standard_error);
    row.put("log_gradient_predicted", padded(law.predicted.value, result.theory_layers.size()));
    row.put("log_gradient_predicted_stderr", padded(law.predicted.standard_error, result.theory_layers.size()));
    put_finding(row, "exponent", law.exponent);
    put_finding(row, "late_exponent", law.late_exponent);
    row.put("limit_exponent", law.limit);
    row.put("claimed_exponent", law.claim ? law.claim->claimed : NAN);
    row.put("claim_verdict", law.claim ? name_of(law.claim->verdict) : "");
    for (const Finding* f : {&law.exponent, &law.late_exponent}) {
      outcome.rejected = outcome.rejected || f->verdict == Verdict::disagrees;
    }
  }
  return outcome;
}

}  // namespace periscope::gradients
