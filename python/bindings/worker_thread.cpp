#include "python/bindings/worker_thread.h"

#include <nanobind/nanobind.h>
#include <pthread.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <exception>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "sim/base/error.h"

namespace periscope::python {
namespace {

/// Blocks all signals except faults (such as SIGSEGV) for the calling thread and the threads that it starts. The
/// interpreter's threads then receive them.
void block_signals() {
  sigset_t all;
  sigfillset(&all);
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) sigdelset(&all, fault);
  pthread_sigmask(SIG_SETMASK, &all, nullptr);
}

/// Registry of the runs of this process; its functions require the GIL. When the interpreter exits, all runs are
/// stopped and waited for. A daemon thread that returned to an exiting interpreter would call std::terminate, so it
/// sleeps until the process ends.
class Runs {
 public:
  /// Returns the registry of this process; a forked child starts with an empty one. It is never destroyed, because
  /// threads may outlive static objects.
  static Runs& instance() {
    static Runs* runs = new Runs;
    if (runs->process_ != ::getpid()) runs = new Runs;
    return *runs;
  }
  /// Throws Error on the thread that shuts the interpreter down.
  void begin(WatchedProgress& progress) {
    sleep_if_ending();
    if (ending_) throw Error(ExitCode::stopped_early, "the interpreter is shutting down; no new run can start");
    const std::lock_guard lock(mutex_);
    running_.insert(&progress);
  }
  void end(WatchedProgress& progress) {
    {
      const std::lock_guard lock(mutex_);
      running_.erase(&progress);
      none_left_.notify_all();
    }
    sleep_if_ending();
  }
  /// Releases the GIL while it waits.
  void stop_all() {
    ending_ = std::this_thread::get_id();
    const nanobind::gil_scoped_release released;
    std::unique_lock lock(mutex_);
    for (WatchedProgress* progress : running_) progress->stop();
    none_left_.wait(lock, [&] { return running_.empty(); });
  }

 private:
  void sleep_if_ending() const {
    if (!ending_ || *ending_ == std::this_thread::get_id()) return;
    PyEval_SaveThread();
    while (true) ::pause();
  }

  const pid_t process_ = ::getpid();
  std::optional<std::thread::id> ending_;  ///< thread that shuts the interpreter down; protected by the GIL
  std::mutex mutex_;
  std::set<WatchedProgress*> running_;
  std::condition_variable none_left_;
};

}  // namespace

void WatchedProgress::say(const std::string& lines) {
  const std::lock_guard lock(mutex_);
  messages_.push_back(lines);
  changed_ = true;
}

bool WatchedProgress::recorded(const stacks::TrainingRecord& record) {
  if (!answers_records_) return true;
  const std::scoped_lock one_at_a_time(records_);
  std::unique_lock lock(mutex_);
  record_ = &record;
  answer_.reset();
  for_watcher_.notify_all();
  for_run_.wait(lock, [&] { return answer_.has_value() || stop_; });
  record_ = nullptr;
  return answer_.value_or(true);  // a stopped run then calls stop_requested and stores its state
}

void WatchedProgress::done() {
  const std::lock_guard lock(mutex_);
  done_ = true;
  for_watcher_.notify_all();
}

void WatchedProgress::stop() {
  stop_ = true;
  const std::lock_guard lock(mutex_);
  for_run_.notify_all();
}

bool WatchedProgress::wait(int milliseconds) {
  std::unique_lock lock(mutex_);
  for_watcher_.wait_for(lock, std::chrono::milliseconds(milliseconds),
                        [&] { return done_ || (record_ != nullptr && !answer_ && !stop_); });
  return done_;
}

std::optional<Snapshot> WatchedProgress::snapshot() {
  const std::lock_guard lock(mutex_);
  if (!changed_) return std::nullopt;
  changed_ = false;
  return Snapshot{.phase = what_,
                  .label = label_,
                  .share = meter_.share().value_or(0.0),
                  .steps_done = meter_.done(),
                  .steps = meter_.tasks,
                  .seconds = meter_.seconds(),
                  .seconds_left = meter_.seconds_left(),
                  .messages = std::exchange(messages_, {})};
}

const stacks::TrainingRecord* WatchedProgress::record() {
  const std::lock_guard lock(mutex_);
  return answer_ ? nullptr : record_;
}

void WatchedProgress::answer(bool continue_training) {
  const std::lock_guard lock(mutex_);
  answer_ = continue_training;
  for_run_.notify_all();
}

void run_on_worker(WatchedProgress& progress, const std::function<void()>& work, const std::function<void()>& watch) {
  constexpr int milliseconds = 50;
  Runs::instance().begin(progress);
  const std::shared_ptr<void> ended(nullptr, [&](void*) { Runs::instance().end(progress); });
  std::exception_ptr failure;
  std::exception_ptr interruption;
  std::thread thread([&] {
    block_signals();
    try {
      work();
    } catch (...) {
      failure = std::current_exception();
    }
    progress.done();
  });
  for (bool done = false; !done;) {
    {
      const nanobind::gil_scoped_release released;
      done = progress.wait(milliseconds);
    }
    if (interruption) continue;
    try {
      if (PyErr_CheckSignals() != 0) throw nanobind::python_error();
      watch();
    } catch (...) {  // rethrown after the worker thread has ended
      interruption = std::current_exception();
      progress.stop();
    }
  }
  {
    const nanobind::gil_scoped_release released;  // the thread may still be stopping its OpenMP threads
    thread.join();
  }
  if (interruption) std::rethrow_exception(interruption);
  if (failure) std::rethrow_exception(failure);
}

void run_on_worker(const std::function<void()>& work) {
  WatchedProgress progress(false);
  run_on_worker(progress, work, [] {});
}

void stop_all() { Runs::instance().stop_all(); }

}  // namespace periscope::python
