#pragma once

#include <algorithm>

#include "sim/core/tensor.h"

namespace periscope::cpu {

/// Calls body(first, count) for consecutive chunks of 0 … size−1, on all threads. The chunks are a function
/// of the size alone.
template <class Body>
void for_chunks(Tensor::Index size, const Body& body, Tensor::Index chunk = 4096) {
#pragma omp parallel for schedule(static)
  for (Tensor::Index first = 0; first < size; first += chunk) body(first, std::min(chunk, size - first));
}

}  // namespace periscope::cpu
