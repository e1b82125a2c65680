#pragma once

#include <array>
#include <string_view>

#include "sim/base/enumerators.h"

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

}  // namespace periscope
