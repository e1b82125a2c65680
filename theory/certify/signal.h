#pragma once

#include <array>
#include <cstddef>
#include <string_view>
#include <vector>

#include "sim/base/enumerators.h"
#include "sim/spec/signal.h"

namespace periscope::theory {

/// Returns false if certificates omit the signal: x_in equals the previous x_out, and inputs of matrices equal A_out.
[[nodiscard]] constexpr bool is_certified(Signal signal) {
  return signal != Signal::x_in && !(signal >= Signal::q_in && signal <= Signal::up_in);
}

/// Signals that a certificate bounds, in dataflow order.
inline const std::vector<Signal> certified_signals = [] {
  std::vector<Signal> all;
  for (std::size_t i = 0; i < signal_names.size(); ++i) {
    if (is_certified(static_cast<Signal>(i))) all.push_back(static_cast<Signal>(i));
  }
  return all;
}();

/// Classes of signals with separate verdicts.
enum class SignalClass { stream, branch, attention, cache, scores, mlp, head, inside };
inline constexpr std::array<std::string_view, 8> signal_class_names{"stream", "branch", "attention", "cache",
                                                                    "scores", "mlp",    "head",      "inside"};
static_assert(are_names_of<SignalClass>(signal_class_names));
/// Returns the class of a signal. Throws std::logic_error for a signal that no certificate bounds.
[[nodiscard]] SignalClass class_of(Signal signal);

}  // namespace periscope::theory
