#include <fmt/format.h>

#include <cmath>

#include "experiments/common/provenance.h"
#include "experiments/gradients/depth.h"

namespace periscope {
namespace {

std::string table_of(const DepthResult& result) {
  const auto& layers = result.layers;
  std::string table = fmt::format("{:<13} {:<18} {:<9} {:<20} {:<18} {:<9} {:<20} {:<9} {}\n", "placement",
                                  fmt::format("exponent, {}–{}", layers.front(), layers.back()), "predicted", "theory",
                                  fmt::format("exponent, {}–{}", layers[layers.size() - 3], layers.back()), "predicted",
                                  "theory", "deepest", "claim");
  for (const DepthLaw& law : result.laws) {
    if (!law.refusal.empty()) {
      table += fmt::format("{:<13} {}\n", law.spec.model.placement.name, law.refusal);
      continue;
    }
    const std::string claim =
        law.claim ? fmt::format("{}: {:g}: {}", law.claim->id, law.claim->claimed, name_of(law.claim->verdict)) : "-";
    table += fmt::format("{:<13} {:<18} {:<9.3f} {:<20} {:<18} {:<9.3f} {:<20} {:<9.3f} {}\n",
                         law.spec.model.placement.name, plus_minus(law.exponent.measured), law.exponent.predicted.value,
                         verdict_words(law.exponent), plus_minus(law.late_exponent.measured),
                         law.late_exponent.predicted.value, verdict_words(law.late_exponent), law.limit, claim);
  }
  return table + fmt::format(
                     "‖∂loss/∂W_down‖ of the last layer ∝ L^exponent, ± standard error over seeds. deepest: theory's "
                     "exponent between {:g} and {:g} layers.\nholds-with-condition: not at these depths, but less "
                     "theory's finite-depth part, in the limit of many layers.\n",
                     result.theory_layers[result.theory_layers.size() - 2], result.theory_layers.back());
}

}  // namespace

GradientOutcome depth_outcome(const Config& config, const DepthResult& result) {
  GradientOutcome outcome{.data = {}, .table = table_of(result)};
  NetcdfDataset& data = outcome.data;
  data.attributes = provenance(config);
  data.dimensions = {
      {"law", result.laws.size()}, {"layers", result.layers.size()}, {"theory_layers", result.theory_layers.size()}};
  data.variables = {{"layers", {"layers"}, result.layers, "1", "L, measured"},
                    {"theory_layers", {"theory_layers"}, result.theory_layers, "1", "L, predicted"}};
  Columns columns(data, {"law"});
  for (const DepthLaw& law : result.laws) {
    const Curve measured = law.gradient.curve();
    columns.add("placement", placement_label(law.spec), "normalization placement (T1)");
    columns.add("refusal", law.refusal, "why there is no prediction");
    columns.add("log_gradient_measured", measured.value, "log norm of the last W_down's gradient: mean over seeds",
                {"layers"});
    columns.add("log_gradient_stderr", measured.standard_error, "its standard error over seeds", {"layers"});
    columns.add("log_gradient_predicted", law.predicted.value, "log norm of the last W_down's gradient: prediction",
                {"theory_layers"});
    columns.add("log_gradient_predicted_stderr", law.predicted.standard_error, "standard error of the prediction",
                {"theory_layers"});
    columns.add("exponent", law.exponent, "exponent of L, all measured depths");
    columns.add("late_exponent", law.late_exponent, "exponent of L, last three measured depths");
    columns.add("limit_exponent", std::vector{law.limit}, "theory's exponent at its greatest depths");
    columns.add("claimed_exponent", std::vector{law.claim ? law.claim->claimed : NAN}, "exponent of claim G8");
    columns.add("claim_verdict", law.claim ? std::string(name_of(law.claim->verdict)) : "", "what the data say of G8");
    for (const Finding* f : {&law.exponent, &law.late_exponent}) {
      outcome.rejected = outcome.rejected || f->verdict == Verdict::disagrees;
    }
  }
  return outcome;
}

}  // namespace periscope
