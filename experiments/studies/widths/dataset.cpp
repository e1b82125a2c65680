#include <algorithm>
#include <cmath>

#include "experiments/engine/result/table.h"
#include "experiments/engine/run/cost.h"
#include "experiments/engine/settings/stack_rules.h"
#include "experiments/studies/widths/ladder.h"

namespace periscope::ladder {
namespace {

using dataset::Table;
using dataset::Type;
using judge::Estimate;
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

/// NAME_placement and NAME_input, of what has a `spec`.
template <class S>
void add_stack(Table<S>& table, const std::string& name) {
  table
      .column({name + "_placement", name, "", "normalization placement (T1)"},
              [](const S& s) { return config::placement_label(s.spec); })
      .column({name + "_input", name, "", "what enters the stack"},
              [](const S& s) { return input_kind_names[static_cast<std::size_t>(s.spec.input.kind)]; });
}

/// A quantity of a stack, with the points at which its fitted curve is drawn.
struct Followed {
  const StackSpec& spec;
  const stacks::LadderQuantity& quantity;
  const Values& grid;

  [[nodiscard]] bool judged() const { return quantity.test.verdict != judge::Verdict::not_checked; }
  [[nodiscard]] std::optional<Values> fitted(double Estimate::*part) const {
    if (!judged()) return std::nullopt;
    Values values;
    for (const double x : grid) values.push_back(quantity.fit.at(x).*part);
    return values;
  }
  [[nodiscard]] Values measured(double Estimate::*part) const {
    Values values;
    for (const Estimate& m : quantity.measured) values.push_back(m.*part);
    return values;
  }
};

Table<Followed> quantity_table() {
  using F = Followed;
  Table<F> table;
  const std::string one = "quantity";
  const auto number = [&](const std::string& name, const std::string& meaning, auto value) {
    table.column({name, one, "1", meaning}, [value](const F& f) { return value(f.quantity); });
  };
  // Nothing of what was not judged, so that no figure shows it.
  const auto judged = [&](const std::string& name, const std::string& meaning, auto value) {
    table.column({name, one, "1", meaning},
                 [value](const F& f) { return f.judged() ? std::optional(value(f.quantity)) : std::nullopt; });
  };
  using Q = stacks::LadderQuantity;
  add_stack(table, one);
  table
      .column({"ladder_measured", one + " ladder_width", "1", "mean over seeds, in the quantity's units"},
              [](const F& f) { return f.measured(&Estimate::value); })
      .column({"ladder_stderr", one + " ladder_width", "1", "its standard error"},
              [](const F& f) { return f.measured(&Estimate::error); });
  judged("limit", "m of m + b/D + c/D^2 fitted to the measured", [](const Q& q) { return q.fit.limit.value; });
  judged("limit_stderr", "its standard error", [](const Q& q) { return q.fit.limit.error; });
  judged("slope", "b", [](const Q& q) { return q.fit.slope.value; });
  number("limit_predicted", "theory at infinite width", [](const Q& q) { return q.test.predicted.value; });
  number("limit_predicted_stderr", "its standard error", [](const Q& q) { return q.test.predicted.error; });
  judged("limit_excess", "standard errors between limit and theory", [](const Q& q) { return q.test.excess(); });
  judged("limit_critical", "where it is rejected", [](const Q& q) { return q.test.critical; });
  judged("limit_power", "smallest relative error that is refused with 95 %",
         [](const Q& q) { return q.test.detectable; });
  judged("scale", "what relative errors are relative to", [](const Q& q) { return q.test.scale; });
  table
      .column({"ladder_verdict", one, "", "limit of infinite width against theory (T23)"},
              [](const F& f) { return name_of(f.quantity.test.verdict); })
      .column({"ladder_reason", one, "", "why it is inconclusive or was not checked"},
              [](const F& f) { return f.quantity.test.reason; })
      .column_if_any({"fit", one + " inverse_width", "1", "the fitted parabola"},
                     [](const F& f) { return f.fitted(&Estimate::value); })
      .column_if_any({"fit_stderr", one + " inverse_width", "1", "its standard error"},
                     [](const F& f) { return f.fitted(&Estimate::error); });
  return table;
}

/// NAME on `along`, and its law's fit, of which nothing is put where nothing was fitted, so that no figure shows it.
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
      .column({name + "_stderr", one + " " + along, "1", "its standard error"},
              [law](const C& c) { return (c.*law).error; });
  fitted("_exponent", "exponent of " + along + " fitted to it", &judge::PowerLaw::exponent);
  fitted("_exponent_stderr", "its standard error", &judge::PowerLaw::exponent_error);
  fitted("_amplitude", name + " = amplitude * " + along + " ^ exponent", &judge::PowerLaw::amplitude);
  table
      .column({name + "_verdict", one, "", "exponent " + exponent + " (T20)"},
              [law](const C& c) { return name_of((c.*law).test.verdict); })
      .column({name + "_reason", one, "", "why it is inconclusive or was not checked"},
              [law](const C& c) { return (c.*law).test.reason; });
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

/// What a ladder's dataset is made from.
struct Whole {
  const stacks::LadderConfig& config;
  const stacks::LadderResult& result;
  const std::vector<Convergence>& fits;
  const Values& grid;

