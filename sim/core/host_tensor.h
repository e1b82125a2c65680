#pragma once

#include "sim/core/tensor.h"

namespace periscope {

/// A tensor in host memory, aligned to 64 bytes, contents undefined.
Tensor host_tensor(Tensor::Index rows, Tensor::Index cols, DType dtype);

}  // namespace periscope
