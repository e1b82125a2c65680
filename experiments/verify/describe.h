#pragma once

#include <string>

#include "experiments/verify/verify.h"

namespace periscope {

/// A case with its numbers, and what follows from them, so that it can be checked by hand: x, W1, W2, gains, h, a, p,
/// y and the gradient. Matrices of more than `most` numbers are left out.
std::string describe(const BoundCase& c, int most = 32);

/// The same with what the statement says about it: measured, bound and ratio. `scale` is what bounds that should hold
/// were multiplied by.
std::string describe(const Counterexample& counterexample, double scale);

/// Every statement's line for a replayed case, and the case.
std::string describe(const Replay& replay, double scale);

}  // namespace periscope
