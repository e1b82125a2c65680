#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "sim/model/context.h"
#include "sim/model/hooks.h"
#include "sim/spec/signal.h"
#include "theory/certify/certificate.h"

namespace periscope::certify {

/// The largest magnitude of every feature of every signal that a certificate bounds, over all tokens of all runs. Has
/// the same keys and shapes as the certificate's bounds.
class SignalMaxima {
 public:
  /// Runs real-valued input [N, D] (before the embedding norm) or token ids, and raises the maxima of all signals.
  void add(const StackContext& context, const Tensor& input, Hooks hooks = {});
  void add(const StackContext& context, std::span<const int> ids, Hooks hooks = {});
  /// Raises each maximum of a signal to the corresponding magnitude if that is larger. NaN counts as infinite.
  void raise_to(Signal signal, int sublayer, std::span<const double> magnitudes);

  /// Returns nullptr if the signal was not emitted.
  [[nodiscard]] const std::vector<double>* find(Signal signal, int sublayer) const;
  /// Returns the largest entry; NaN if the signal was not emitted.
  [[nodiscard]] double largest(Signal signal, int sublayer) const;
  [[nodiscard]] std::size_t size() const { return maxima_.size(); }

 private:
  std::map<std::pair<Signal, int>, std::vector<double>> maxima_;
};

struct SignalPlace {
  Signal signal;
  int sublayer;
  Tensor::Index channel;
  int expert = -1;  ///< expert of a mixture, or −1
};

/// Returns false for signals that attacks cannot target, such as table rows, queries, keys, scores and mixed heads.
bool can_attack(Signal signal);

/// The largest |value| of a feature over the tokens of an input, and its gradient with respect to the input.
struct PeakGradient {
  double value;
  Tensor gradient;  ///< [N, D]; empty unless requested
};

/// Runs a real-valued input [N, D] (before the embedding norm) through the stack up to the place. With `with_gradient`,
/// also runs the backward pass to the input: a replacer inserts the gradient of |value| at the place, and gradients of
/// later signals are 0. Throws std::logic_error for a signal that the stack does not have.
PeakGradient peak_gradient_at(const StackContext& context, const Tensor& input, const SignalPlace& place,
                              bool with_gradient);

struct AttackOptions {
  int steps = 200;  ///< gradient steps, or greedy changes of one token, per restart
  int restarts = 4;
  int tokens = 4;  ///< length of the sequences
  std::uint64_t seed = 0;
  DType dtype = DType::f64;  ///< dtype of weights and inputs
};

struct AttackResult {
  SignalPlace place;
  double bound = 0.0;         ///< certified bound on |value| at `place`
  double reached = 0.0;       ///< largest |value| found
  std::vector<int> ids = {};  ///< token ids that reached the value
  Tensor input = {};          ///< real vectors that reached the value, if not token ids
  [[nodiscard]] double ratio() const { return bound > 0.0 ? reached / bound : 0.0; }
};

/// Tries to exceed the bound at one place: real vectors by gradient ascent, token ids by greedy changes of one token.
/// Adds the signals of every restart's best input to `seen`.
AttackResult attack(const StackContext& context, const theory::Certificate& certificate, const SignalPlace& place,
                    const theory::InputDomain& domain, const AttackOptions& options, SignalMaxima& seen);

/// Clamps every entry to [−largest, largest].
Tensor clamped(const Backend& ops, const Tensor& x, double largest);

/// Returns, for every class with signals that attacks can target, the place of the largest bound.
std::vector<SignalPlace> attack_places(const theory::Certificate& certificate);

struct BoundsCheck {
  std::optional<AttackResult> exceeded = {};   ///< worst value that exceeds its bound by more than rounding
  std::optional<SignalPlace> overflowed = {};  ///< first overflow that the certificate allows
};

/// Compares measured maxima with the bounds of a certificate for the same arithmetic. Stops at the first overflow that
/// the certificate allows, because later signals are computed from infinities.
BoundsCheck check_bounds(const theory::Certificate& certificate, const SignalMaxima& seen, double rounding);

}  // namespace periscope::certify
