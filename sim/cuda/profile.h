#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "sim/core/tensor.h"

namespace periscope::cuda {

/// All launches of one kernel, matrix product or copy by one op.
struct KernelUse {
  Tensor::Index launches = 0;
  double seconds = 0.0;  ///< between CUDA events before and after each launch; on a GPU only, complete after `to_host`
  double read = 0.0;     ///< bytes that threads read from and wrote to device memory, counted on the host only
  double written = 0.0;
  Tensor::Index most_accesses = 0;  ///< largest number of accesses by one thread in one launch; on the host only
};

/// What a backend with Options::profile launched, by op and kernel. Its ops must then be called from a single thread.
struct Profile {
  std::string_view op;  ///< the latest op
  std::map<std::pair<std::string, std::string>, KernelUse> kernels;
};

}  // namespace periscope::cuda
