#include "experiments/app/stop_signals.h"

#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <ctime>

#include "sim/files/output_file.h"

namespace periscope::app {
namespace {

/// A stopped process is gone within a second, the removal of its temporary files included.
constexpr suseconds_t microseconds_to_stop = 800'000;

// Lock-free, so that a signal handler may use them.
std::atomic<int> signal_that_came = 0;
std::atomic<std::int64_t> came_at = 0;
std::atomic<const std::string*> resumable = nullptr;
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<const std::string*>::is_always_lock_free);

std::atomic<int> answered = 0;  // what the process returns, once that is settled

/// Returns the exit code of a process that a signal stopped, and writes, once, the note that says where it can go on.
/// Safe in a signal handler.
int note_and_code() {
  if (answered != 0) return answered;
  const std::string* note = resumable;
  answered = note == nullptr ? 128 + signal_that_came : static_cast<int>(ExitCode::stopped_early);
  if (note != nullptr) {
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, note->data(), note->size());
  }
  return answered;
}

std::int64_t milliseconds_now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{1000} * now.tv_sec + now.tv_nsec / 1'000'000;
}

/// Two signals within this time count as one, because a launcher may signal the process and then its group.
constexpr std::int64_t same_request = 100;  // milliseconds

/// Safe in a signal handler.
[[noreturn]] void end_now() {
  remove_temporary_files();
  _exit(note_and_code());
}

/// Sends SIGALRM after so long; 0: never. Safe in a signal handler.
void set_alarm(suseconds_t microseconds) {
  const itimerval once{.it_interval = {}, .it_value = {.tv_sec = 0, .tv_usec = microseconds}};
  setitimer(ITIMER_REAL, &once, nullptr);
}

extern "C" void ask_to_stop(int number) {
  if (number == SIGALRM) {
    if (signal_that_came != 0) end_now();
    return;  // somebody else's alarm
  }
  if (signal_that_came != 0) {
    if (milliseconds_now() - came_at < same_request) return;
    end_now();
  }
  came_at = milliseconds_now();
  signal_that_came = number;
  set_alarm(microseconds_to_stop);
}

}  // namespace

void install_stop_signals() {
  struct sigaction action {};
  action.sa_handler = ask_to_stop;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (const int number : {SIGHUP, SIGINT, SIGTERM, SIGALRM}) {
    struct sigaction before {};
    sigaction(number, nullptr, &before);
    // A shell starts background jobs with SIGINT ignored, and nohup commands with SIGHUP, which this leaves as it is.
    if (before.sa_handler != SIG_IGN || number == SIGALRM) sigaction(number, &action, nullptr);
  }
}

#ifdef __ELF__
/// Installed before any library or static object is initialised, which takes most of the time that a short command has.
__attribute__((section(".preinit_array"), used)) void (*const installed_early)() = install_stop_signals;
#endif

bool stop_signalled() { return signal_that_came != 0; }

ExitCode stopped() { return stop_signalled() ? static_cast<ExitCode>(note_and_code()) : ExitCode::ok; }

void forget_stop_signal() {
  set_alarm(0);
  signal_that_came = 0;
  answered = 0;
}

void set_resumable(const std::string& note) {
  if (resumable == nullptr) resumable = new std::string(note);  // never freed: the handler reads it on any thread
}

}  // namespace periscope::app
