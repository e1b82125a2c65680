#pragma once

#include <omp.h>

namespace periscope::stacks {

/// Sets the number of threads that this thread's OpenMP regions have during this object's lifetime. On a busy machine
/// the many short ops of a small stack would wait for their teams far longer than they take: these get one.
class Threads {
 public:
  explicit Threads(int count) : before_(omp_get_max_threads()) { omp_set_num_threads(count); }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;
  ~Threads() { omp_set_num_threads(before_); }

 private:
  int before_;
};

}  // namespace periscope::stacks
