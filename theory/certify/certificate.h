#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/numerics/number_format.h"
#include "theory/certify/computed_ops.h"
#include "theory/certify/parameters.h"
#include "theory/certify/rounded_parameters.h"
#include "theory/certify/signal.h"

/// Overflow certificate (T17, T24): bounds on every signal for any input, computed from the weights, in exact
/// arithmetic or in the arithmetic of a run.
namespace periscope::theory {

/// A bound on |signal| for every feature.
struct SignalBound {
  Signal signal;
  int sublayer;  ///< 0 … 2L−1; −1 before the first and 2L after the last
  Vector magnitude;
  double largest = 0.0;  ///< largest entry of `magnitude`
  Index channel = 0;     ///< index of the largest entry
  int expert = -1;       ///< expert of the largest entry, if `magnitude` is the maximum over a mixture's experts
};

/// Inputs of a stack: any sequences of token ids that fit the position table, or any real vectors with entries up to
/// `largest`. Infinite `largest` means all numbers of the format; a finite one beyond its range counts as overflow.
struct InputDomain {
  bool tokens = true;
  double largest = infinity;
};

/// Default maximum input length, in tokens, of a certificate for a run's arithmetic.
inline constexpr int default_longest = 4096;

/// All bounds in dataflow order. Intermediate values of a sublayer's operations precede its x_out.
struct Certificate {
  std::vector<SignalBound> bounds;
  RunArithmetic arithmetic = {};
  int longest = 0;                                 ///< maximum length of a sequence in tokens; 0: unlimited
  bool weights_rounded = false;                    ///< some weights are not representable and were rounded
  std::optional<WeightEntry> largest_weight = {};  ///< largest weight before rounding; nullopt in exact arithmetic
  std::vector<ProductBound> products = {};         ///< all products of a run, in dataflow order
  std::optional<NumberFormat> cached = {};         ///< format of stored keys and values, if not the signals' format

  /// Returns a bound, or null if the stack does not have the signal.
  [[nodiscard]] const SignalBound* find(Signal signal, int sublayer) const;
  /// Returns the largest bound of a class, or null. NaN counts as infinite.
  [[nodiscard]] const SignalBound* worst(SignalClass kind) const;
  /// Returns the largest finite number of the format that holds this signal; infinite in exact arithmetic.
  [[nodiscard]] double limit(const SignalBound& bound) const;
};

/// Verdict on a class of signals: certified if no input can make it overflow.
struct Verdict {
  bool certified = true;
  const SignalBound* first = nullptr;   ///< first bound that exceeds its limit; null if certified
  double limit = infinity;              ///< limit that `first` exceeds
  const WeightEntry* weight = nullptr;  ///< the largest weight if `first` is the bound on weights, else null
};

/// Returns the verdict for a run in the certificate's arithmetic. Infinity and NaN propagate, so a class is certified
/// only if all signals upstream of its last signal fit too. In exact arithmetic only the class's own bounds count and
/// are compared with `format`, which is ignored otherwise. `kind` = nullopt means all classes.
Verdict verdict(const Certificate& certificate, std::optional<SignalClass> kind, const NumberFormat& format = fp64);

/// Returns true if a run in the certificate's arithmetic may overflow at or upstream of `bound`, an element of
/// certificate.bounds. Always false in exact arithmetic.
bool may_overflow(const Certificate& certificate, const SignalBound& bound);

/// Bounds every signal of a stack with the given weights. Inputs may have any length in exact arithmetic, otherwise up
/// to `longest` tokens or ModelSpec::max_tokens(). Bounds are infinite for unbounded inputs, placements without
/// norms, or an ε that rounds to 0. `cached` are narrower formats to which a run may round keys and values when it
/// stores them; the bounds hold for each of them, and Certificate::cached is the first.
Certificate certify(const ModelSpec& model, const Parameters& parameters, const InputDomain& domain,
                    const RunArithmetic& arithmetic = {}, int longest = default_longest,
                    const std::vector<NumberFormat>& cached = {});

}  // namespace periscope::theory
