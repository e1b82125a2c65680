#pragma once

#include <omp.h>

namespace periscope::stacks {

/// Sets the calling thread's number of OpenMP threads for the lifetime of the object. Small stacks use one thread, as
/// their ops take less time than starting a parallel region.
class Threads {
 public:
  explicit Threads(int count) : before_(omp_get_max_threads()) { omp_set_num_threads(count); }
  static Threads one_if(bool small) { return Threads(small ? 1 : omp_get_max_threads()); }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;
  ~Threads() { omp_set_num_threads(before_); }

 private:
  int before_;
};

}  // namespace periscope::stacks
