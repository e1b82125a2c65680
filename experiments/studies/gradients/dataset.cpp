#include <algorithm>
#include <cmath>

#include "experiments/engine/judge/verdict_columns.h"
#include "experiments/engine/result/curves.h"
#include "experiments/studies/gradients/common.h"
#include "sim/base/mapped.h"

namespace periscope::gradients {
namespace {

using dataset::ColumnSpec;

/// Returns the value with that name, or nullptr.
template <class T>
const T* find(const std::map<std::string, T>& values, const std::string& name) {
  const auto it = values.find(name);
  return it == values.end() ? nullptr : &it->second;
}

/// Adds the columns curve.name + `values` and curve.name + `errors` from one `side` of a case's tests: measured or
/// predicted. Drops trailing NaNs, which pad the shorter side.
void add_curve(Columns& columns, const ColumnSpec& curve, const std::string& values, const std::string& errors,
               const std::string& meaning, judge::Estimate judge::Test::*side) {
  const auto text = [&](const std::string& suffix, const std::string& words) {
    return ColumnSpec{curve.name + suffix, curve.dimensions, curve.units, curve.meaning + ": " + words};
  };
  columns.curve(text(values, meaning), text(errors, "standard error of the " + meaning),
                [name = curve.name, side](const Case& c) {
                  const std::vector<judge::Test>* tests = find(c.tests, name);
                  std::vector<judge::Estimate> entries;
                  if (tests != nullptr) entries = mapped(*tests, side);
                  while (!entries.empty() && std::isnan(entries.back().value)) entries.pop_back();
                  return std::optional(judge::curve_of(entries));
                });
}

void put_coordinate(const std::string& dimension, const GradientConfig& config, dataset::Builder& builder) {
  const ModelSpec& model = config.base.model;
  const auto layers = static_cast<std::size_t>(model.layers);
  if (dimension == "layer") builder.count("layer", layers);
  if (dimension == "layers_passed") builder.count("layers_passed", layers + 1);
  if (dimension == "depth") builder.count("depth", static_cast<std::size_t>(model.sublayers()) + 1);
  if (dimension == "sublayer") dataset::put_sublayers(builder, model);
  if (dimension == "layers") builder.put("layers", config.layers);
  if (dimension == "theory_layers") builder.put("theory_layers", theory_layers(config));
  if (dimension == "down_factor") builder.put("down_factor", config.down_factors);
}

bool is_rejected(const Case& c) {
  // Negated, so that a NaN error violates the identity too.
  const bool broken = c.has_gradient && !(c.identity_error <= c.identity_bound);
  return broken || std::ranges::any_of(c.tests, [](const auto& named) {
           return named.first != control_tests && std::ranges::any_of(named.second, judge::disagrees);
         });
}

}  // namespace

Columns columns_of(const std::string& row) {
  Columns columns;
  columns
      .column({"placement", row, "", "normalization placement (T1)"},
              [](const Case& c) { return config::placement_label(c.spec); })
      .column({"unsupported", row, "", "why there is no prediction"}, &Case::unsupported);
  return columns;
}

void add_measured(Columns& columns, const ColumnSpec& curve) {
  add_curve(columns, curve, "_measured", "_stderr", "mean over seeds", &judge::Test::measured);
}

void add_predicted(Columns& columns, const ColumnSpec& curve) {
  add_curve(columns, curve, "_predicted", "_predicted_stderr", "prediction", &judge::Test::predicted);
}

void add_compared(Columns& columns, const ColumnSpec& curve) {
  add_measured(columns, curve);
  add_predicted(columns, curve);
}

void add_test(Columns& columns, const ColumnSpec& test) {
  const auto deciding = [name = test.name](const Case& c) { return std::optional(c.test(name)); };
  columns.part(judge::test_columns(test.name, test.dimensions, test.units, test.meaning), deciding)
      .part(judge::verdict_column(test.name + "_verdict", test.dimensions, "verdict on the theory: " + test.meaning),
            deciding);
}

void add_verdict(Columns& columns, const std::string& name, const std::string& tests, const std::string& row,
                 const std::string& question) {
  columns.part(judge::verdict_column(name, row, question),
               [tests](const Case& c) { return std::optional(c.test(tests)); });
}

void add_claim(Columns& columns, const std::string& name, const std::string& row, const std::string& units) {
  const auto add = [&](const std::string& suffix, const std::string& of_column, const std::string& meaning,
                       auto value) {
    columns.column({name + suffix, row, of_column, meaning}, [name, value](const Case& c) {
      const judge::Claim* claim = find(c.claims, name);
      return claim == nullptr ? std::nullopt : std::optional(value(*claim));
    });
  };
  add("", "", "claim of the literature about this placement", [](const judge::Claim& c) { return c.id; });
  add("_number", units, "claimed number", [](const judge::Claim& c) { return c.claimed; });
  add("_verdict", "", "verdict on the claim", [](const judge::Claim& c) { return judge::name_of(c.verdict); });
}

study::Outcome outcome_of(const Experiment& experiment, const GradientConfig& config, const Result& result) {
  dataset::Builder builder(experiment.schema);
  for (const auto& dimension : experiment.schema.dimensions()) put_coordinate(dimension.name, config, builder);
  for (const auto& [column, text] : result.texts) builder.put(column, text);
  const std::string& row = experiment.schema.dimensions().front().name;
  for (std::size_t i = 0; i < result.cases.size(); ++i) experiment.columns.put(result.cases[i], builder.at(row, i));
  return {.data = builder.finish(),
          .table = experiment.table(config, result),
          .code = study::code_of(std::ranges::none_of(result.cases, is_rejected))};
}

std::string claim_words(const Case& c, const std::string& name, const char* format) {
  const judge::Claim* claim = find(c.claims, name);
  if (claim == nullptr) return "-";
  return claim->id + ": " + judge::number_or_dash(claim->claimed, format) + ": " +
         std::string(judge::name_of(claim->verdict));
}

}  // namespace periscope::gradients
