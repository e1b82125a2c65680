#pragma once

#include "sim/core/tensor.h"

namespace periscope::cuda {

struct Profile;

struct Options {
  /// Computes matrix products of f32 tensors in TF32: operands rounded to 11 significant bits, sums in f32.
  bool tf32 = false;
  /// Approximate number of attention scores in memory at a time.
  Tensor::Index scores_at_once = Tensor::Index{1} << 24;
  /// If not null, every launch is recorded here (profile.h).
  Profile* profile = nullptr;
  /// Runs threads and blocks in reverse order; results must not change. Only on the host.
  bool reversed = false;
};

}  // namespace periscope::cuda
