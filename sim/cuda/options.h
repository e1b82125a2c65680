#pragma once

#include "sim/core/tensor.h"

namespace periscope::cuda {

/// Options of how the CUDA backend computes.
struct Options {
  /// Matrix products of f32 tensors in TF32: operands rounded to 11 significant bits, sums in f32.
  bool tf32 = false;
  /// Attention keeps the scores of as many queries at a time as have about this many scores together.
  Tensor::Index scores_at_once = Tensor::Index{1} << 24;
};

}  // namespace periscope::cuda
