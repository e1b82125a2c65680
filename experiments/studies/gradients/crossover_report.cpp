#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "experiments/core/config/provenance.h"
#include "experiments/core/dataset/text_table.h"
#include "experiments/studies/gradients/crossover.h"
#include "sim/numerics/larger.h"

namespace periscope::gradients {
namespace {

/// An estimate of a logarithm as one of the number.
Estimate exponential(const Estimate& log) { return {std::exp(log.value), std::exp(log.value) * log.error}; }

/// "12.3 %", or that it is no number, as of a stack that diverged.
std::string percent(double share) {
  if (!std::isfinite(share)) return number_words(share);
  return share < 100.0 ? fmt::format("{:.1f} %", 100.0 * share) : fmt::format("{:.3g} %", 100.0 * share);
}

/// Largest |log| by which T14's ratio from measured sizes misses the measured ratio.
double law_error(const Crossover& c) {
  const Curve ratio = c.log_ratio.curve();
  const Curve law = c.log_law.curve();
  double worst = 0.0;
  for (std::size_t i = 0; i < ratio.value.size(); ++i) worst = larger(worst, std::abs(ratio.value[i] - law.value[i]));
  return worst;
}

std::string table_of(const CrossoverResult& result) {
  TextTable table({"placement", "ratio, smallest a", "ratio, largest a", "theory", "ratio 1 at rms a", "predicted",
                   "theory", "T14 off by at most"});
  for (const Crossover& c : result.placements) {
    const Curve ratio = c.log_ratio.curve();
    const auto at = [&](std::size_t i) { return plus_minus(exponential({ratio.value[i], ratio.standard_error[i]})); };
    const Finding* worst = telling(c.ratios);
    table.add({std::string(c.spec.model.placement.name), at(0), at(ratio.value.size() - 1),
               worst != nullptr ? verdict_words(*worst) : c.refusal,
               c.crosses ? plus_minus(exponential(c.crossing.measured)) : "none",
               c.crosses ? shown(std::exp(c.crossing.predicted.value), "{:.4g}") : "none",
               c.crosses ? verdict_words(c.crossing) : "-", percent(std::expm1(law_error(c)))});
  }
  return table.text() +
         "ratio: ‖∂loss/∂W_down‖ of the last layer over that of Pre-LN, same weights; a: the last MLP's output. T14: "
         "the "
         "ratio from measured sizes alone.\n" +
         fmt::format("{}: Post > Pre > Peri: {}{}\n", result.order.id, name_of(result.order.verdict),
                     result.condition.empty() ? "" : " (" + result.condition + ")");
}

}  // namespace

const Schema& crossover_schema() {
  using enum Declared;
  static const Schema schema = outcome_schema(
      "gradient_crossover", "case", {{"down_factor", "1", "init.down_factor"}},
      {{words, "placement", "", "normalization placement (T1)"},
       {words, "refusal", "", "why there is no prediction"},
       {curve, "log_ratio", "nat", "log of the last W_down's gradient norm over that of Pre-LN", "down_factor"},
       {curve, "log_rms_a", "nat", "log rms of the last MLP's output", "down_factor"},
       {series, "log_law_measured", "nat", "T14's log ratio from measured sizes", "down_factor"},
       {series, "log_law_stderr", "nat", "its standard error over seeds", "down_factor"},
       {finding, "log_crossing", "nat", "log rms a at which the ratio is 1"},
       {verdict, "verdict", "", "agreement of the ratio with theory at its worst factor (T19)"}},
      {{"order_claim", "", "", "what the data say of Post > Pre > Peri (G6)", "provenance/order_claim"},
       {"order_condition", "", "", "when that holds", "provenance/order_condition"}});
  return schema;
}

GradientOutcome crossover_outcome(const Config& config, const CrossoverResult& result) {
  GradientOutcome outcome{.data = Columns(crossover_schema(), provenance(config)), .table = table_of(result)};
  Columns& data = *outcome.data;
  data.put("down_factor", result.factors);
  for (std::size_t i = 0; i < result.placements.size(); ++i) {
    const Crossover& c = result.placements[i];
    const Columns::Row row = data.at("case", i);
    row.put("placement", placement_label(c.spec));
    row.put("refusal", c.refusal);
    put_curve(row, "log_ratio", c.log_ratio.curve(), c.ratio_predicted);
    put_curve(row, "log_rms_a", c.log_rms_a.curve(), c.rms_a_predicted);
    const Curve law = c.log_law.curve();
    row.put("log_law_measured", law.value);
    row.put("log_law_stderr", law.standard_error);
    put_finding(row, "log_crossing", c.crossing);
    put_verdict(row, "verdict", telling(c.ratios));
    for (const Finding& f : c.ratios) outcome.rejected = outcome.rejected || f.verdict == Verdict::disagrees;
    outcome.rejected = outcome.rejected || c.crossing.verdict == Verdict::disagrees;
  }
  data.put("order_claim", name_of(result.order.verdict));
  data.put("order_condition", result.condition);
  return outcome;
}

}  // namespace periscope::gradients
