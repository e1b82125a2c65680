#pragma once

#include <new>
#include <stdexcept>

#include "experiments/engine/run/memory_estimate.h"
#include "experiments/engine/run/progress.h"
#include "sim/base/error.h"

namespace periscope::stacks {

/// Bytes that this process may still use: the least of what the machine has available, what its control groups leave
/// and what the limit of its address space leaves. Infinity where none of them can be read.
double available_bytes(int threads);

/// Throws ConfigError, which names the key to lower, if the estimate is more than there is, unless `force`.
void require_fits(const MemoryEstimate& memory, bool force, Progress& progress);

/// Thrown if memory runs out in spite of the estimate.
struct OutOfMemory : Error {
  using Error::Error;
};
OutOfMemory out_of_memory(const MemoryEstimate& memory);

/// Runs `f`, which needs `memory`. Throws as require_fits, and OutOfMemory.
template <class F>
auto within_memory(const MemoryEstimate& memory, bool force, Progress& progress, const F& f) {
  require_fits(memory, force, progress);
  try {
    return f();
  } catch (const std::bad_alloc&) {
    throw out_of_memory(memory);
  } catch (const std::length_error&) {  // more elements than a vector can have
    throw out_of_memory(memory);
  }
}

}  // namespace periscope::stacks
