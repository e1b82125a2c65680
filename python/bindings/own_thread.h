#pragma once

#include <nanobind/nanobind.h>

#include "python/bindings/watched_progress.h"

#include <pthread.h>

#include <csignal>
#include <exception>
#include <functional>
#include <thread>

namespace periscope::python {

/// Blocks all signals of the calling thread, and so of the threads that it starts, while it lives: they are for the
/// interpreter's own threads.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_{};
};

/// Runs `work` on a thread of its own: OpenMP's threads then belong to that thread, so that the caller's OpenMP is as
/// it was and a forked child of the process can use its own. The calling thread, which has the GIL, lets it go, and
/// every 50 ms looks for signals and calls `watch`. What either of them throws stops the work and, once that has ended,
/// goes to the caller. What `work` throws does too.
inline void on_own_thread(WatchedProgress& progress, const std::function<void()>& work,
                          const std::function<void()>& watch) {
  constexpr int milliseconds = 50;
  std::exception_ptr failure;
  std::exception_ptr interruption;
  std::thread thread;
  {
    const SignalsBlocked blocked;
    thread = std::thread([&] {
      try {
        work();
      } catch (...) {
        failure = std::current_exception();
      }
      progress.done();
    });
  }
  for (bool done = false; !done;) {
    {
      const nanobind::gil_scoped_release released;
      done = progress.wait(milliseconds);
    }
    if (interruption) continue;
    try {
      if (PyErr_CheckSignals() != 0) throw nanobind::python_error();
      watch();
    } catch (...) {  // whatever it is, the thread has to end before it may go on
      interruption = std::current_exception();
      progress.stop();
    }
  }
  {
    const nanobind::gil_scoped_release released;  // the thread may still end its OpenMP threads
    thread.join();
  }
  if (interruption) std::rethrow_exception(interruption);
  if (failure) std::rethrow_exception(failure);
}

}  // namespace periscope::python
