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
  /// Runs real-valued input [N, D] (before the embedding norm), or token ids.
  void add(const StackContext& context, const Tensor& input, Hooks hooks = {});
  void add(const StackContext& context, std::span<const int> ids, Hooks hooks = {});
  /// Raises the maxima of a signal. NaN counts as infinite.
  void raise_to(Signal signal, int sublayer, std::span<const double> magnitudes);

  /// Null if the signal did not arise.
  [[nodiscard]] const std::vector<double>* find(Signal signal, int sublayer) const;
  /// Largest entry; NaN if the signal did not arise.
  [[nodiscard]] double largest(Signal signal, int sublayer) const;
  [[nodiscard]] std::size_t size() const { return maxima_.size(); }

 private:
  std::map<std::pair<Signal, int>, std::vector<double>> maxima_;
};

struct SignalPlace {
  Signal signal;
  int sublayer;
  Tensor::Index channel;
};

/// True for signals that attacks can aim at: all but tables, heads' inputs after their norms, scores and mixed heads.
bool can_climb(Signal signal);

/// The largest |value| of a feature over the tokens of an input, and its gradient with respect to the input.
struct PeakGradient {
  double value;
  Tensor gradient;  ///< [N, D]; empty unless requested
};

/// Runs a real-valued input [N, D] (before the embedding norm) through the stack up to the place and, with `back`, the
/// gradient of |value| back to the input: a replacer puts it where the gradient of the place arises; upstream it is 0.
/// Throws std::logic_error for a signal that the stack does not have.
PeakGradient peak_gradient_at(const StackContext& context, const Tensor& input, const SignalPlace& place, bool back);

struct AttackOptions {
  int steps = 200;  ///< of every restart: gradient steps, or greedy changes of one token
  int restarts = 4;
  int tokens = 4;  ///< length of the sequences
  std::uint64_t seed = 0;
  DType dtype = DType::f64;  ///< of the weights, and so of the inputs
};

struct AttackResult {
  SignalPlace place;
  double bound = 0.0;
  double reached = 0.0;
  std::vector<int> ids = {};  ///< the token ids that reached it
  Tensor input = {};          ///< or the real vectors
  [[nodiscard]] double ratio() const { return bound > 0.0 ? reached / bound : 0.0; }
};

/// Tries to exceed the bound of one place: real vectors by gradient ascent, token ids by greedy changes of one token.
/// Adds all signals of the best input of every restart to `seen`.
AttackResult attack(const StackContext& context, const theory::Certificate& certificate, const SignalPlace& place,
                    const theory::InputDomain& domain, const AttackOptions& options, SignalMaxima& seen);

/// Clamps every entry to [−largest, largest].
Tensor clamped(const Backend& ops, const Tensor& x, double largest);

/// The place of the largest bound of every class that can be climbed, the last sublayer's stream among them.
std::vector<SignalPlace> attack_places(const theory::Certificate& certificate);

struct BoundsCheck {
  std::optional<AttackResult> exceeded = {};   ///< the one farthest beyond its bound and rounding
  std::optional<SignalPlace> overflowed = {};  ///< the first place where the run overflowed, as the certificate allows
};

/// Compares measured maxima with the bounds of the arithmetic that they were measured in. Stops at the first signal
/// that overflowed as the certificate allows, because later signals are computed from infinities.
BoundsCheck check_bounds(const theory::Certificate& certificate, const SignalMaxima& seen, double rounding);

}  // namespace periscope::certify
