#pragma once

#include <nanobind/nanobind.h>

#include "python/bindings/watched_progress.h"

#include <pthread.h>
#include <unistd.h>

#include <condition_variable>
#include <csignal>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <thread>

namespace periscope::python {

/// Blocks signals of the calling thread, and so of the threads that it starts, while it lives: they are for the
/// interpreter's own threads. Those of a thread's own faults stay.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    for (const int of_a_fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) sigdelset(&all, of_a_fault);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_{};
};

/// The runs of this process. At the interpreter's end all are stopped and waited for. A daemon thread that comes back
/// to an ending interpreter would end the process by std::terminate, so it sleeps until the process ends.
class Runs {
 public:
  /// Those of this process; to be called with the GIL.
  static Runs& all();
  /// Both are called with the GIL. Once the interpreter is ending, begin throws Error on the thread that ends it, and
  /// neither returns on another one.
  void begin(WatchedProgress& progress);
  void end(WatchedProgress& progress);
  /// Called with the GIL, which it lets go while it waits.
  void stop_all();

 private:
  void sleep_if_ending();

  std::mutex mutex_;
  std::condition_variable none_left_;
  std::set<WatchedProgress*> running_;
  const pid_t process_ = ::getpid();
  std::optional<std::thread::id> ending_;  ///< the thread that ends the interpreter, once it does
};

/// Runs `work` on a thread of its own: OpenMP's threads then belong to that thread, so that the caller's OpenMP is as
/// it was and a forked child of the process can use its own. The calling thread, which has the GIL, lets it go, and
/// every 50 ms looks for signals and calls `watch`. What either of them throws stops the work and, once that has ended,
/// goes to the caller. What `work` throws does too.
inline void on_own_thread(WatchedProgress& progress, const std::function<void()>& work,
                          const std::function<void()>& watch) {
  constexpr int milliseconds = 50;
  struct Registered {
    explicit Registered(WatchedProgress& of) : progress(of) { Runs::all().begin(progress); }
    Registered(const Registered&) = delete;
    Registered& operator=(const Registered&) = delete;
    ~Registered() { Runs::all().end(progress); }
    WatchedProgress& progress;
  };
  const Registered registered(progress);
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

/// The same for work without progress.
inline void on_own_thread(const std::function<void()>& work) {
  WatchedProgress progress(false);
  on_own_thread(progress, work, [] {});
}

}  // namespace periscope::python
