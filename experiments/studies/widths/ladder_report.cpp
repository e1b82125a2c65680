#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "experiments/core/config/provenance.h"
#include "experiments/core/config/told.h"
#include "experiments/core/config/weights_choice.h"
#include "experiments/core/dataset/text_table.h"
#include "experiments/studies/widths/ladder_report.h"
#include "sim/numerics/larger.h"

namespace periscope::ladder {
namespace {

using Json = nlohmann::ordered_json;
using Values = std::vector<double>;

/// 1/D of points of the fitted curve, from 0 to the narrowest stack: evenly, and evenly in its logarithm down to half
/// of the widest stack's.
Values curve_grid(const std::vector<int>& widths) {
  constexpr int points = 32;
  const double narrowest = 1.0 / widths.front();
  const double ratio = 0.5 * widths.front() / widths.back();
  Values grid{0.0};
  for (int k = 1; k <= points; ++k) {
    const double share = static_cast<double>(k) / points;
    grid.push_back(share * narrowest);
    if (k < points) grid.push_back(std::pow(ratio, 1.0 - share) * narrowest);
  }
  std::ranges::sort(grid);
  return grid;
}

std::string_view input_of(const StackSpec& spec) { return input_kind_names[static_cast<std::size_t>(spec.input.kind)]; }

/// The quantities of one curve: its entries and its means.
struct Family {
  const LadderQuantity* worst = nullptr;  ///< the one nearest to rejection, or beyond it
  const LadderQuantity* least = nullptr;  ///< the one with the least power that is inconclusive
  double power = 0.0;                     ///< of the worst entry
  Verdict verdict = Verdict::not_checked;
};

std::vector<std::pair<std::string, Family>> families(const LadderStack& stack) {
  std::vector<std::pair<std::string, Family>> all;
  for (const LadderQuantity& q : stack.quantities) {
    auto it = std::ranges::find(all, q.family(), &std::pair<std::string, Family>::first);
    if (it == all.end()) it = all.insert(all.end(), {q.family(), {}});
    Family& family = it->second;
    if (q.verdict == Verdict::not_checked) continue;
    family.power = larger(family.power, q.power);
    const auto nearness = [](const LadderQuantity& x) {
      return std::pair(x.verdict == Verdict::disagrees, x.excess / x.critical);
    };
    if (family.worst == nullptr || nearness(*family.worst) < nearness(q)) family.worst = &q;
    if (q.verdict == Verdict::inconclusive && (family.least == nullptr || q.power > family.least->power)) {
      family.least = &q;
    }
    if (q.verdict == Verdict::disagrees || family.verdict == Verdict::disagrees) {
      family.verdict = Verdict::disagrees;
    } else if (q.verdict == Verdict::inconclusive || family.verdict == Verdict::inconclusive) {
      family.verdict = Verdict::inconclusive;
    } else {
      family.verdict = Verdict::agrees;
    }
  }
  return all;
}

/// What was not judged is NaN in files, of which figures are drawn.
void put_quantity(const Columns::Row& row, const StackSpec& spec, const LadderQuantity& q, const Values& grid) {
  Values values;
  Values errors;
  for (const Estimate& m : q.measured) {
    values.push_back(m.value);
    errors.push_back(m.error);
  }
  const bool judged = q.verdict != Verdict::not_checked;
  const auto put = [&](const char* column, double value) { (judged ? row : row.for_json()).put(column, value); };
  row.put("quantity", q.name());
  row.put("quantity_placement", placement_label(spec));
  row.put("quantity_input", input_of(spec));
  row.put("quantity_units", units_of(q.statistic));
  row.put("ladder_measured", values);
  row.put("ladder_stderr", errors);
  put("limit", q.fit.limit.value);
  put("limit_stderr", q.fit.limit.error);
  put("slope", q.fit.slope.value);
  put("slope_stderr", q.fit.slope.error);
  put("curvature", q.fit.curvature.value);
  put("curvature_stderr", q.fit.curvature.error);
  put("lack_of_fit", q.fit.lack_of_fit);
  row.put("limit_predicted", q.predicted.value);
  row.put("limit_predicted_stderr", q.predicted.error);
  put("limit_excess", q.excess);
  put("limit_critical", q.critical);
  put("limit_power", q.power);
  put("scale", q.scale);
  row.put("ladder_verdict", name_of(q.verdict));
  (q.reason.empty() ? row.for_files() : row).put("ladder_reason", q.reason);
  if (!judged) return;
  Values fitted;
  Values fitted_errors;
  for (const double x : grid) {
    const Estimate at = q.fit.at(x);
    fitted.push_back(at.value);
    fitted_errors.push_back(at.error);
  }
  row.put("fit", fitted);
  row.put("fit_stderr", fitted_errors);
}

}  // namespace

std::string table(const LadderResult& result, const Config& config) {
  TextTable table({"placement", "input", "nearest to rejection", "at 1/D = 0", "theory", "b", ">excess / limit",
                   ">power", "verdict"});
  for (const LadderStack& stack : result.stacks) {
    const std::string placement = placement_label(stack.spec);
    if (!stack.refusal.empty()) table.add_note(placement, "refused: " + stack.refusal);
    for (const auto& [name, family] : families(stack)) {
      if (family.worst == nullptr) continue;
      const LadderQuantity& q = *family.worst;
      std::string why;
      if (family.verdict == Verdict::inconclusive) {
        const LadderQuantity& least = *family.least;
        why = (&least == &q ? ": " : ": " + least.name() + " ") + least.reason;
      }
      table.add({placement, std::string(input_of(stack.spec)), name + q.name().substr(name.size()),
                 fmt::format("{:.4g} ± {:.1g}", q.fit.limit.value, q.fit.limit.error),
                 fmt::format("{:.4g} ± {:.1g}", q.predicted.value, q.predicted.error),
                 fmt::format("{:.3g}", q.fit.slope.value), fmt::format("{:.1f} / {:.1f}", q.excess, q.critical),
                 fmt::format("{:.2g}", family.power), std::string(name_of(family.verdict)) + why});
    }
  }
  return table.text() +
         fmt::format(
             "m(D) = m + b/D + c/D² fitted over widths {} … {}; m against the theory of infinite width, without "
             "allowance.\nexcess: standard errors between them; limit: Student's t at a familywise error of {:g} "
             "over {} quantities.\npower: the smallest error of theory that is refused with 95 % probability, "
             "worst entry (relative for moments).\n",
             result.widths.front(), result.widths.back(), config.agreement.familywise_error, result.tests);
}

const Schema& schema() {
  static const Schema schema = [] {
    const std::string stack = "stacks/[stack]/";
    const std::string q = stack + "quantities/[of_stack]/";
    const std::string one = "quantity";
    const std::string curve = "the curve of a figure, which follows from the fit";
    return Schema(
        "ladder", 1,
        {{"quantity", "", "what is followed along the widths", q + "name"},
         {"ladder_width", "1", "D", "widths"},
         {"inverse_width", "1", "1/D"}},
        {{"weights", "ladder_width", "", "how random matrices were drawn: dense, or matrix-free (T21)", "weights"},
         {"quantity_placement", one, "", "normalization placement (T1)", "", "JSON has it once per stack"},
         {"quantity_input", one, "", "what enters the stack", "", "JSON has it once per stack"},
         json_only("placement", stack + "placement", "name or table of the placement", "files: quantity_placement"),
         json_only("input", stack + "input", "what enters the stack", "files: quantity_input"),
         json_only("verdict", stack + "verdict", "of all quantities of a stack", "files: that of each quantity"),
         json_only("quantities", stack + "quantities", "the stack's quantities", "files have the dimension quantity"),
         json_only("refused", stack + "refused", "why nothing was predicted", "files have no quantities of it"),
         {"quantity_units", one, "", "units of the quantity, and of its limit", "", "the statistic says them"},
         {"ladder_measured", one + " ladder_width", "1", "mean over seeds, in the quantity's units", q + "measured"},
         {"ladder_stderr", one + " ladder_width", "1", "its standard error", q + "stderr"},
         {"limit", one, "1", "m of m + b/D + c/D^2 fitted to the measured", q + "limit"},
         {"limit_stderr", one, "1", "its standard error", q + "limit_stderr"},
         {"slope", one, "1", "b", q + "slope"},
         {"slope_stderr", one, "1", "its standard error", q + "slope_stderr"},
         {"curvature", one, "1", "c", q + "curvature"},
         {"curvature_stderr", one, "1", "its standard error", q + "curvature_stderr"},
         {"lack_of_fit", one, "1", "p-value of the points' distance from the parabola", q + "lack_of_fit"},
         {"limit_predicted", one, "1", "theory at infinite width", q + "predicted"},
         {"limit_predicted_stderr", one, "1", "its standard error", q + "predicted_stderr"},
         {"limit_excess", one, "1", "standard errors between limit and theory", q + "excess"},
         {"limit_critical", one, "1", "where it is rejected", q + "critical"},
         {"limit_power", one, "1", "smallest relative error that is refused with 95 %", q + "power"},
         {"scale", one, "1", "what relative errors are relative to", "", "of use for figures"},
         {"ladder_verdict", one, "", "limit of infinite width against theory (T23)", q + "verdict"},
         {"ladder_reason", one, "", "why it is inconclusive or was not checked", q + "reason"},
         {"fit", one + " inverse_width", "1", "the fitted parabola", "", curve},
         {"fit_stderr", one + " inverse_width", "1", "its standard error", "", curve}});
  }();
  return schema;
}

Columns columns(const LadderConfig& config, const LadderResult& result) {
  Columns columns(schema(), provenance(config));
  columns.put("ladder_width", result.widths);
  columns.put("weights", weights_at_widths(config, result.widths, "ladder.widths"));
  const Values grid = curve_grid(result.widths);
  columns.put("inverse_width", grid);
  std::size_t next = 0;
  for (std::size_t s = 0; s < result.stacks.size(); ++s) {
    const LadderStack& stack = result.stacks[s];
    const Columns::Row of_stack = columns.at("stack", s);
    of_stack.put("placement", resolved_json(stack.spec)["model"]["placement"]);
    of_stack.put("input", input_of(stack.spec));
    of_stack.put("verdict", name_of(stack.verdict));
    of_stack.put("quantities", Json::array());
    for (std::size_t k = 0; k < stack.quantities.size(); ++k) {
      put_quantity(of_stack.at("of_stack", k).at("quantity", next++), stack.spec, stack.quantities[k], grid);
    }
    if (!stack.refusal.empty()) of_stack.put("refused", stack.refusal);
  }
  return columns;
}

}  // namespace periscope::ladder
