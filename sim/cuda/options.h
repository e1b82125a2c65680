#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "sim/core/tensor.h"

namespace periscope::cuda {

/// Totals over all launches of one kernel, matrix product or copy by one op.
struct KernelUse {
  Tensor::Index launches = 0;
  double seconds = 0.0;  ///< between CUDA events before and after each launch; on a GPU only, complete after `to_host`
  Tensor::Index read = 0;           ///< bytes of device memory, on the host only; 0 for cholesky and solve
  Tensor::Index written = 0;        ///< the same
  Tensor::Index most_accesses = 0;  ///< largest number of accesses by one thread in one launch; on the host only
};

/// Launches of a backend by op and kernel. A profiled backend must be called from a single thread.
struct Profile {
  std::string_view op;  ///< the latest
  std::map<std::pair<std::string, std::string>, KernelUse> kernels;
};

struct Options {
  /// Computes matrix products of f32 tensors in TF32: operands rounded to 11 significant bits, sums in f32.
  bool tf32 = false;
  /// Approximate number of attention scores in memory at a time.
  Tensor::Index scores_at_once = Tensor::Index{1} << 24;
  /// Records every launch, if not null.
  Profile* profile = nullptr;
  /// Runs threads and blocks in reverse order, which must not change results; on the host only.
  bool reversed = false;
};

}  // namespace periscope::cuda
