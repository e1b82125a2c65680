#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace periscope {

/// One sublayer's norms and scales (T1):  x⁺ = C( alpha·x + beta·B( f( input_gain·A(x) ) ) ),
/// where each of A, B, C is a norm if its flag is set and the identity otherwise.
struct SublayerRule {
  bool norm_a = false;
  bool norm_b = false;
  bool norm_c = false;
  double alpha = 1.0;
  double beta = 1.0;
  double input_gain = 1.0;

  bool operator==(const SublayerRule&) const = default;
};

/// The places where a stack puts its norms: a row of T1's table, or the free form {A, B, C, alpha, beta}.
struct Placement {
  std::string_view name;
  std::string_view norms;   ///< letters of T1, for people
  std::string_view scales;  ///< what alpha, beta, input_gain and the initialisation do, for people
  std::string_view used_by;
  bool final_norm = false;   ///< default of model.final_norm
  bool two_streams = false;  ///< ResiDual: r⁺ = r + f(x) beside the Post stream; output x_L + N(r_L)
  SublayerRule (*rule)(int layer, int layers) = nullptr;  ///< null for the free form
  double (*branch_init_gain)(int layers) = nullptr;       ///< factor on W_v, W_o, W_up, W_down; null: 1
  SublayerRule custom = {};

  /// Rule of both sublayers of `layer` (from 0) in a stack of `layers` layers.
  [[nodiscard]] SublayerRule at(int layer, int layers) const { return rule != nullptr ? rule(layer, layers) : custom; }
  [[nodiscard]] bool is_custom() const { return rule == nullptr; }
  /// A free form with a name of its own.
  [[nodiscard]] bool is_named_custom() const;
};

/// Every named placement, in the order of T1's table. This table is the only place that defines them.
std::span<const Placement> placement_table();

/// The row called `name`, now or formerly ("residual" is residual-dual's), or nothing.
std::optional<Placement> find_placement(std::string_view name);

/// The name of a free form that was given none.
inline constexpr std::string_view unnamed_placement = "custom";

/// The free form. Its final norm is on by default when the stream itself is never normalised (no C)
/// but the branches are (A or B), which is the rule that the named rows follow too.
/// `name` is what results call it; it is kept for as long as the program runs.
Placement custom_placement(const SublayerRule& rule, std::string_view name = unnamed_placement);

}  // namespace periscope
