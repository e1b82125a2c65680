#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/spec/model_spec.h"
#include "sim/spec/weight.h"

namespace periscope::verify {

struct Parameter {
  std::size_t cols = 1;
  std::vector<double> values;

  [[nodiscard]] std::size_t rows() const { return cols == 0 ? 0 : values.size() / cols; }
};

/// The dimensions that parameters share: dropping a feature drops a column of x and a row of W2.
enum class Dimension { one, token, feature, unit, word };

inline constexpr int mlp_sublayer = 1;

/// The description of one parameter of a case.
struct ParameterKind {
  std::string_view name;
  Dimension rows = Dimension::one, cols = Dimension::one;
  double plain = 0.0;                      ///< simplest value
  bool optional = false;                   ///< without it, the case lacks this norm, bias, gate or unembedding
  std::size_t count = 0;                   ///< allowed values are the integers 0 … count − 1; 0: any real number
  std::string_view needs = {};             ///< parameter that must exist if this parameter exists
  std::optional<ParameterId> weight = {};  ///< stack weight that `evaluate` sets to this parameter

  static constexpr std::size_t classes = SIZE_MAX;  ///< a `count` equal to the loss's number of classes
};
std::span<const ParameterKind> parameter_kinds();

/// One case of `verify`: all numbers of an MLP sublayer, and the loss. x⁺ = C(αx + βB(a)) with a = W2 h + b2, h the
/// hidden activation of A(x); then the final norm and the unembedding U if they have parameters, then cross-entropy,
/// mean over tokens.
struct BoundCase {
  std::map<std::string, Parameter, std::less<>> parameters;  ///< by ParameterKind::name

  /// Returns an empty span for a missing parameter.
  [[nodiscard]] std::span<const double> values(std::string_view name) const;
  [[nodiscard]] double number(std::string_view name) const { return values(name)[0]; }
  [[nodiscard]] bool has(std::string_view name) const { return parameters.contains(name); }
  void set(std::string_view name, std::vector<double> values, int cols = 1) {
    parameters[std::string(name)] = {static_cast<std::size_t>(cols), std::move(values)};
  }

  [[nodiscard]] std::size_t size(Dimension dimension) const;
  [[nodiscard]] int width() const { return static_cast<int>(size(Dimension::feature)); }
  [[nodiscard]] int units() const { return static_cast<int>(size(Dimension::unit)); }
  [[nodiscard]] int tokens() const { return static_cast<int>(size(Dimension::token)); }
  /// Returns the dimension of the loss's classes: words of the unembedding, or features without unembedding.
  [[nodiscard]] Dimension class_dimension() const { return has("unembedding") ? Dimension::word : Dimension::feature; }
  [[nodiscard]] int classes() const { return static_cast<int>(size(class_dimension())); }
  [[nodiscard]] std::vector<int> labels() const;
  [[nodiscard]] NormKind norm() const { return static_cast<NormKind>(number("norm")); }
  [[nodiscard]] MlpKind mlp() const { return static_cast<MlpKind>(number("mlp")); }
  [[nodiscard]] SublayerRule rule() const;
  /// Returns a model of one layer, of which only the MLP (sublayer `mlp_sublayer`) is used.
  [[nodiscard]] ModelSpec model() const;
};

/// Placements for which the bounds are stated.
inline constexpr SublayerRule pre{.norm_a = true}, peri{.norm_a = true, .norm_b = true}, post{.norm_c = true};

/// Returns a ReLU sublayer with RMSNorms of ε = 0 and gain 1, α and β of `rule`, and label 0. x, W1 and W2 are missing.
BoundCase plain_case(const SublayerRule& rule, int width);

/// Returns why `c` is not a valid case ("KEY: expected …"); nullopt if it is valid.
std::optional<std::string> defect_of(const BoundCase& c);

/// Writes every parameter as a list of rows.
nlohmann::ordered_json case_json(const BoundCase& c);
/// Throws InputError naming `file` and the parameter.
BoundCase case_from_json(const nlohmann::ordered_json& json, const std::string& file);

/// Draws a sublayer: its shape (width, hidden width 1 … 64, 1 … 4 tokens), kinds of norm and MLP, and magnitudes.
BoundCase generate_case(std::uint64_t seed, std::uint32_t id);

/// Requires `fails(c)`. Returns a simpler case that still fails: fewer parameters, tokens, units, words and features,
/// simpler numbers. Calls `fails` at most `budget` times.
BoundCase shrink(BoundCase c, const std::function<bool(const BoundCase&)>& fails, int budget = 20000);

}  // namespace periscope::verify
