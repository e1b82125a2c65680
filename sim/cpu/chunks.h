#pragma once

#include <algorithm>

#include "sim/core/tensor.h"

namespace periscope::cpu {

/// An op on fewer elements runs on one thread: starting a team costs more, above all on a busy machine. Results
/// do not depend on it.
inline constexpr Tensor::Index worth_threads = 4096;

/// Calls body(first, count) for consecutive chunks of 0 … size−1, on all threads. The chunks are a function
/// of the size alone.
template <class Body>
void for_chunks(Tensor::Index size, const Body& body, Tensor::Index chunk = 4096) {
#pragma omp parallel for schedule(static) if (size > chunk)
  for (Tensor::Index first = 0; first < size; first += chunk) body(first, std::min(chunk, size - first));
}

}  // namespace periscope::cpu