  [[nodiscard]] std::vector<std::string_view> weights() const {
    std::vector<std::string_view> used;
    for (const int width : result.widths) {
      used.push_back(stacks::weights_used(config::at_width(config.base, width, "ladder.widths"), config.run));
    }
    return used;
  }
  [[nodiscard]] std::vector<Followed> quantities() const {
    std::vector<Followed> all;
    for (const stacks::LadderStack& stack : result.stacks) {
      for (const stacks::LadderQuantity& quantity : stack.quantities) all.push_back({stack.spec, quantity, grid});
    }
    return all;
  }
};

const Table<Whole>& whole_table() {
  using S = stacks::LadderStack;
  static const Table<Whole> all = [] {
    Table<S> stack;
    add_stack(stack, "stack");
    stack
        .column({"stack_verdict", "stack", "", "of all quantities of the stack (T23)"},
                [](const S& s) { return name_of(s.verdict); })
        .column({"stack_refusal", "stack", "", "why nothing was predicted"}, &S::refusal);
    Table<Whole> table;
    table
        .column({"weights", "ladder_width", "", "how random matrices were drawn: dense, or matrix-free (T21)"},
                &Whole::weights)
        .rows("stack", stack, [](const Whole& w) -> const std::vector<S>& { return w.result.stacks; })
        .rows("quantity", quantity_table(), &Whole::quantities)
        .rows("convergence", convergence_table(),
              [](const Whole& w) -> const std::vector<Convergence>& { return w.fits; });
    return table;
  }();
  return all;
}

}  // namespace

const dataset::Schema& schema() {
  static const dataset::Schema schema("ladder", 4,
                                      {{"stack"},
                                       {"quantity", Type::text, "", "what is followed along the widths"},
                                       {"ladder_width", Type::integer, "1", "D"},
                                       {"inverse_width", Type::real, "1", "1/D"},
                                       {"convergence"},
                                       {"group", Type::integer, "1", "seeds averaged"}},
                                      whole_table().specs());
  return schema;
}

dataset::Dataset dataset_of(const stacks::LadderConfig& config, const stacks::LadderResult& result,
                            const std::vector<Convergence>& fits) {
  dataset::Builder builder(schema());
  const Values grid = curve_grid(result.widths);
  const Whole whole{config, result, fits, grid};
  builder.put("ladder_width", result.widths);
  builder.put("inverse_width", grid);
  std::vector<std::string> names;
  for (const Followed& f : whole.quantities()) names.push_back(f.quantity.test.name());
  builder.put("quantity", names);
  std::vector<int> groups{1};
  for (const Convergence& c : fits) {
    while (groups.size() < c.noise.over.size()) groups.push_back(2 * groups.back());
  }
  builder.put("group", groups);
  whole_table().put(whole, builder.row());
  return builder.finish();
}

}  // namespace periscope::ladder
