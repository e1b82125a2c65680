#include "experiments/studies/verify/bound_case.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "sim/base/error.h"
#include "sim/base/mapped.h"
#include "sim/base/printable.h"

namespace periscope::verify {
namespace {

using Along = Dimension;

constexpr ParameterId mlp_matrix(Weight weight) { return matrix_id(0, weight); }
constexpr ParameterId norm_gain(Weight weight) { return gain_id(mlp_sublayer, weight); }

// clang-format off
constexpr ParameterKind all_kinds[] = {
    {.name = "mlp", .plain = static_cast<double>(MlpKind::relu), .count = mlp_kind_names.size()},
    {.name = "norm", .count = 2},  // T14 covers "rms" and "layer", the first of NormKind
    {.name = "norm_eps"},
    {.name = "alpha", .plain = 1.0},
    {.name = "beta", .plain = 1.0},
    {.name = "labels", .rows = Along::token, .count = ParameterKind::classes},
    {.name = "x", .rows = Along::token, .cols = Along::feature},
    {.name = "gate", .rows = Along::unit, .cols = Along::feature, .optional = true, .weight = mlp_matrix(Weight::gate)},
    {.name = "up", .rows = Along::unit, .cols = Along::feature, .weight = mlp_matrix(Weight::up)},
    {.name = "down", .rows = Along::feature, .cols = Along::unit, .weight = mlp_matrix(Weight::down)},
    {.name = "gate_bias", .rows = Along::unit, .optional = true, .needs = "gate", .weight = bias_of(mlp_matrix(Weight::gate))},
    {.name = "up_bias", .rows = Along::unit, .optional = true, .weight = bias_of(mlp_matrix(Weight::up))},
    {.name = "down_bias", .rows = Along::feature, .optional = true, .weight = bias_of(mlp_matrix(Weight::down))},
    {.name = "unembedding", .rows = Along::word, .cols = Along::feature, .optional = true, .weight = mlp_matrix(Weight::unembedding)},
    {.name = "norm_a.gain", .rows = Along::feature, .plain = 1.0, .optional = true, .weight = norm_gain(Weight::norm_a)},
    {.name = "norm_a.bias", .rows = Along::feature, .optional = true, .needs = "norm_a.gain", .weight = bias_of(norm_gain(Weight::norm_a))},
    {.name = "norm_b.gain", .rows = Along::feature, .plain = 1.0, .optional = true, .weight = norm_gain(Weight::norm_b)},
    {.name = "norm_b.bias", .rows = Along::feature, .optional = true, .needs = "norm_b.gain", .weight = bias_of(norm_gain(Weight::norm_b))},
    {.name = "norm_c.gain", .rows = Along::feature, .plain = 1.0, .optional = true, .weight = norm_gain(Weight::norm_c)},
    {.name = "norm_c.bias", .rows = Along::feature, .optional = true, .needs = "norm_c.gain", .weight = bias_of(norm_gain(Weight::norm_c))},
    {.name = "final_norm.gain", .rows = Along::feature, .plain = 1.0, .optional = true, .weight = norm_gain(Weight::final_norm)},
    {.name = "final_norm.bias", .rows = Along::feature, .optional = true, .needs = "final_norm.gain", .weight = bias_of(norm_gain(Weight::final_norm))},
};
// clang-format on
constexpr int most_features = 4096;

/// Returns the expectation that a parameter violates; "" if it is valid.
std::string defect_of(const BoundCase& c, const ParameterKind& kind) {
  const auto it = c.parameters.find(kind.name);
  if (it == c.parameters.end()) return kind.optional ? "" : "this parameter";
  if (!kind.needs.empty() && !c.has(kind.needs)) return fmt::format("none without {}", kind.needs);
  const Parameter& p = it->second;
  const std::size_t rows = c.size(kind.rows), cols = c.size(kind.cols);
  if (p.values.empty() || p.cols != cols || p.rows() != rows) {
    return fmt::format("shape [{}, {}], found [{}, {}]", rows, cols, p.rows(), p.cols);
  }
  const std::size_t count = kind.count == ParameterKind::classes ? c.size(c.class_dimension()) : kind.count;
  for (const double v : p.values) {
    if (!std::isfinite(v)) return "finite numbers";
    if (count > 0 && (v != std::floor(v) || v < 0.0 || v >= static_cast<double>(count))) {
      return fmt::format("integers from 0 to {}", count - 1);
    }
    if (kind.name == "norm_eps" && v < 0.0) return "a number of at least 0";
  }
  return "";
}

Parameter parameter_of(const nlohmann::ordered_json& json, const std::string& where) {
  std::vector<std::vector<double>> rows;
  try {
    json.get_to(rows);
  } catch (const nlohmann::json::exception&) {
    rows.clear();
  }
  const auto is_wrong = [&](const auto& row) { return row.empty() || row.size() != rows[0].size(); };
  if (rows.empty() || std::ranges::any_of(rows, is_wrong)) {
    throw InputError(where + "expected a list of rows of numbers, all of equal length");
  }
  Parameter p{.cols = rows[0].size(), .values = {}};
  for (const auto& row : rows) p.values.insert(p.values.end(), row.begin(), row.end());
  return p;
}

}  // namespace

std::span<const ParameterKind> parameter_kinds() { return all_kinds; }

std::span<const double> BoundCase::values(std::string_view name) const {
  const auto it = parameters.find(name);
  return it == parameters.end() ? std::span<const double>{} : std::span<const double>(it->second.values);
}

std::size_t BoundCase::size(Dimension dimension) const {
  // Parameters whose shapes define the sizes, by Dimension.
  constexpr std::array<std::string_view, 5> names{"", "x", "x", "down", "unembedding"};
  if (dimension == Along::one) return 1;
  const auto it = parameters.find(names[static_cast<std::size_t>(dimension)]);
  if (it == parameters.end()) return 0;
  return dimension == Along::feature || dimension == Along::unit ? it->second.cols : it->second.rows();
}

std::vector<int> BoundCase::labels() const {
  return mapped(values("labels"), [](double v) { return static_cast<int>(v); });
}

SublayerRule BoundCase::rule() const {
  return {.norm_a = has("norm_a.gain"),
          .norm_b = has("norm_b.gain"),
          .norm_c = has("norm_c.gain"),
          .alpha = number("alpha"),
          .beta = number("beta")};
}

ModelSpec BoundCase::model() const {
  ModelSpec m;
  m.layers = 1;
  m.width = m.head_dim = width();
  m.heads = m.kv_heads = 1;
  m.mlp = mlp();
  m.mlp_width = units();
  m.norm = norm();
  m.norm_eps = number("norm_eps");
  m.placement = custom_placement(rule());
  m.final_norm = has("final_norm.gain");
  m.unembedding = has("unembedding");
  m.rope = false;
  m.vocab = classes();
  return m;
}

BoundCase plain_case(const SublayerRule& rule, int width) {
  BoundCase c;
  for (const ParameterKind& kind : all_kinds) {
    if (kind.cols == Along::one && !kind.optional) c.set(kind.name, {kind.plain});
  }
  c.set("alpha", {rule.alpha});
  c.set("beta", {rule.beta});
  const std::vector<double> ones(static_cast<std::size_t>(width), 1.0);
  if (rule.norm_a) c.set("norm_a.gain", ones);
  if (rule.norm_b) c.set("norm_b.gain", ones);
  if (rule.norm_c) c.set("norm_c.gain", ones);
  return c;
}

std::optional<std::string> defect_of(const BoundCase& c) {
  for (const ParameterKind& kind : all_kinds) {
    const std::string expected = defect_of(c, kind);
    if (!expected.empty()) return fmt::format("{}: expected {}", kind.name, expected);
  }
  if (c.has("gate") != is_gated(c.mlp())) {
    return is_gated(c.mlp()) ? "gate: expected this parameter, as mlp is gated"
                             : "gate: expected none, as mlp is not gated";
  }
  const int fewest = subtracts_mean(c.norm()) ? 2 : 1;
  if (c.width() < fewest || c.width() > most_features) {
    return fmt::format("x: expected rows of {} to {} numbers", fewest, most_features);
  }
  return std::nullopt;
}

nlohmann::ordered_json case_json(const BoundCase& c) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (const ParameterKind& kind : all_kinds) {
    for (auto left = c.values(kind.name); !left.empty();) {
      const std::span<const double> row = left.first(c.parameters.find(kind.name)->second.cols);
      json[std::string(kind.name)].push_back(std::vector<double>(row.begin(), row.end()));
      left = left.subspan(row.size());
    }
  }
  return json;
}

BoundCase case_from_json(const nlohmann::ordered_json& json, const std::string& file) {
  if (!json.is_object()) throw InputError(file + ": expected a JSON object with a case");
  const auto names = mapped(all_kinds, &ParameterKind::name);
  BoundCase c;
  for (const auto& [name, value] : json.items()) {
    const std::string where = fmt::format("{}: {}: ", file, shortened(name));
    if (std::ranges::find(names, name) == names.end()) {
      throw InputError(fmt::format("{}no such parameter; expected one of {}", where, fmt::join(names, ", ")));
    }
    c.parameters.emplace(name, parameter_of(value, where));
  }
  if (const auto defect = defect_of(c)) throw InputError(fmt::format("{}: {}", file, *defect));
  return c;
}

}  // namespace periscope::verify
