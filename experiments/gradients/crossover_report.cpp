#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "experiments/common/provenance.h"
#include "experiments/gradients/crossover.h"

namespace periscope {
namespace {

/// An estimate of a logarithm as one of the number.
Estimate exponential(const Estimate& log) { return {std::exp(log.value), std::exp(log.value) * log.error}; }

/// Largest |log| by which T14's ratio from measured sizes misses the measured ratio.
double law_error(const Crossover& c) {
  const Curve ratio = c.log_ratio.curve();
  const Curve law = c.log_law.curve();
  double worst = 0.0;
  for (std::size_t i = 0; i < ratio.value.size(); ++i) worst = std::max(worst, std::abs(ratio.value[i] - law.value[i]));
  return worst;
}

std::string table_of(const CrossoverResult& result) {
  std::string table =
      fmt::format("{:<13} {:<22} {:<22} {:<20} {:<26} {:<11} {:<20} {}\n", "placement", "ratio, smallest a",
                  "ratio, largest a", "theory", "ratio 1 at rms a", "predicted", "theory", "T14 off by at most");
  for (const Crossover& c : result.placements) {
    const Curve ratio = c.log_ratio.curve();
    const auto at = [&](std::size_t i) { return plus_minus(exponential({ratio.value[i], ratio.standard_error[i]})); };
    const Finding* worst = telling(c.ratios);
    table += fmt::format("{:<13} {:<22} {:<22} {:<20} {:<26} {:<11} {:<20} {:.1f} %\n", c.spec.model.placement.name,
                         at(0), at(ratio.value.size() - 1), worst != nullptr ? verdict_words(*worst) : c.refusal,
                         c.crosses ? plus_minus(exponential(c.crossing.measured)) : "none",
                         c.crosses ? fmt::format("{:.4g}", std::exp(c.crossing.predicted.value)) : "none",
                         c.crosses ? verdict_words(c.crossing) : "-", 100.0 * std::expm1(law_error(c)));
  }
  table +=
      "ratio: ‖∂loss/∂W_down‖ of the last layer over that of Pre-LN, same weights; a: the last MLP's output. T14: the "
      "ratio from measured sizes alone.\n";
  return table + fmt::format("{}: Post > Pre > Peri: {}{}\n", result.order.id, name_of(result.order.verdict),
                             result.condition.empty() ? "" : " (" + result.condition + ")");
}

}  // namespace

GradientOutcome crossover_outcome(const Config& config, const CrossoverResult& result) {
  GradientOutcome outcome{.data = {}, .table = table_of(result)};
  NetcdfDataset& data = outcome.data;
  data.attributes = provenance(config);
  data.attributes["order_claim"] = std::string(name_of(result.order.verdict));
  data.attributes["order_condition"] = result.condition;
  data.dimensions = {{"case", result.placements.size()}, {"down_factor", result.factors.size()}};
  data.variables = {{"down_factor", {"down_factor"}, result.factors, "1", "init.down_factor"}};
  Columns columns(data, {"case"});
  for (const Crossover& c : result.placements) {
    columns.add("placement", placement_label(c.spec), "normalization placement (T1)");
    columns.add("refusal", c.refusal, "why there is no prediction");
    columns.add("log_ratio", c.log_ratio.curve(), c.ratio_predicted,
                "log of the last W_down's gradient norm over that of Pre-LN", "down_factor");
    columns.add("log_rms_a", c.log_rms_a.curve(), c.rms_a_predicted, "log rms of the last MLP's output", "down_factor");
    const Curve law = c.log_law.curve();
    columns.add("log_law_measured", law.value, "T14's log ratio from measured sizes", {"down_factor"});
    columns.add("log_law_stderr", law.standard_error, "its standard error over seeds", {"down_factor"});
    columns.add("log_crossing", c.crossing, "log rms a at which the ratio is 1");
    columns.add_verdict("verdict", telling(c.ratios), "agreement of the ratio with theory at its worst factor (T19)");
    for (const Finding& f : c.ratios) outcome.rejected = outcome.rejected || f.verdict == Verdict::disagrees;
    outcome.rejected = outcome.rejected || c.crossing.verdict == Verdict::disagrees;
  }
  return outcome;
}

}  // namespace periscope
