#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "experiments/engine/result/text_table.h"
#include "experiments/studies/gradients/crossover.h"
#include "experiments/studies/gradients/report_columns.h"
#include "sim/numerics/larger.h"

namespace periscope::gradients {
namespace {

/// An estimate of a logarithm as one of the number.
judge::Estimate exponential(const judge::Estimate& log) {
  return {std::exp(log.value), std::exp(log.value) * log.error};
}

/// "12.3 %", or that it is no number, as of a stack that diverged.
std::string percent(double share) {
  if (!std::isfinite(share)) return judge::number_words(share);
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
  dataset::TextTable table({"placement", "ratio, smallest a", "ratio, largest a", "theory", "ratio 1 at rms a",
                            "predicted", "theory", "T14 off by at most"});
  for (const Crossover& c : result.placements) {
    const Curve ratio = c.log_ratio.curve();
    const auto at = [&](std::size_t i) {
      return judge::plus_minus(exponential({ratio.value[i], ratio.standard_error[i]}));
    };
    const judge::Test* worst = judge::deciding(c.ratios);
    table.add({config::placement_label(c.spec), at(0), at(ratio.value.size() - 1),
               worst != nullptr ? judge::verdict_words(*worst) : c.refusal,
               c.crosses ? judge::plus_minus(exponential(c.crossing.measured)) : "none",
               c.crosses ? judge::shown(std::exp(c.crossing.predicted.value), "{:.4g}") : "none",
               c.crosses ? judge::verdict_words(c.crossing) : "-", percent(std::expm1(law_error(c)))});
  }
  return table.text() +
         "ratio: ‖∂loss/∂W_down‖ of the last layer over that of Pre-LN, same weights; a: the last MLP's output. T14: "
         "the "
         "ratio from measured sizes alone.\n" +
         fmt::format("{}: Post > Pre > Peri: {}{}\n", result.order.id, judge::name_of(result.order.verdict),
                     result.condition.empty() ? "" : " (" + result.condition + ")");
}

const Table<Crossover>& placement_table() {
  static const Table<Crossover> all = [] {
    Table<Crossover> table;
    const std::string swept = "case down_factor";
    add_placement(table, "case");
    add_refusal(table, "case");
    add_curve(
        table, {"log_ratio", swept, "nat", "log of the last W_down's gradient norm over that of Pre-LN"},
        [](const Crossover& c) { return c.log_ratio.curve(); },
        [](const Crossover& c) -> const Curve& { return c.ratio_predicted; });
    add_curve(
        table, {"log_rms_a", swept, "nat", "log rms of the last MLP's output"},
        [](const Crossover& c) { return c.log_rms_a.curve(); },
        [](const Crossover& c) -> const Curve& { return c.rms_a_predicted; });
    add_series(table, {"log_law_measured", swept, "nat", "T14's log ratio from measured sizes"},
               {"log_law_stderr", swept, "nat", "its standard error over seeds"},
               [](const Crossover& c) { return c.log_law.curve(); });
    add_test(table, {"log_crossing", "case", "nat", "log rms a at which the ratio is 1"},
             [](const Crossover& c) -> const judge::Test& { return c.crossing; });
    add_verdict(table, {"verdict", "case", "", "agreement of the ratio with theory at its worst factor (T19)"},
                [](const Crossover& c) { return judge::deciding(c.ratios); });
    return table;
  }();
  return all;
}

const Table<CrossoverResult>& result_table() {
  static const Table<CrossoverResult> all = [] {
    Table<CrossoverResult> table;
    table
        .column({"order_claim", "", "", "what the data say of Post > Pre > Peri (G6)"},
                [](const CrossoverResult& r) { return judge::name_of(r.order.verdict); })
        .column({"order_condition", "", "", "when that holds"}, &CrossoverResult::condition)
        .rows(
            "case", placement_table(), [](const CrossoverResult& r) -> const auto& { return r.placements; });
    return table;
  }();
  return all;
}

}  // namespace

const dataset::Schema& crossover_schema() {
  static const dataset::Schema schema("gradient_crossover", 2,
                                      {{"case"}, {"down_factor", dataset::Type::real, "1", "init.down_factor"}},
                                      result_table().specs());
  return schema;
}

study::Outcome crossover_outcome(const CrossoverResult& result) {
  dataset::Builder builder(crossover_schema());
  builder.put("down_factor", result.factors);
  result_table().put(result, builder.row());
  const bool rejected = std::ranges::any_of(result.placements, [](const Crossover& c) {
    return judge::disagrees(c.crossing) || std::ranges::any_of(c.ratios, judge::disagrees);
  });
  return {.data = builder.finish(), .table = table_of(result), .code = study::code_of(!rejected)};
}

}  // namespace periscope::gradients
