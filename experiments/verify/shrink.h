#pragma once

#include <functional>

#include "experiments/verify/bound_case.h"

namespace periscope {

/// The simplest case that still fails: tokens, features, hidden units, classes, norms, biases and ε are taken away
/// and numbers replaced by rounder ones, as long as `fails` says true, until nothing more can be simplified.
/// `fails(c)` must be true. Deterministic; calls `fails` at most `budget` times.
BoundCase shrink(BoundCase c, const std::function<bool(const BoundCase&)>& fails, int budget = 20000);

}  // namespace periscope
