#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "sim/base/enumerators.h"
#include "sim/spec/block.h"
#include "sim/spec/depth_expression.h"
#include "sim/spec/norm_kind.h"

namespace periscope {

enum class QkNorm { none, head, full };
enum class InnerNorm { none, o, down, both };
enum class AttentionGate { none, head, channel };

inline constexpr std::array<std::string_view, 3> qk_norm_names{"none", "head", "full"};
static_assert(are_names_of<QkNorm>(qk_norm_names));
inline constexpr std::array<std::string_view, 4> inner_norm_names{"none", "o", "down", "both"};
static_assert(are_names_of<InnerNorm>(inner_norm_names));
inline constexpr std::array<std::string_view, 3> attention_gate_names{"none", "head", "channel"};
static_assert(are_names_of<AttentionGate>(attention_gate_names));

/// The place of a sublayer, on which a rule may depend.
struct RulePlace {
  int layer = 0;   ///< from 0
  int layers = 1;  ///< L
  ModuleKind kind = ModuleKind::attention;
  int addition = 0;  ///< l, of the additions to the stream before this one: from 0 to 2L−1, of parallel blocks to L−1
};

/// How branches and streams are connected, apart from T1's rule of a sublayer (sim/spec/wiring.h).
enum class Wiring {
  sequential,    ///< attention, then the MLP, on one stream
  dual,          ///< ResiDual: r⁺ = r + f(x) beside the stream; output x_L + N(r_L)
  parallel,      ///< both modules of a layer read one stream, behind one norm A, and are added to it at once
  parallel_two,  ///< behind a norm A each
  span,          ///< SpanNorm: the MLP is added to what the layer's attention was added to
  first_input,   ///< nanochat: x ← r_l x + λ_l x_0 before every layer, x_0 the stack's input
  hyper,         ///< model.streams streams, which take turns to be read and are mixed by model.stream_mixing
};

/// A placement's defaults inside modules and at the stack's ends.
struct PlacementDefaults {
  bool final_norm = false;
  bool embedding_norm = false;
  QkNorm qk_norm = QkNorm::none;
  bool v_norm = false;
  InnerNorm inner_norm = InnerNorm::none;
  NormKind norm = NormKind::rms;
};

struct FreeForm;

/// Where a stack puts its norms: a row of T1's table, or the free form {A, B, C, alpha, beta}.
struct Placement {
  std::string_view name;
  std::string_view norms;   ///< letters of T1, for people
  std::string_view scales;  ///< what alpha, beta, input_gain and the initialisation do, for people
  std::string_view used_by;
  PlacementDefaults defaults = {};
  Wiring wiring = Wiring::sequential;
  SublayerRule (*rule)(const RulePlace&) = nullptr;  ///< null for the free form
  double (*branch_init_gain)(int layers) = nullptr;  ///< factor on W_v, W_o, W_up, W_down; null: 1
  std::shared_ptr<const FreeForm> custom = nullptr;  ///< null for a row

  /// Throws ConfigError if an expression of a free form has no finite value.
  [[nodiscard]] SublayerRule at(const RulePlace& place) const;
  [[nodiscard]] bool is_custom() const { return rule == nullptr; }
  /// True if the placement sets only sublayer rules and the norms at the stack's ends, so that part of a stack can have
  /// it.
  [[nodiscard]] bool sets_rules_alone() const;
  /// A free form with a name of its own.
  [[nodiscard]] bool is_named_custom() const;
};

/// One rule for all sublayers, or a placement for each kind of module.
struct FreeForm {
  SublayerRule rule = {};
  std::optional<DepthExpression> alpha = {};  ///< instead of rule.alpha, if it depends on depth
  std::optional<DepthExpression> beta = {};
  std::shared_ptr<const Placement> attention = nullptr;  ///< with `mlp`: in the place of `rule`
  std::shared_ptr<const Placement> mlp = nullptr;

  [[nodiscard]] SublayerRule at(const RulePlace& place) const;
};

/// Every named placement, in the order of T1's table.
std::span<const Placement> placement_table();

/// The row called `name` ("residual" is a former name of residual-dual), or nullopt.
std::optional<Placement> find_placement(std::string_view name);

inline constexpr std::string_view unnamed_placement = "custom";

/// The free form, called `name` in results. Like the named rows it has a final norm by default if branches are
/// normalised (A or B) and the stream is not (no C).
Placement custom_placement(const SublayerRule& rule, std::string_view name = unnamed_placement);
/// The same for a form that depends on depth or on the kind of module.
Placement free_placement(FreeForm form, std::string_view name = unnamed_placement);

}  // namespace periscope
