#pragma once

#include <vector>

#include "sim/core/tensor.h"

namespace periscope::testing {

/// The entries of an f32 tensor on the host.
inline std::vector<double> values_of(const Tensor& x) {
  const float* entries = elements<float>(x);
  return {entries, entries + x.size()};
}

}  // namespace periscope::testing
