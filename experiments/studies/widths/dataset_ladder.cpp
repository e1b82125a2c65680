#include <algorithm>
#include <cmath>

#include "experiments/engine/result/table.h"
#include "experiments/engine/run/cost.h"
#include "experiments/studies/widths/ladder.h"

namespace periscope::ladder {
namespace {

using dataset::Type;
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

/// A quantity of a stack, with the points at which its fitted curve is drawn.
struct Followed {
  const StackSpec& spec;
  const stacks::LadderQuantity& quantity;
  const Values& grid;

  [[nodiscard]] bool judged() const { return quantity.test.verdict != judge::Verdict::not_checked; }
  /// Nothing of what was not judged, so that no figure shows it.
  [[nodiscard]] std::optional<double> if_judged(double value) const {
    return judged() ? std::optional(value) : std::nullopt;
  }
  [[nodiscard]] std::optional<Values> fitted(double judge::Estimate::*part) const {
    if (!judged()) return std::nullopt;
    Values values;
    for (const double x : grid) values.push_back(quantity.fit.at(x).*part);
    return values;
  }
  [[nodiscard]] Values measured(double judge::Estimate::*part) const {
    Values values;
    for (const judge::Estimate& m : quantity.measured) values.push_back(m.*part);
    return values;
  }
};

const dataset::Table<Followed>& quantity_table() {
  using F = Followed;
  static const dataset::Table<F> all = [] {
    dataset::Table<F> table;
    const std::string one = "quantity";
    table
        .column({"quantity_placement", one, "", "normalization placement (T1)"},
                [](const F& f) { return config::placement_label(f.spec); })
        .column({"quantity_input", one, "", "what enters the stack"}, [](const F& f) { return input_of(f.spec); })
        .column({"quantity_units", one, "", "units of the quantity, and of its limit"},
                [](const F& f) { return units_of(f.quantity.test.statistic); })
        .column({"ladder_measured", one + " ladder_width", "1", "mean over seeds, in the quantity's units"},
                [](const F& f) { return f.measured(&judge::Estimate::value); })
        .column({"ladder_stderr", one + " ladder_width", "1", "its standard error"},
                [](const F& f) { return f.measured(&judge::Estimate::error); })
        .column({"limit", one, "1", "m of m + b/D + c/D^2 fitted to the measured"},
                [](const F& f) { return f.if_judged(f.quantity.fit.limit.value); })
        .column({"limit_stderr", one, "1", "its standard error"},
                [](const F& f) { return f.if_judged(f.quantity.fit.limit.error); })
        .column({"slope", one, "1", "b"}, [](const F& f) { return f.if_judged(f.quantity.fit.slope.value); })
        .column({"slope_stderr", one, "1", "its standard error"},
                [](const F& f) { return f.if_judged(f.quantity.fit.slope.error); })
        .column({"curvature", one, "1", "c"}, [](const F& f) { return f.if_judged(f.quantity.fit.curvature.value); })
        .column({"curvature_stderr", one, "1", "its standard error"},
                [](const F& f) { return f.if_judged(f.quantity.fit.curvature.error); })
        .column({"lack_of_fit", one, "1", "p-value of the points' distance from the parabola"},
                [](const F& f) { return f.if_judged(f.quantity.fit.lack_of_fit); })
        .column({"limit_predicted", one, "1", "theory at infinite width"},
                [](const F& f) { return f.quantity.test.predicted.value; })
        .column({"limit_predicted_stderr", one, "1", "its standard error"},
                [](const F& f) { return f.quantity.test.predicted.error; })
        .column({"limit_excess", one, "1", "standard errors between limit and theory"},
                [](const F& f) { return f.if_judged(f.quantity.test.excess()); })
        .column({"limit_critical", one, "1", "where it is rejected"},
                [](const F& f) { return f.if_judged(f.quantity.test.critical); })
        .column({"limit_power", one, "1", "smallest relative error that is refused with 95 %"},
                [](const F& f) { return f.if_judged(f.quantity.test.detectable); })
        .column({"scale", one, "1", "what relative errors are relative to"},
                [](const F& f) { return f.if_judged(f.quantity.test.scale); })
        .column({"ladder_verdict", one, "", "limit of infinite width against theory (T23)"},
                [](const F& f) { return judge::name_of(f.quantity.test.verdict); })
        .column({"ladder_reason", one, "", "why it is inconclusive or was not checked"},
                [](const F& f) { return f.quantity.test.reason; })
        .column_if_any({"fit", one + " inverse_width", "1", "the fitted parabola"},
                       [](const F& f) { return f.fitted(&judge::Estimate::value); })
        .column_if_any({"fit_stderr", one + " inverse_width", "1", "its standard error"},
                       [](const F& f) { return f.fitted(&judge::Estimate::error); });
    return table;
  }();
  return all;
}

const dataset::Table<stacks::LadderStack>& stack_table() {
  using S = stacks::LadderStack;
  static const dataset::Table<S> all = [] {
    dataset::Table<S> table;
    table
        .column({"stack_placement", "stack", "", "normalization placement (T1)"},
                [](const S& s) { return config::placement_label(s.spec); })
        .column({"stack_input", "stack", "", "what enters the stack"}, [](const S& s) { return input_of(s.spec); })
        .column({"stack_verdict", "stack", "", "of all quantities of the stack (T23)"},
                [](const S& s) { return judge::name_of(s.verdict); })
        .column({"stack_refusal", "stack", "", "why nothing was predicted"}, &S::refusal);
    return table;
  }();
  return all;
}

const dataset::Table<stacks::LadderConfig>& config_table() {
  static const dataset::Table<stacks::LadderConfig> all = [] {
    dataset::Table<stacks::LadderConfig> table;
    table.column({"weights", "ladder_width", "", "how random matrices were drawn: dense, or matrix-free (T21)"},
                 [](const stacks::LadderConfig& c) { return stacks::weights_at_widths(c, c.widths, "ladder.widths"); });
    return table;
  }();
  return all;
}

}  // namespace

const dataset::Schema& schema() {
  static const dataset::Schema schema = [] {
    std::vector<dataset::ColumnSpec> columns = config_table().specs();
    std::ranges::copy(stack_table().specs(), std::back_inserter(columns));
    std::ranges::copy(quantity_table().specs(), std::back_inserter(columns));
    std::ranges::copy(convergence_table().specs(), std::back_inserter(columns));
    return dataset::Schema("ladder", 3,
                           {{"stack"},
                            {"quantity", Type::text, "", "what is followed along the widths"},
                            {"ladder_width", Type::integer, "1", "D"},
                            {"inverse_width", Type::real, "1", "1/D"},
                            {"convergence"},
                            {"group", Type::integer, "1", "seeds averaged"}},
                           std::move(columns));
  }();
  return schema;
}

dataset::Dataset dataset_of(const stacks::LadderConfig& config, const stacks::LadderResult& result,
                            const ConvergenceResult& convergence) {
  dataset::Builder builder(schema());
  builder.put("ladder_width", result.widths);
  const Values grid = curve_grid(result.widths);
  builder.put("inverse_width", grid);
  config_table().put(config, builder.row());
  std::size_t next = 0;
  for (std::size_t s = 0; s < result.stacks.size(); ++s) {
    const stacks::LadderStack& stack = result.stacks[s];
    stack_table().put(stack, builder.at("stack", s));
    for (const stacks::LadderQuantity& quantity : stack.quantities) {
      const dataset::Builder::Row row = builder.at("quantity", next++);
      row.put("quantity", quantity.test.name());
      quantity_table().put({stack.spec, quantity, grid}, row);
    }
  }
  put_convergence(convergence, builder);
  return builder.finish();
}

}  // namespace periscope::ladder
