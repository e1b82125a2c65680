#pragma once

#include <array>
#include <cstddef>
#include <string_view>
#include <vector>

#include "sim/base/enumerators.h"
#include "sim/spec/signal.h"

namespace periscope::theory {

/// True if a certificate bounds a signal: not x_in, which is the x_out before it, nor A_out once more as each matrix
/// reads it.
[[nodiscard]] constexpr bool is_certified(Signal signal) {
  return signal != Signal::x_in && !(signal >= Signal::q_in && signal <= Signal::up_in);
}

/// The signals that a certificate bounds, in the order of the dataflow.
inline const std::vector<Signal> certified_signals = [] {
  std::vector<Signal> all;
  for (std::size_t i = 0; i < signal_names.size(); ++i) {
    if (is_certified(static_cast<Signal>(i))) all.push_back(static_cast<Signal>(i));
  }
  return all;
}();

/// The classes of signals that verdicts are given for.
enum class SignalClass { stream, branch, attention, scores, mlp, head, inside };
inline constexpr std::array<std::string_view, 7> signal_class_names{"stream", "branch", "attention", "scores",
                                                                    "mlp",    "head",   "inside"};
static_assert(are_names_of<SignalClass>(signal_class_names));
/// Throws std::logic_error for a signal that no certificate bounds.
[[nodiscard]] SignalClass class_of(Signal signal);

}  // namespace periscope::theory
