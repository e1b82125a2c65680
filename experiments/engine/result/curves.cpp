#include "experiments/engine/result/curves.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "sim/base/mapped.h"

namespace periscope::dataset {
namespace {

/// Number of matrices that every layer has, q … down; the optional attention gate is the last of layer_matrices.
constexpr std::size_t ungated_count = layer_matrices.size() - 1;
static_assert(layer_matrices[ungated_count] == Weight::attention_gate);
/// Coordinates of the dimension `site`.
constexpr std::array sites{Signal::x_in, Signal::A_out, Signal::f_out, Signal::B_out, Signal::sum};
constexpr std::array weight_statistics{Statistic::grad_sq, Statistic::log_grad_sq};

/// Returns the coordinates of the dimension `weight`: the matrices of a layer and, if present, the attention gate.
std::span<const Weight> weights_of_curves(const std::vector<StackSpec>& stacks) {
  const bool gated = std::ranges::any_of(stacks, [](const StackSpec& spec) {
    int layer = 0;
    while (layer < spec.model.layers && spec.model.gates_at(layer) == 0) ++layer;
    return layer < spec.model.layers;
  });
  return std::span(layer_matrices).first(ungated_count + (gated ? 1 : 0));
}

}  // namespace

std::vector<ColumnSpec> sublayer_labels() {
  return {{"sublayer_layer", "sublayer", "1", "layer of a sublayer, from 0", Type::integer, true},
          {"sublayer_kind", "sublayer", "", "module of a sublayer: attention or mlp", Type::text, true},
          {"sublayer_branch", "sublayer", "1", "index of a branch among the parallel branches of its step",
           Type::integer, true}};
}

void put_sublayers(Builder& result, const ModelSpec& model) {
  result.count("sublayer", static_cast<std::size_t>(model.sublayers()));
  for (int s = 0; s < model.sublayers(); ++s) {
    const Builder::Row row = result.at("sublayer", static_cast<std::size_t>(s));
    row.put("sublayer_layer", ModelSpec::layer_of(s));
    row.put("sublayer_kind", ModelSpec::is_attention(s) ? "attention" : "mlp");
    const Step step = model.step(model.step_with(s));
    row.put("sublayer_branch", std::ranges::find(step.branches, s, &Branch::sublayer) - step.branches.begin());
  }
}

ColumnSpec placement_settings() {
  return {"placement_settings", "placement", "", "keys in which this stack differs from the others, as JSON",
          Type::text};
}

void put_placement(Builder& result, std::size_t index, const std::string& label, const std::string& settings) {
  const Builder::Row row = result.at("placement", index);
  row.put("placement", label);
  if (!settings.empty()) row.put("placement_settings", settings);
}

std::size_t weight_index(Weight weight) {
  return static_cast<std::size_t>(std::ranges::find(layer_matrices, weight) - layer_matrices.begin());
}

void put_square(const Builder::Row& row, const std::string& column, const std::vector<double>& values) {
  const auto side = static_cast<std::size_t>(std::lround(std::sqrt(static_cast<double>(values.size()))));
  for (std::size_t depth = 0; depth < side; ++depth) {
    const auto first = values.begin() + static_cast<std::ptrdiff_t>(depth * side);
    row.at("depth", depth).put(column, std::vector(first, first + static_cast<std::ptrdiff_t>(side)));
  }
}

std::vector<DimensionSpec> curve_dimensions() {
  return {{"depth", Type::integer, "1", "number of additions to the stream so far; 0 is the stack's input"},
          {"other_depth", Type::integer, "1", "depth of the second stream of a pair"},
          {"site", Type::text, "", "signal in the dataflow of a sublayer (T1); sum is the input of norm C"},
          {"sublayer", Type::integer, "1", "sublayer index, from 0, in the order of the stream"},
          {"rank", Type::integer, "1", "rank by magnitude, from 1"},
          {"weight", Type::text, "", "matrix of a layer"},
          {"layer", Type::integer, "1", "layer index, from 0; a layer consists of attention and MLP"}};
}

void put_curve_coordinates(Builder& result, const std::vector<StackSpec>& stacks, std::size_t ranks) {
  const auto name = [](const auto& one) { return name_of(one); };
  const auto layers = [](const StackSpec& stack) { return stack.model.layers; };
  const auto depths_of = [](const StackSpec& stack) { return stack.model.depths(); };
  const std::size_t depths = depths_of(*std::ranges::max_element(stacks, {}, depths_of));
  const ModelSpec& deepest = std::ranges::max_element(stacks, {}, layers)->model;
  result.count("depth", depths);
  result.count("other_depth", depths);
  result.put("site", mapped(sites, name));
  put_sublayers(result, deepest);
  result.count("rank", ranks, 1);
  result.put("weight", mapped(weights_of_curves(stacks), name));
  result.count("layer", static_cast<std::size_t>(deepest.layers));
}

std::vector<ColumnSpec> curve_columns(const std::string& leading, const std::vector<CurveVersion>& versions) {
  std::vector<ColumnSpec> all = sublayer_labels();
  const auto add = [&](Statistic statistic, const std::string& prefix, const std::string& dimensions,
                       const std::string& words) {
    for (const CurveVersion& v : versions) {
      all.push_back({.name = fmt::format("{}{}_{}", prefix, name_of(statistic), v.suffix),
                     .dimensions = leading.empty() ? dimensions : fmt::format("{} {}", leading, dimensions),
                     .units = std::string(v.units.empty() ? units_of(statistic) : v.units),
                     .meaning = fmt::format("{} {}: {}", name_of(statistic), words, v.meaning)});
    }
  };
  for (std::size_t s = 0; s < statistic_facts.size(); ++s) {
    const auto statistic = static_cast<Statistic>(s);
    add(statistic, "", "depth", "of the stream");
    add(statistic, "r_out_", "depth", "of ResiDual's second stream");
    add(statistic, "site_", "site sublayer", "at every site of every sublayer");
  }
  for (const Statistic statistic : weight_statistics) add(statistic, "weight_", "weight layer", "of every matrix");
  return all;
}

std::size_t branches_of(const ModelSpec& model) { return static_cast<std::size_t>(model.sublayers() / model.steps()); }

Builder::Row curve_row(const Builder::Row& row, Signal signal) {
  if (runs_over_depth(signal)) return row;
  const auto site = std::ranges::find(sites, signal);
  return row.at("site", static_cast<std::size_t>(site - sites.begin()));
}

void put_curve(const Builder::Row& row, Statistic statistic, CurvePlace place, const std::string& version,
               const std::vector<double>& values, std::size_t branches) {
  std::string name = text_of(statistic) + "_" + version;
  if (const Weight* weight = std::get_if<Weight>(&place)) {
    return row.at("weight", weight_index(*weight)).put("weight_" + name, values);
  }
  const Signal signal = std::get<Signal>(place);
  if (signal != Signal::x_out) name = (runs_over_depth(signal) ? text_of(signal) : "site") + "_" + name;
  if (signal != Signal::sum) return curve_row(row, signal).put(name, values);
  std::vector<double> of_sublayers((values.size() - 1) * branches, std::numeric_limits<double>::quiet_NaN());
  for (std::size_t i = 1; i < values.size(); ++i) of_sublayers[i * branches - 1] = values[i];
  curve_row(row, signal).put(name, of_sublayers);
}

}  // namespace periscope::dataset
