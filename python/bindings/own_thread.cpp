#include "python/bindings/own_thread.h"

#include <unistd.h>

#include "sim/base/error.h"

namespace periscope::python {

/// Threads may end after every static object. A forked child has none of its parent's threads, and no run.
Runs& Runs::all() {
  static Runs* runs = new Runs;
  if (runs->process_ != ::getpid()) runs = new Runs;
  return *runs;
}

void Runs::begin(WatchedProgress& progress) {
  {
    const std::lock_guard lock(mutex_);
    if (!ending_) {
      running_.insert(&progress);
      return;
    }
  }
  sleep_if_ending();
  throw Error(ExitCode::stopped_early, "the interpreter is ending: no run begins");
}

void Runs::end(WatchedProgress& progress) {
  {
    const std::lock_guard lock(mutex_);
    running_.erase(&progress);
    none_left_.notify_all();
  }
  sleep_if_ending();
}

void Runs::sleep_if_ending() {
  {
    const std::lock_guard lock(mutex_);
    if (!ending_ || *ending_ == std::this_thread::get_id()) return;
  }
  PyEval_SaveThread();
  while (true) ::pause();
}

void Runs::stop_all() {
  const nanobind::gil_scoped_release released;
  std::unique_lock lock(mutex_);
  ending_ = std::this_thread::get_id();
  for (WatchedProgress* progress : running_) progress->stop();
  none_left_.wait(lock, [&] { return running_.empty(); });
}

}  // namespace periscope::python
