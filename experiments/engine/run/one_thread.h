#pragma once

#include <omp.h>

namespace periscope::stacks {

/// Runs the ops that this thread calls on one thread during this object's lifetime, if `small`. On a busy machine the
/// many short ops of a small stack would wait for their teams far longer than they take.
class OneThread {
 public:
  explicit OneThread(bool small) : threads_(omp_get_max_threads()) {
    if (small) omp_set_num_threads(1);
  }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;
  ~OneThread() { omp_set_num_threads(threads_); }

 private:
  int threads_;
};

}  // namespace periscope::stacks
