#pragma once

#include <array>
#include <string_view>

namespace periscope {

enum class QkNorm { none, head, full };
enum class InnerNorm { none, o, down, both };
enum class AttentionGate { none, head, channel };

inline constexpr std::array<std::string_view, 3> qk_norm_names{"none", "head", "full"};
inline constexpr std::array<std::string_view, 4> inner_norm_names{"none", "o", "down", "both"};
inline constexpr std::array<std::string_view, 3> attention_gate_names{"none", "head", "channel"};

}  // namespace periscope
