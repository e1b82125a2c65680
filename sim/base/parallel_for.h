#pragma once

#include "sim/base/first_exception.h"

namespace periscope {

/// Calls body(i) for every i < count, on all threads unless `parallel` is false. Rethrows the first exception.
template <class Index, class Body>
void parallel_for(Index count, const Body& body, bool parallel = true) {
  if (!parallel) {  // in a parallel region of one thread, nested parallel ops would start new threads each time
    for (Index i = 0; i < count; ++i) body(i);
    return;
  }
  FirstException failure;
#pragma omp parallel for schedule(dynamic, 1)
  for (Index i = 0; i < count; ++i) failure.run([&] { body(i); });
  failure.rethrow();
}

}  // namespace periscope
