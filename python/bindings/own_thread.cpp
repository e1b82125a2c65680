#include "python/bindings/own_thread.h"

#include <nanobind/nanobind.h>
#include <pthread.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <exception>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "sim/base/error.h"

namespace periscope::python {
namespace {

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
  /// To be called with the GIL.
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

}  // namespace

void WatchedProgress::say(const std::string& lines) {
  const std::lock_guard lock(mutex_);
  said_.push_back(lines);
  changed_ = true;
}

bool WatchedProgress::recorded(const stacks::TrainingRecord& record) {
  if (!answers_records_) return true;
  std::unique_lock lock(mutex_);
  record_ = &record;
  answer_.reset();
  for_watcher_.notify_all();
  for_run_.wait(lock, [&] { return answer_.has_value() || stop_; });
  record_ = nullptr;
  return answer_.value_or(true);  // a stopped run asks stop_requested next, and stores its state
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
  return Snapshot{.what = what_,
                  .label = label_,
                  .share = meter_.share().value_or(0.0),
                  .steps_done = meter_.done(),
                  .steps = meter_.tasks(),
                  .seconds = meter_.seconds(),
                  .seconds_left = meter_.seconds_left(),
                  .said = std::exchange(said_, {})};
}

const stacks::TrainingRecord* WatchedProgress::record() {
  const std::lock_guard lock(mutex_);
  return answer_ ? nullptr : record_;
}

void WatchedProgress::answer(bool go_on) {
  const std::lock_guard lock(mutex_);
  answer_ = go_on;
  for_run_.notify_all();
}

void on_own_thread(WatchedProgress& progress, const std::function<void()>& work, const std::function<void()>& watch) {
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

void on_own_thread(const std::function<void()>& work) {
  WatchedProgress progress(false);
  on_own_thread(progress, work, [] {});
}

void stop_all() { Runs::all().stop_all(); }

}  // namespace periscope::python
