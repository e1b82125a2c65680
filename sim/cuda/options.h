#pragma once

#include "sim/core/tensor.h"

namespace periscope::cuda {

struct Options {
  /// Computes matrix products of f32 tensors in TF32: operands rounded to 11 significant bits, sums in f32.
  bool tf32 = false;
  /// Approximate number of attention scores in memory at a time.
  Tensor::Index scores_at_once = Tensor::Index{1} << 24;
};

}  // namespace periscope::cuda
