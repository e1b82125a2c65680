#include <algorithm>
#include <iterator>

#include "experiments/engine/judge/verdict_columns.h"
#include "experiments/engine/result/curves.h"
#include "experiments/engine/result/table.h"
#include "experiments/studies/first_steps/first_steps.h"
#include "sim/measure/probe.h"

namespace periscope::first_steps {
namespace {

using dataset::Table;
using dataset::Type;

const std::string on_stack = "placement";
const std::string on_step = "placement step";

/// A measured value and its prediction.
template <class T>
struct Both {
  T measured, predicted;
};
using Step = Both<const theory::StepReading&>;

/// Adds the measured and the predicted curve and their standard errors, with the prefix `name`. `of` selects the curve.
template <class S, class Of>
void add_both(Table<S>& table, const std::string& name, const std::string& dimensions, const std::string& units,
              const std::string& meaning, Of of) {
  table
      .curve({name + "_measured", dimensions, units, meaning + ": mean over seeds"},
             {name + "_stderr", dimensions, units, meaning + ": standard error over seeds"},
             [of](const S& s) { return &std::invoke(of, s.measured); })
      .curve({name + "_predicted", dimensions, units, meaning + ": prediction (T28)"},
             {name + "_predicted_stderr", dimensions, units, meaning + ": standard error of the prediction"},
             [of](const S& s) { return &std::invoke(of, s.predicted); });
}

/// Returns the measured and predicted updates, curves over layers, by matrix index.
std::map<std::size_t, Both<Curve>> updates_of(const Step& step) {
  std::map<std::size_t, Both<Curve>> all;
  for (const auto& [weight, curve] : step.measured.update) all[dataset::weight_index(weight)].measured = curve;
  for (const auto& [weight, curve] : step.predicted.update) all[dataset::weight_index(weight)].predicted = curve;
  return all;
}

Table<Step> step_table() {
  using R = theory::StepReading;
  Table<Step> table;
  const auto add = [&](const std::string& name, const std::string& along, const std::string& units,
                       const std::string& meaning,
                       Curve R::*curve) { add_both(table, name, on_step + along, units, meaning, curve); };
  add("second_moment", " depth", "1", "second moment of the stream", &R::second_moment);
  add("change", " depth", "1", "second moment of the stream minus its value at step 0", &R::change);
  add("branch_cosine", " sublayer", "1", "cosine of branch and stream, from means over tokens", &R::branch_cosine);
  add("branch_second_moment", " sublayer", "1", "second moment of the branch", &R::branch_second_moment);
  add("loss", "", "nat", "cross-entropy on the held-out windows", &R::loss);
  add("loss_change", "", "nat", "cross-entropy on the held-out windows minus its value at step 0", &R::loss_change);
  const std::string coherent = "part of the stream's second moment along the gradients: ";
  table.curve({"coherent_predicted", on_step + " depth", "1", coherent + "prediction (T28)"},
              {"coherent_predicted_stderr", on_step + " depth", "1", coherent + "standard error of the prediction"},
              [](const Step& s) { return &s.predicted.coherent; });
  Table<Both<Curve>> update;
  add_both(update, "update", on_step + " weight layer", "1",
           "mean square of an entry of (W - W_0) h, h being the matrix's input", std::identity());
  table.rows_at("weight", update, updates_of);
  return table;
}

std::vector<Step> steps_of(const StackSteps& s) {
  static const theory::StepReading none;
  const std::vector<theory::StepReading>& predicted = s.prediction.steps;
  std::vector<Step> steps;
  for (std::size_t i = 0; i < s.measured.size(); ++i) {
    steps.push_back({s.measured[i], i < predicted.size() ? predicted[i] : none});
  }
  return steps;
}

Table<StackSteps> stack_table() {
  using S = StackSteps;
  Table<S> table;
  table
      .part(judge::verdict_columns("", on_stack, "verdict over the steps for which the theory is valid"),
            [](const S& s) { return &s.verdict; })
      .column({"unsupported", on_stack, "", "why there is no prediction"},
              [](const S& s) { return s.prediction.unsupported; })
      .column_if_any({"holds_until", on_stack, "1",
                      "last step for which the theory is valid by its own estimate; later predictions are not valid"},
                     [](const S& s) {
                       return s.prediction.unsupported.empty() ? std::optional(s.prediction.holds_until) : std::nullopt;
                     })
      .column({"stopped_by", on_stack, "", "term of the theory that is invalid after that step"},
              [](const S& s) { return s.prediction.stopped_by; })
      .rows("step", step_table(), steps_of);
  return table;
}

}  // namespace

const dataset::Schema& schema() {
  static const dataset::Schema schema = [] {
    std::vector<dataset::DimensionSpec> dimensions{{"placement", Type::text, "", "normalization placement (T1)"},
                                                   {"step", Type::integer, "1", "steps done"}};
    std::ranges::move(dataset::curve_dimensions(), std::back_inserter(dimensions));
    std::vector<dataset::ColumnSpec> columns = stack_table().specs();
    std::ranges::copy(dataset::sublayer_labels(), std::back_inserter(columns));
    columns.push_back(dataset::placement_settings());
    return dataset::Schema("first_steps", 2, std::move(dimensions), std::move(columns));
  }();
  return schema;
}

dataset::Dataset dataset_of(const FirstStepsConfig& config, const FirstStepsResult& result) {
  dataset::Builder builder(schema());
  builder.count("step", static_cast<std::size_t>(config.train.steps) + 1);
  dataset::put_curve_coordinates(builder, config.stacks(), 0);
  for (std::size_t i = 0; i < result.stacks.size(); ++i) {
    const StackSteps& stack = result.stacks[i];
    dataset::put_placement(builder, i, config::placement_label(stack.spec), stack.spec.settings);
    stack_table().put(stack, builder.at("placement", i));
  }
  return builder.finish();
}

}  // namespace periscope::first_steps
