#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "experiments/engine/judge/verdict_columns.h"
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

/// The tests of a verdict that are of one step.
void put_power(const Step& step, const Builder::Row& row) {
  for (const judge::Test& test : step.stack.verdict.tests) {
    if (test.step != static_cast<int>(step.number) || test.quantity == "update") continue;
    const bool of_stream = test.quantity == "second_moment" || test.quantity == "change";
    const std::string along = of_stream ? "depth" : test.quantity == "branch_cosine" ? "sublayer" : "";
    const Builder::Row at = along.empty() ? row : row.at(along, static_cast<std::size_t>(test.index));
    at.put(test.quantity + "_power", test.detectable);
    at.put(test.quantity + "_allowance", test.tolerated_bias);
    at.put(test.quantity + "_excess", test.excess());
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
    one("power", judge::detectable_words + ", relative to its scale", "1");
    one("allowance", "tolerated bias of measured - predicted", units);
    one("excess", "standard errors beyond the tolerated bias", "1");
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

std::vector<std::pair<std::size_t, judge::GroupPower>> powers_of(const StackSteps& s) {
  std::vector<std::pair<std::size_t, judge::GroupPower>> all;
  for (const judge::GroupPower& power : s.verdict.power.groups) {
    all.emplace_back(std::ranges::find(quantity_names, power.group) - quantity_names.begin(), power);
  }
  return all;
}

Table<judge::StackVerdict> worst_table() {
  using V = judge::StackVerdict;
  Table<V> table = judge::worst_columns(on_stack);
  table
      .column({"worst_measured", on_stack, "1", "test nearest to rejection: measured"},
              [](const V& v) { return v.worst_test().measured.value; })
      .column({"worst_predicted", on_stack, "1", "test nearest to rejection: predicted"},
              [](const V& v) { return v.worst_test().predicted.value; });
  return table;
}

const Table<StackSteps>& stack_table() {
  using S = StackSteps;
  static const Table<S> all = [] {
    Table<S> table;
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
        .part(worst_table(), [](const S& s) { return s.verdict.worst < 0 ? nullptr : &s.verdict; })
        .rows_at("quantity", judge::power_columns("quantity", on_stack + " quantity"), powers_of)
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
