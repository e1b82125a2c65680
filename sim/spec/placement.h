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

/// Position of a sublayer in the stack.
struct RulePlace {
  int layer = 0;   ///< index of the layer, from 0
  int layers = 1;  ///< number of layers L
  ModuleKind kind = ModuleKind::attention;
  int addition = 0;  ///< l, number of earlier additions to the stream: 0 to 2L−1, or to L−1 for parallel blocks
};

/// How branches and streams are connected (sim/spec/wiring.h). A SublayerRule sets norms and scales (T1).
enum class Wiring {
  sequential,    ///< attention, then the MLP, on one stream
  dual,          ///< ResiDual: second stream r⁺ = r + f(x); output x_L + N(r_L)
  parallel,      ///< both modules of a layer share norm A; their outputs are added to the stream in one step
  parallel_two,  ///< like `parallel`, with a separate norm A for each module
  span,          ///< SpanNorm: the MLP is added to the layer's input
  first_input,   ///< nanochat: x ← r_l x + λ_l x_0 before every layer, x_0 the stack's input
  hyper,         ///< model.streams streams, read in turn and mixed by model.stream_mixing
};

/// Default settings of a placement inside modules and at the stack's ends.
struct PlacementDefaults {
  bool final_norm = false;
  bool embedding_norm = false;
  QkNorm qk_norm = QkNorm::none;
  bool v_norm = false;
  InnerNorm inner_norm = InnerNorm::none;
  NormKind norm = NormKind::rms;
};

struct FreeForm;

/// Position of norms in a stack: a named placement (T1), or the free form {A, B, C, alpha, beta}.
struct Placement {
  std::string_view name;
  std::string_view norms;   ///< positions A, B, C of the norms, for reports
  std::string_view scales;  ///< alpha, beta, input gain and initialisation, for reports
  std::string_view used_by;
  PlacementDefaults defaults = {};
  Wiring wiring = Wiring::sequential;
  SublayerRule (*rule)(const RulePlace&) = nullptr;  ///< rule of a sublayer; null for the free form
  double (*branch_init_gain)(int layers) = nullptr;  ///< multiplies W_v, W_o, W_up, W_down; null means 1
  std::shared_ptr<const FreeForm> custom = nullptr;  ///< the free form; null for a named placement

  /// Throws ConfigError if an expression of a free form has no finite value.
  [[nodiscard]] SublayerRule at(const RulePlace& place) const;
  [[nodiscard]] bool is_custom() const { return rule == nullptr; }
  /// True if the placement sets only sublayer rules and norms at the stack's ends, so it can apply to part of a stack.
  [[nodiscard]] bool sets_only_rules() const;
  /// True for a free form that has a name.
  [[nodiscard]] bool is_named_custom() const;
};

/// One rule for all sublayers, or one placement for each kind of module.
struct FreeForm {
  SublayerRule rule = {};
  std::optional<DepthExpression> alpha = {};  ///< replaces rule.alpha if it depends on depth
  std::optional<DepthExpression> beta = {};
  std::shared_ptr<const Placement> attention = nullptr;  ///< set together with `mlp`; both replace `rule`
  std::shared_ptr<const Placement> mlp = nullptr;

  [[nodiscard]] SublayerRule at(const RulePlace& place) const;
};

/// All named placements, in the order of the table in docs/theory (T1).
std::span<const Placement> placement_table();

/// Looks up a placement by name; "residual" is an alias of residual-dual. Returns nullopt for an unknown name.
std::optional<Placement> find_placement(std::string_view name);

inline constexpr std::string_view unnamed_placement = "custom";

/// Returns a free form called `name` in results. It has a final norm by default if branches are normalised (A or B) and
/// the stream is not (no C), as for named placements.
Placement custom_placement(const SublayerRule& rule, std::string_view name = unnamed_placement);
/// Returns a free form that depends on depth or the kind of module; name and final norm as in custom_placement.
Placement free_placement(FreeForm form, std::string_view name = unnamed_placement);

}  // namespace periscope
