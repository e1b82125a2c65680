#pragma once

#include "sim/model/context.h"
#include "sim/spec/signal.h"

namespace periscope::certify {

/// One feature of a signal.
struct SignalPlace {
  Signal signal;
  int sublayer;
  Tensor::Index channel;
};

/// True if an attack climbs there: all signals but tables, heads' inputs after their norms, scores and mixed heads.
bool can_climb(Signal signal);

/// The largest |value| of a feature over the tokens of an input, and the gradient of that |value| with respect to the
/// input.
struct PeakGradient {
  double value;
  Tensor gradient;  ///< [N, D]; empty if it was not asked for
};

/// Runs a real-valued input [N, D] (before the embedding norm) through the stack up to the place and, with `back`, the
/// gradient of its |value| back to the input: a replacer puts it where the gradient of the place arises, and nothing
/// comes from above. Throws std::logic_error for a signal that the stack does not have.
PeakGradient peak_gradient_at(const StackContext& context, const Tensor& input, const SignalPlace& place, bool back);

}  // namespace periscope::certify
