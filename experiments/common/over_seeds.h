#pragma once

#include <exception>
#include <optional>
#include <type_traits>

#include "experiments/command/progress.h"
#include "sim/spec/model_spec.h"

namespace periscope {

/// Small stacks run one seed per thread: that keeps all threads busy without a barrier per op. A large one
/// runs its seeds in turn, with threads inside its ops, so that one sublayer's weights are in memory.
bool one_seed_per_thread(const StackSpec& spec);

/// Calls `measure(i)` for i = 0 … seeds − 1, several at a time if the stack is small, and `use` with every result, in
/// the order of the seeds, one at a time. Ops do not depend on the number of threads, so both ways give the same
/// bits. Throws what the first of the failed seeds threw, or `use` of it; Stopped once `progress` is asked to stop.
template <class Measure, class Use>
void over_seeds(const StackSpec& spec, int seeds, const Progress& progress, const Measure& measure, const Use& use) {
  std::exception_ptr failure;
#pragma omp parallel for ordered schedule(dynamic, 1) if (one_seed_per_thread(spec))
  for (int i = 0; i < seeds; ++i) {
    std::optional<std::invoke_result_t<Measure, int>> result;
    std::exception_ptr caught;
    try {
      progress.throw_if_stop_requested();
      result = measure(i);
    } catch (...) {
      caught = std::current_exception();
    }
#pragma omp ordered
    {
      if (!failure) failure = caught;
      try {
        if (!failure) use(*result);
      } catch (...) {
        failure = std::current_exception();
      }
    }
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace periscope
