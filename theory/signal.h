#pragma once

#include <array>
#include <string_view>

#include "sim/spec/signal.h"

namespace periscope::theory {

/// The signals that a certificate bounds: all but x_in, which is the x_out before it.
inline constexpr auto certified_signals = [] {
  std::array<Signal, signal_names.size() - 1> all{};
  std::size_t next = 0;
  for (std::size_t i = 0; i < signal_names.size(); ++i) {
    if (static_cast<Signal>(i) != Signal::x_in) all[next++] = static_cast<Signal>(i);
  }
  return all;
}();

/// What a verdict is given for.
enum class SignalClass { stream, branch, attention, scores, mlp, head, inside };
inline constexpr std::array<std::string_view, 7> signal_class_names{"stream", "branch", "attention", "scores",
                                                                    "mlp",    "head",   "inside"};
[[nodiscard]] SignalClass class_of(Signal signal);

}  // namespace periscope::theory
