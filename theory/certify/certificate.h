#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/numerics/number_format.h"
#include "theory/certify/bounded_set.h"
#include "theory/certify/parameters.h"
#include "theory/certify/rounded_parameters.h"
#include "theory/certify/signal.h"

/// T17 and T24, the overflow certificate: how large any signal can be for any input, from the weights alone, in exact
/// arithmetic or in that of a run.
namespace periscope::theory {

/// A bound on |signal|, feature by feature, and its largest entry.
struct SignalBound {
  Signal signal;
  int sublayer;  ///< 0 … 2L−1; −1 before the first and 2L after the last
  Vector magnitude;
  double largest = 0.0;
  Index channel = 0;
};

/// The inputs of a stack: any token ids up to the position table, or any real vectors of entries up to `largest` (a run
/// overflows if its format does not reach it), infinite for all numbers of the format.
struct InputDomain {
  bool tokens = true;
  double largest = infinity;
};

/// The longest input that a certificate of a run's arithmetic covers, unless another one is asked for.
inline constexpr int default_longest = 4096;

/// Every bound, in the order of the dataflow (what a sublayer only stores or sums on its way stands before its x_out).
struct Certificate {
  std::vector<SignalBound> bounds;
  RunArithmetic arithmetic = {};
  int longest = 0;                                 ///< tokens of a sequence; 0: any number
  bool weights_rounded = false;                    ///< some weights are not in the format and were rounded to it
  std::optional<WeightEntry> largest_weight = {};  ///< of a run in a format, before rounding

  /// Null if the stack does not have it.
  [[nodiscard]] const SignalBound* find(Signal signal, int sublayer) const;
  /// The largest bound of a class; null if there is none. NaN counts as infinite.
  [[nodiscard]] const SignalBound* worst(SignalClass kind) const;
  /// The largest number that may stand where this bound is, in the certificate's own arithmetic; infinite for exact.
  [[nodiscard]] double limit(const SignalBound& bound) const;
};

/// Says whether no input can overflow a class of signals, and if one may, where first.
struct Verdict {
  bool certified = true;
  const SignalBound* first = nullptr;   ///< of the certificate; null if certified
  double limit = infinity;              ///< that `first` passes
  const WeightEntry* weight = nullptr;  ///< of the certificate; null unless `first` is the weights' bound
};

/// Gives the verdict for a run in the certificate's own arithmetic: a class is certified if every signal upstream of
/// its last one fits too, as infinity and NaN propagate. In exact arithmetic only the class's own bounds count, against
/// `format`, which is ignored otherwise. nullopt: all classes.
Verdict verdict(const Certificate& certificate, std::optional<SignalClass> kind, const NumberFormat& format = fp64);

/// True if a run in the certificate's arithmetic may overflow at `bound`, one of the certificate's, or upstream of it.
/// It never does in exact arithmetic.
bool may_overflow(const Certificate& certificate, const SignalBound& bound);

/// Bounds every signal of a stack with these weights. In exact arithmetic inputs may have any length, otherwise up to
/// `longest` tokens (or the position table's end). Bounds are infinite for an unbounded input, a placement without
/// norms, or an ε that is 0 in the format.
Certificate certify(const ModelSpec& model, const Parameters& parameters, const InputDomain& domain,
                    const RunArithmetic& arithmetic = {}, int longest = default_longest);

}  // namespace periscope::theory
