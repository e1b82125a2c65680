#include <cmath>

#include "experiments/engine/judge/seed_rows.h"
#include "experiments/engine/judge/verdict_columns.h"
#include "experiments/engine/result/table.h"
#include "experiments/engine/run/cost.h"
#include "experiments/engine/settings/stack_rules.h"
#include "experiments/studies/widths/ladder.h"
#include "sim/base/mapped.h"

namespace periscope::ladder {
namespace {

using dataset::Table;
using dataset::Type;
using Values = std::vector<double>;

/// Returns the 1/D values at which fitted curves are evaluated: from 0 to the narrowest stack, evenly spaced in 1/√D.
Values curve_grid(const std::vector<int>& widths) {
  constexpr int points = 64;
  Values grid;
  for (int k = 0; k <= points; ++k) grid.push_back(std::pow(static_cast<double>(k) / points, 2) / widths.front());
  return grid;
}

/// Adds the columns of placement and input, with the prefix `name`, for a type with a `spec`.
template <class S>
void add_stack(Table<S>& table, const std::string& name) {
  table
      .column({name + "_placement", name, "", "normalization placement (T1)"},
              [](const S& s) { return config::placement_label(s.spec); })
      .column({name + "_input", name, "", "kind of input"},
              [](const S& s) { return input_kind_names[static_cast<std::size_t>(s.spec.input.kind)]; });
}

/// A quantity of a stack, with the points at which its fitted curve is evaluated.
struct QuantityCurve {
  const StackSpec& spec;
  const stacks::LadderQuantity& quantity;
  const Values& grid;
};

std::optional<Curve> fitted(const QuantityCurve& f) {
  if (f.quantity.test.verdict == judge::Verdict::not_checked) return std::nullopt;
  return judge::curve_of(mapped(f.grid, [&](double x) { return f.quantity.fit.at(x); }));
}

Table<QuantityCurve> quantity_table() {
  Table<QuantityCurve> table;
  const std::string one = "quantity";
  const auto test = [](const QuantityCurve& f) { return &f.quantity.test; };
  add_stack(table, one);
  return table
      .curve({"ladder_measured", one + " ladder_width", "1", "mean over seeds, in the quantity's units"},
             {"ladder_stderr", one + " ladder_width", "1", "standard error of ladder_measured"},
             [](const QuantityCurve& f) { return std::optional(judge::curve_of(f.quantity.measured)); })
      .part(judge::test_columns("limit", one, "1", "m of m + b/D + c/D^2 fitted to ladder_measured"), test)
      .part(judge::verdict_column("limit_verdict", one, "infinite-width limit against theory (T23)"), test)
      .curve({"fit", one + " inverse_width", "1", "the fitted parabola"},
             {"fit_stderr", one + " inverse_width", "1", "standard error of fit"}, fitted);
}

/// Adds the column `name`, its standard errors, and the fit of its law, which is missing if nothing was fitted.
void add_law(Table<Convergence>& table, const std::string& name, const std::string& along, const std::string& meaning,
             const std::string& exponent, FittedLaw Convergence::*law) {
  using C = Convergence;
  const std::string one = "convergence";
  const auto fitted = [&](const std::string& suffix, const std::string& words, double judge::PowerLaw::*value) {
    table.column({name + suffix, one, "1", words}, [law, value](const C& c) {
      return (c.*law).is_fitted() ? std::optional((c.*law).fit.*value) : std::nullopt;
    });
  };
  table.column({name, one + " " + along, "1", meaning}, [law](const C& c) { return (c.*law).value; })
      .column({name + "_stderr", one + " " + along, "1", "standard error of " + name},
              [law](const C& c) { return (c.*law).error; });
  fitted("_exponent", "exponent of " + along + " fitted to " + name, &judge::PowerLaw::exponent);
  fitted("_exponent_stderr", "standard error of " + name + "_exponent", &judge::PowerLaw::exponent_error);
  fitted("_amplitude", name + " = amplitude * " + along + " ^ exponent", &judge::PowerLaw::amplitude);
  table.part(judge::verdict_column(name + "_verdict", one, "exponent " + exponent + " (T20)"),
             [law](const C& c) { return &(c.*law).test; });
}

Table<Convergence> convergence_table() {
  Table<Convergence> table;
  add_stack(table, "convergence");
  table.column({"convergence_statistic", "convergence", "", "statistic of the stream"},
               [](const Convergence& c) { return name_of(c.statistic); });
  add_law(table, "bias", "ladder_width", "measured - theory of infinite width, mean over depth", "-1",
          &Convergence::bias);
  add_law(table, "noise", "group", "spread of means over groups of seeds", "-1/2", &Convergence::noise);
  return table;
}

Table<stacks::LadderStack> stack_table() {
  using S = stacks::LadderStack;
  Table<S> table;
  add_stack(table, "stack");
  table
      .column({"stack_verdict", "stack", "", "joint verdict on all quantities of the stack (T23)"},
              [](const S& s) { return name_of(s.verdict); })
      .column({"stack_unsupported", "stack", "", "why nothing was predicted"}, &S::unsupported);
  return table;
}

}  // namespace

const dataset::Schema& schema() {
  static const dataset::Schema schema = [] {
    std::vector<dataset::ColumnSpec> columns{
        {"weights", "ladder_width", "", "how random matrices were drawn: dense, or matrix-free (T21)", Type::text}};
    for (const auto& more : {stack_table().specs(), quantity_table().specs(), convergence_table().specs()}) {
      columns.insert(columns.end(), more.begin(), more.end());
    }
    return dataset::Schema("ladder", 5,
                           {{"stack"},
                            {"quantity", Type::text, "", "quantity that is measured at every width"},
                            {"ladder_width", Type::integer, "1", "D"},
                            {"inverse_width", Type::real, "1", "1/D"},
                            {"convergence"},
                            {"group", Type::integer, "1", "seeds averaged"}},
                           std::move(columns));
  }();
  return schema;
}

dataset::Dataset dataset_of(const stacks::LadderConfig& config, const stacks::LadderResult& result,
                            const std::vector<Convergence>& fits) {
  dataset::Builder builder(schema());
  const Values grid = curve_grid(result.widths);
  builder.put("ladder_width", result.widths);
  builder.put("inverse_width", grid);
  builder.put("weights", mapped(result.widths, [&](int width) {
                return stacks::weights_used(config::at_width(config.base, width), config.run);
              }));
  const Table<stacks::LadderStack> of_stack = stack_table();
  const Table<QuantityCurve> of_quantity = quantity_table();
  const Table<Convergence> of_fit = convergence_table();
  std::vector<std::string> names;
  for (std::size_t i = 0; i < result.stacks.size(); ++i) {
    of_stack.put(result.stacks[i], builder.at("stack", i));
    for (const stacks::LadderQuantity& quantity : result.stacks[i].quantities) {
      of_quantity.put({result.stacks[i].spec, quantity, grid}, builder.at("quantity", names.size()));
      names.push_back(quantity.test.name());
    }
  }
  builder.put("quantity", names);
  std::vector<int> groups{1};
  for (std::size_t i = 0; i < fits.size(); ++i) {
    of_fit.put(fits[i], builder.at("convergence", i));
    while (groups.size() < fits[i].noise.over.size()) groups.push_back(2 * groups.back());
  }
  builder.put("group", groups);
  return builder.finish();
}

}  // namespace periscope::ladder
