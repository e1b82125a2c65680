#include <algorithm>
#include <stdexcept>

#include "experiments/engine/result/curves.h"
#include "experiments/studies/gradients/common.h"

namespace periscope::gradients {
namespace {

using dataset::ColumnText;

/// The value of that name, or none.
template <class T>
const T* find(const std::map<std::string, T>& values, const std::string& name) {
  const auto it = values.find(name);
  return it == values.end() ? nullptr : &it->second;
}

/// NAME_suffix, its meaning followed by `words`.
ColumnText version_of(const Entry& e, const std::string& suffix, const std::string& words) {
  return {e.name + "_" + suffix, e.dimensions, e.units, e.meaning + ": " + words};
}

/// Adds a curve, which may be shorter than its dimension is long.
void add_curve(Columns& table, const std::string& name, const ColumnText& values, const ColumnText& errors,
               std::map<std::string, Curve> Case::*curves) {
  table.curve(values, errors, [=](const Case& c) {
    const Curve* curve = find(c.*curves, name);
    return std::optional(curve == nullptr ? Curve() : *curve);
  });
}

void add_test(Columns& table, Entry e) {
  const auto number = [&](const std::string& suffix, const std::string& words, auto value) {
    table.column(version_of(e, suffix, words), [name = e.name, value](const Case& c) { return value(c.test(name)); });
  };
  using T = judge::Test;
  number("measured", "mean over seeds", [](const T& t) { return t.measured.value; });
  number("stderr", "standard error over seeds", [](const T& t) { return t.measured.error; });
  number("predicted", "prediction", [](const T& t) { return t.predicted.value; });
  number("predicted_stderr", "standard error of the prediction", [](const T& t) { return t.predicted.error; });
  number("power", "error that would have been rejected with 95 % probability (T22)",
         [](const T& t) { return t.detectable; });
  e.units.clear();
  number("verdict", "agreement with theory (T19)", [](const T& t) { return judge::name_of(t.verdict); });
  number("verdict_reason", "why it is inconclusive", [](const T& t) { return t.reason; });
}

void add(Columns& table, const Entry& e) {
  const ColumnText text{e.name, e.dimensions, e.units, e.meaning};
  switch (e.kind) {
    case Kind::compared:
      add(table, {Kind::measured, e.name, e.dimensions, e.units, e.meaning});
      return add(table, {Kind::predicted, e.name, e.dimensions, e.units, e.meaning});
    case Kind::measured:
      return add_curve(table, e.name, version_of(e, "measured", "mean over seeds"),
                       version_of(e, "stderr", "standard error over seeds"), &Case::measured);
    case Kind::predicted:
      return add_curve(table, e.name, version_of(e, "predicted", "prediction"),
                       version_of(e, "predicted_stderr", "standard error of the prediction"), &Case::predicted);
    case Kind::mean:
      return add_curve(table, e.name, text,
                       {e.name + "_stderr", e.dimensions, e.units, "its standard error over seeds"}, &Case::measured);
    case Kind::test: return add_test(table, e);
    case Kind::verdict:
      table.column(text, [name = e.name](const Case& c) { return judge::name_of(c.test(name).verdict); });
      table.column(version_of(e, "reason", "why it is inconclusive"),
                   [name = e.name](const Case& c) { return c.test(name).reason; });
      return;
    case Kind::claim:
      table.column(text, [name = e.name](const Case& c) {
        const judge::Claim* claim = find(c.claims, name);
        return claim == nullptr ? std::nullopt : std::optional(judge::name_of(claim->verdict));
      });
      return;
    case Kind::claim_id:
      table.column(text, [](const Case& c) { return c.claims.empty() ? "" : c.claims.begin()->second.id; });
      return;
    case Kind::claimed:
      table.column(text, [](const Case& c) {
        return c.claims.empty() ? std::nullopt : std::optional(c.claims.begin()->second.claimed);
      });
      return;
    case Kind::number:
      table.column(text, [name = e.name](const Case& c) {
        const double* number = find(c.numbers, name);
        return number == nullptr ? std::nullopt : std::optional(*number);
      });
  }
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

/// Throws std::logic_error for a key that no column's name begins with.
template <class T>
void require_columns(const Columns& columns, const std::map<std::string, T>& values) {
  for (const auto& named : values) {
    const std::string& name = named.first;
    const auto is_of = [&](const std::string& column) { return column == name || column.starts_with(name + "_"); };
    if (std::ranges::none_of(columns.specs(), is_of, &dataset::ColumnSpec::name))
      throw std::logic_error("gradients: no column for " + name);
  }
}

bool is_rejected(const Case& c) {
  // An error that is NaN breaks the identity too.
  const bool broken = c.numbers.contains("identity_error") && c.has_gradient &&
                      !(c.numbers.at("identity_error") <= c.numbers.at("identity_bound"));
  return broken || std::ranges::any_of(c.tests, [](const auto& named) {
           return named.first != control_tests && std::ranges::any_of(named.second, judge::disagrees);
         });
}

}  // namespace

Columns columns_of(const std::string& row, const std::vector<Entry>& entries) {
  Columns table;
  table
      .column({"placement", row, "", "normalization placement (T1)"},
              [](const Case& c) { return config::placement_label(c.spec); })
      .column({"refusal", row, "", "why there is no prediction"}, &Case::refusal);
  for (const Entry& entry : entries) add(table, entry);
  return table;
}

study::Outcome outcome_of(const Experiment& experiment, const GradientConfig& config, const Result& result) {
  dataset::Builder builder(experiment.schema);
  for (const auto& dimension : experiment.schema.dimensions()) put_coordinate(dimension.name, config, builder);
  for (const auto& [column, words] : result.facts) builder.put(column, words);
  const std::string& row = experiment.schema.dimensions().front().name;
  for (std::size_t i = 0; i < result.cases.size(); ++i) {
    const Case& c = result.cases[i];
    require_columns(experiment.columns, c.measured);
    require_columns(experiment.columns, c.predicted);
    require_columns(experiment.columns, c.tests);
    require_columns(experiment.columns, c.claims);
    require_columns(experiment.columns, c.numbers);
    experiment.columns.put(c, builder.at(row, i));
  }
  return {.data = builder.finish(),
          .table = experiment.table(config, result),
          .code = study::code_of(std::ranges::none_of(result.cases, is_rejected))};
}

std::string claim_words(const Case& c, const std::string& name, const char* format) {
  const judge::Claim* claim = find(c.claims, name);
  if (claim == nullptr) return "-";
  return claim->id + ": " + judge::shown(claim->claimed, format) + ": " + std::string(judge::name_of(claim->verdict));
}

}  // namespace periscope::gradients
