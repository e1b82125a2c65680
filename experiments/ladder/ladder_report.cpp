#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "experiments/common/provenance.h"
#include "experiments/common/told.h"
#include "experiments/ladder/ladder.h"

namespace periscope {
namespace {

using Json = nlohmann::ordered_json;
using Words = std::vector<std::string>;
using Values = std::vector<double>;

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
/// Points of the fitted curve between 1/D = 0 and the narrowest stack.
constexpr std::size_t curve_points = 33;

std::string_view input_of(const StackSpec& spec) { return input_kind_names[static_cast<std::size_t>(spec.input.kind)]; }

/// The quantities of one curve: its entries and its means.
struct Family {
  const LadderQuantity* worst = nullptr;  ///< the one nearest to rejection, or beyond it
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
    family.power = std::max(family.power, q.power);
    const auto nearness = [](const LadderQuantity& x) {
      return std::pair(x.verdict == Verdict::disagrees, x.excess / x.critical);
    };
    if (family.worst == nullptr || nearness(*family.worst) < nearness(q)) family.worst = &q;
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

Json quantity_json(const LadderQuantity& q) {
  Values values;
  Values errors;
  for (const Estimate& m : q.measured) {
    values.push_back(m.value);
    errors.push_back(m.error);
  }
  Json json{{"name", q.name()},
            {"measured", values},
            {"stderr", errors},
            {"limit", q.fit.limit.value},
            {"limit_stderr", q.fit.limit.error},
            {"slope", q.fit.slope.value},
            {"slope_stderr", q.fit.slope.error},
            {"curvature", q.fit.curvature.value},
            {"curvature_stderr", q.fit.curvature.error},
            {"lack_of_fit", q.fit.lack_of_fit},
            {"predicted", q.predicted.value},
            {"predicted_stderr", q.predicted.error},
            {"excess", q.excess},
            {"critical", q.critical},
            {"power", q.power},
            {"verdict", name_of(q.verdict)}};
  if (!q.reason.empty()) json["reason"] = q.reason;
  return json;
}

}  // namespace

std::string ladder_table(const LadderResult& result, const Config& config) {
  std::string table =
      fmt::format("{:<13} {:<9} {:<26} {:<17} {:<17} {:<10} {:>14} {:>7}  {}\n", "placement", "input",
                  "nearest to rejection", "at 1/D = 0", "theory", "b", "excess / limit", "power", "verdict");
  for (const LadderStack& stack : result.stacks) {
    const std::string placement = placement_label(stack.spec);
    if (!stack.refusal.empty()) table += fmt::format("{:<13} refused: {}\n", placement, stack.refusal);
    for (const auto& [name, family] : families(stack)) {
      if (family.worst == nullptr) continue;
      const LadderQuantity& q = *family.worst;
      table += fmt::format("{:<13} {:<9} {:<26} {:<17} {:<17} {:<10.3g} {:>7.1f} / {:<4.1f} {:>7.2g}  {}{}\n",
                           placement, input_of(stack.spec), name + q.name().substr(name.size()),
                           fmt::format("{:.4g} ± {:.1g}", q.fit.limit.value, q.fit.limit.error),
                           fmt::format("{:.4g} ± {:.1g}", q.predicted.value, q.predicted.error), q.fit.slope.value,
                           q.excess, q.critical, family.power, name_of(family.verdict),
                           family.verdict == Verdict::inconclusive && !q.reason.empty() ? ": " + q.reason : "");
    }
  }
  return table +
         fmt::format(
             "m(D) = m + b/D + c/D² fitted over widths {} … {}; m against the theory of infinite width, without "
             "allowance.\nexcess: standard errors between them; limit: Student's t at a familywise error of {:g} "
             "over {} quantities.\npower: the smallest error of theory that is refused with 95 % probability, "
             "worst entry (relative for moments).\n",
             result.widths.front(), result.widths.back(), config.agreement.familywise_error, result.tests);
}

Json ladder_json(const LadderResult& result) {
  Json stacks = Json::array();
  for (const LadderStack& stack : result.stacks) {
    Json quantities = Json::array();
    for (const LadderQuantity& q : stack.quantities) quantities.push_back(quantity_json(q));
    Json json{{"placement", resolved_json(stack.spec)["model"]["placement"]},
              {"input", input_of(stack.spec)},
              {"verdict", name_of(stack.verdict)},
              {"quantities", quantities}};
    if (!stack.refusal.empty()) json["refused"] = stack.refusal;
    stacks.push_back(json);
  }
  return {{"widths", result.widths}, {"stacks", stacks}};
}

NetcdfDataset ladder_dataset(const LadderConfig& config, const LadderResult& result) {
  Words placement;
  Words input;
  Words name;
  Words verdict;
  Words reason;
  std::map<std::string, Values> numbers;
  const double narrowest = 1.0 / result.widths.front();
  Values grid;
  for (std::size_t k = 0; k < curve_points; ++k) {
    grid.push_back(narrowest * static_cast<double>(k) / static_cast<double>(curve_points - 1));
  }
  for (const LadderStack& stack : result.stacks) {
    for (const LadderQuantity& q : stack.quantities) {
      placement.push_back(placement_label(stack.spec));
      input.emplace_back(input_of(stack.spec));
      name.push_back(q.name());
      verdict.emplace_back(name_of(q.verdict));
      reason.push_back(q.reason);
      const bool judged = q.verdict != Verdict::not_checked;
      const auto put = [&](const char* variable, double value) { numbers[variable].push_back(judged ? value : nan); };
      put("limit", q.fit.limit.value);
      put("limit_stderr", q.fit.limit.error);
      put("slope", q.fit.slope.value);
      put("slope_stderr", q.fit.slope.error);
      put("curvature", q.fit.curvature.value);
      put("curvature_stderr", q.fit.curvature.error);
      put("lack_of_fit", q.fit.lack_of_fit);
      put("limit_excess", q.excess);
      put("limit_critical", q.critical);
      put("limit_power", q.power);
      put("scale", q.scale);
      numbers["limit_predicted"].push_back(q.predicted.value);
      numbers["limit_predicted_stderr"].push_back(q.predicted.error);
      for (const Estimate& m : q.measured) {
        numbers["ladder_measured"].push_back(m.value);
        numbers["ladder_stderr"].push_back(m.error);
      }
      for (const double x : grid) {
        const Estimate at = judged ? q.fit.at(x) : Estimate{nan, nan};
        numbers["fit"].push_back(at.value);
        numbers["fit_stderr"].push_back(at.error);
      }
    }
  }
  NetcdfDataset data;
  data.dimensions = {
      {"quantity", name.size()}, {"ladder_width", result.widths.size()}, {"inverse_width", curve_points}};
  data.attributes = provenance(config);
  const Words one{"quantity"};
  const Words widths{"quantity", "ladder_width"};
  const Words points{"quantity", "inverse_width"};
  data.variables = {
      {"ladder_width", {"ladder_width"}, Values(result.widths.begin(), result.widths.end()), "1", "D"},
      {"inverse_width", {"inverse_width"}, grid, "1", "1/D"},
      {"quantity", one, name, "", "what is followed along the widths"},
      {"quantity_placement", one, placement, "", "normalization placement (T1)"},
      {"quantity_input", one, input, "", "what enters the stack"},
      {"ladder_verdict", one, verdict, "", "limit of infinite width against theory (T23)"},
      {"ladder_reason", one, reason, "", "why it is inconclusive or was not checked"},
      {"ladder_measured", widths, numbers["ladder_measured"], "1", "mean over seeds"},
      {"ladder_stderr", widths, numbers["ladder_stderr"], "1", "its standard error"},
      {"limit_predicted", one, numbers["limit_predicted"], "1", "theory at infinite width"},
      {"limit_predicted_stderr", one, numbers["limit_predicted_stderr"], "1", "its standard error"},
      {"limit", one, numbers["limit"], "1", "m of m + b/D + c/D^2 fitted to the measured"},
      {"limit_stderr", one, numbers["limit_stderr"], "1", "its standard error"},
      {"slope", one, numbers["slope"], "1", "b"},
      {"slope_stderr", one, numbers["slope_stderr"], "1", "its standard error"},
      {"curvature", one, numbers["curvature"], "1", "c"},
      {"curvature_stderr", one, numbers["curvature_stderr"], "1", "its standard error"},
      {"lack_of_fit", one, numbers["lack_of_fit"], "1", "p-value of the points' distance from the parabola"},
      {"limit_excess", one, numbers["limit_excess"], "1", "standard errors between limit and theory"},
      {"limit_critical", one, numbers["limit_critical"], "1", "where it is rejected"},
      {"limit_power", one, numbers["limit_power"], "1", "smallest relative error that is refused with 95 %"},
      {"scale", one, numbers["scale"], "1", "what relative errors are relative to"},
      {"fit", points, numbers["fit"], "1", "the fitted parabola"},
      {"fit_stderr", points, numbers["fit_stderr"], "1", "its standard error"},
  };
  return data;
}

}  // namespace periscope
