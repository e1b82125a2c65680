#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "experiments/engine/result/curves.h"
#include "experiments/engine/result/table.h"
#include "experiments/studies/first_steps/report.h"
#include "sim/measure/probe.h"

namespace periscope::first_steps {
namespace {

using dataset::Builder;
using dataset::Table;
using dataset::Type;
using Values = std::vector<double>;

const std::string on_stack = "placement";
const std::string on_step = "placement step";

/// A step of a stack: what was measured after it, and what was predicted, if anything was.
struct Step {
  const StackSteps& stack;
  std::size_t number;
  [[nodiscard]] const MeasuredStep& measured() const { return stack.measured[number]; }
  [[nodiscard]] const theory::StepReading* predicted() const {
    return number < stack.prediction.steps.size() ? &stack.prediction.steps[number] : nullptr;
  }
};

/// The matrix `weight` at a step: every curve of it is over the layers.
struct Update {
  const Step& step;
  Weight weight;
};

Curve predicted_curve(const Step& step, Curve theory::StepReading::*curve) {
  const theory::StepReading* predicted = step.predicted();
  return predicted == nullptr ? Curve() : predicted->*curve;
}

/// NAME_measured, NAME_stderr, NAME_predicted and NAME_predicted_stderr, of curves along `along` ("" of one number).
template <class S, class M, class P>
void add_both(Table<S>& table, const std::string& name, const std::string& dimensions, const std::string& units,
              const std::string& meaning, M measured, P predicted) {
  table
      .column({name + "_measured", dimensions, units, meaning + ": mean over seeds"},
              [measured](const S& s) { return measured(s).value; })
      .column({name + "_stderr", dimensions, units, meaning + ": standard error over seeds"},
              [measured](const S& s) { return measured(s).standard_error; })
      .column({name + "_predicted", dimensions, units, meaning + ": prediction (T28)"},
              [predicted](const S& s) { return predicted(s).value; })
      .column({name + "_predicted_stderr", dimensions, units, meaning + ": standard error of the prediction"},
              [predicted](const S& s) { return predicted(s).standard_error; });
}

Curve measured_update(const Update& u) {
  const auto found = u.step.measured().update.find(u.weight);
  return found == u.step.measured().update.end() ? Curve() : found->second.curve();
}

Curve predicted_update(const Update& u) {
  const theory::StepReading* predicted = u.step.predicted();
  if (predicted == nullptr) return {};
  const auto found = predicted->update.find(u.weight);
  return found == predicted->update.end() ? Curve() : found->second;
}

std::vector<std::pair<std::size_t, Update>> updates_of(const Step& step) {
  std::vector<std::pair<std::size_t, Update>> all;
  for (const Weight weight : layer_matrices) {
    const theory::StepReading* predicted = step.predicted();
    const bool there =
        step.measured().update.contains(weight) || (predicted != nullptr && predicted->update.contains(weight));
    if (there) all.push_back({dataset::weight_index(weight), {step, weight}});
  }
  return all;
}

Table<Update> update_table() {
  Table<Update> table;
  add_both(table, "update", on_step + " weight layer", "1",
           "mean square of an entry of (W - W_0) h, h what the matrix reads", measured_update, predicted_update);
  return table;
}

/// The cells of a verdict that are of one step.
void put_power(const Step& step, const Builder::Row& row) {
  for (const ComparedCell& cell : step.stack.verdict.cells) {
    if (cell.step != static_cast<int>(step.number) || cell.quantity == Quantity::update) continue;
    const std::string name(quantity_names[static_cast<std::size_t>(cell.quantity)]);
    const bool of_stream = cell.quantity == Quantity::second_moment || cell.quantity == Quantity::change;
    const std::string along = of_stream ? "depth" : cell.quantity == Quantity::branch_cosine ? "sublayer" : "";
    const Builder::Row at = along.empty() ? row : row.at(along, static_cast<std::size_t>(cell.place));
    at.put(name + "_power", cell.finding.power);
    at.put(name + "_allowance", cell.finding.allowance);
    at.put(name + "_excess", cell.finding.cell().excess());
  }
}

std::vector<dataset::ColumnSpec> power_columns() {
  std::vector<dataset::ColumnSpec> all;
  const auto add = [&](const std::string& name, const std::string& along, const std::string& words,
                       const std::string& units) {
    const auto one = [&](const std::string& suffix, const std::string& meaning, const std::string& in) {
      all.push_back({.name = name + "_" + suffix,
                     .dimensions = along.empty() ? on_step : on_step + " " + along,
                     .type = Type::real,
                     .units = in,
                     .meaning = words + ": " + meaning});
    };
    one("power", "error that would have been rejected with 95 % probability (T22), relative to its scale", "1");
    one("allowance", "what measured - predicted may be for free", units);
    one("excess", "standard errors beyond the allowance", "1");
  };
  add("second_moment", "depth", "second moment of the stream before training", "1");
  add("change", "depth", "change of the stream's second moment since step 0", "1");
  add("branch_cosine", "sublayer", "cosine of branch and stream", "1");
  add("loss", "", "change of the loss since step 0", "nat");
  return all;
}

Table<Step> step_table() {
  using S = Step;
  using R = theory::StepReading;
  Table<S> table;
  const auto predicted = [](Curve R::*curve) { return [curve](const S& s) { return predicted_curve(s, curve); }; };
  add_both(
      table, "second_moment", on_step + " depth", "1", "second moment of the stream",
      [](const S& s) { return s.measured().second_moment.curve(); }, predicted(&R::second_moment));
  add_both(
      table, "change", on_step + " depth", "1", "second moment of the stream less that of step 0",
      [](const S& s) { return s.measured().change.curve(); }, predicted(&R::change));
  table
      .column({"coherent_predicted", on_step + " depth", "1",
               "part of the stream's second moment that follows the gradients: prediction (T28)"},
              [](const S& s) { return predicted_curve(s, &R::coherent).value; })
      .column({"coherent_predicted_stderr", on_step + " depth", "1",
               "part of the stream's second moment that follows the gradients: standard error of the prediction"},
              [](const S& s) { return predicted_curve(s, &R::coherent).standard_error; });
  add_both(
      table, "branch_cosine", on_step + " sublayer", "1", "cosine of branch and stream, from means over tokens",
      [](const S& s) { return s.measured().branch_cosine.curve(); }, predicted(&R::branch_cosine));
  add_both(
      table, "branch_second_moment", on_step + " sublayer", "1", "second moment of the branch",
      [](const S& s) { return s.measured().branch_second_moment.curve(); }, predicted(&R::branch_second_moment));
  add_both(
      table, "loss", on_step, "nat", "cross-entropy on the held-out windows",
      [](const S& s) { return s.measured().loss.curve(); }, predicted(&R::loss));
  add_both(
      table, "loss_change", on_step, "nat", "cross-entropy on the held-out windows less that of step 0",
      [](const S& s) { return s.measured().loss_change.curve(); }, predicted(&R::loss_change));
  table
      .column_if_any(
          {"kept_share", on_step, "1",
           "least correlation, over modules, of what one reads with what the same token was before training"},
          [](const S& s) {
            return s.predicted() == nullptr ? std::optional<double>() : std::optional(s.predicted()->kept_share);
          })
      .family(power_columns(), put_power)
      .rows_at("weight", update_table(), updates_of);
  return table;
}

/// The power of a verdict's cells of one quantity.
Table<StepsPower> power_table() {
  using P = StepsPower;
  const std::string each = on_stack + " quantity";
  const std::string hidden = "error that would have been rejected with 95 % probability (T22)";
  Table<P> table;
  table.column({"quantity_power_worst", each, "1", hidden + ": worst cell of a quantity"}, &P::worst)
      .column({"quantity_power_median", each, "1", hidden + ": median over a quantity's cells"}, &P::median)
      .column({"quantity_power_limit", each, "1", "what that may be in an agreement"}, &P::limit);
  return table;
}

std::vector<std::pair<std::size_t, StepsPower>> powers_of(const StackSteps& s) {
  std::vector<std::pair<std::size_t, StepsPower>> all;
  for (std::size_t q = 0; q < quantity_names.size() && !s.verdict.cells.empty(); ++q) {
    const auto is_of = [q](const ComparedCell& cell) { return cell.quantity == static_cast<Quantity>(q); };
    if (std::ranges::none_of(s.verdict.cells, is_of)) continue;
    all.emplace_back(q, power_of(s.verdict.cells, static_cast<Quantity>(q)));
  }
  return all;
}

/// The cell that decides a verdict.
Table<ComparedCell> worst_table() {
  using C = ComparedCell;
  Table<C> table;
  table.column({"worst_cell", on_stack, "", "cell that decides: its name"}, &C::name)
      .column({"worst_measured", on_stack, "1", "cell that decides: measured"},
              [](const C& c) { return c.finding.measured.value; })
      .column({"worst_predicted", on_stack, "1", "cell that decides: predicted"},
              [](const C& c) { return c.finding.predicted.value; })
      .column({"worst_excess", on_stack, "1", "cell that decides: standard errors beyond its allowance"},
              [](const C& c) { return c.finding.cell().excess(); })
      .column({"worst_critical", on_stack, "1", "cell that decides: where it would be rejected"},
              [](const C& c) { return c.finding.critical; });
  return table;
}

const Table<StackSteps>& stack_table() {
  using S = StackSteps;
  static const Table<S> all = [] {
    Table<S> table;
    const auto power = [](double StepsPower::*value) {
      return [value](const S& s) {
        return s.verdict.cells.empty() ? std::optional<double>() : std::optional(power_of(s.verdict.cells).*value);
      };
    };
    table
        .column({"verdict", on_stack, "", "agreement with theory at the steps that it holds for"},
                [](const S& s) { return judge::name_of(s.verdict.verdict); })
        .column({"verdict_reason", on_stack, "", "why it was not checked, or is inconclusive"},
                [](const S& s) { return s.verdict.reason; })
        .column({"refusal", on_stack, "", "why there is no prediction"},
                [](const S& s) { return s.prediction.refusal; })
        .column_if_any({"holds_until", on_stack, "1",
                        "last step for which the theory is valid by its own estimate; later predictions are wrong"},
                       [](const S& s) {
                         return s.prediction.refusal.empty() ? std::optional(s.prediction.holds_until) : std::nullopt;
                       })
        .column({"stopped_by", on_stack, "", "the term of the theory that ends it there"},
                [](const S& s) { return s.prediction.stopped_by; })
        .column({"rejected", on_stack, "1", "cells that reject theory"}, [](const S& s) { return s.verdict.rejected; })
        .column_if_any({"power_worst", on_stack, "1",
                        "error that would have been rejected with 95 % probability (T22): the cell that could hide "
                        "the largest"},
                       power(&StepsPower::worst))
        .column_if_any({"power_median", on_stack, "1",
                        "error that would have been rejected with 95 % probability (T22): median over cells"},
                       power(&StepsPower::median))
        .part(worst_table(),
              [](const S& s) {
                return s.verdict.worst < 0 ? nullptr : &s.verdict.cells[static_cast<std::size_t>(s.verdict.worst)];
              })
        .rows_at("quantity", power_table(), powers_of)
        .rows("step", step_table(), [](const S& s) {
          std::vector<Step> steps;
          for (std::size_t i = 0; i < s.measured.size(); ++i) steps.push_back({s, i});
          return steps;
        });
    return table;
  }();
  return all;
}

}  // namespace

const dataset::Schema& schema() {
  static const dataset::Schema schema = [] {
    std::vector<dataset::DimensionSpec> dimensions{{"placement", Type::text, "", "normalization placement (T1)"},
                                                   {"step", Type::integer, "1", "steps done"},
                                                   {"quantity", Type::text, "", "what a verdict compares"}};
    std::ranges::move(dataset::curve_dimensions(), std::back_inserter(dimensions));
    std::vector<dataset::ColumnSpec> columns = stack_table().specs();
    std::ranges::copy(dataset::sublayer_labels(), std::back_inserter(columns));
    columns.push_back(dataset::placement_settings());
    return dataset::Schema("first_steps", 1, std::move(dimensions), std::move(columns));
  }();
  return schema;
}

dataset::Dataset dataset_of(const FirstStepsConfig& config, const FirstStepsResult& result) {
  Builder builder(schema());
  builder.count("step", static_cast<std::size_t>(config.train.steps) + 1);
  builder.put("quantity", quantity_names);
  std::size_t depths = config.base.model.depths();
  for (const StackSpec& stack : config.stacks()) depths = std::max(depths, stack.model.depths());
  dataset::put_curve_coordinates(builder, config.base.model, depths, 0, dataset::weights_of_curves(config.stacks()));
  for (std::size_t i = 0; i < result.stacks.size(); ++i) {
    const StackSteps& stack = result.stacks[i];
    dataset::put_placement(builder, i, config::placement_label(stack.spec), stack.spec.settings);
    stack_table().put(stack, builder.at("placement", i));
  }
  return builder.finish();
}

}  // namespace periscope::first_steps
