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

/// Time from the first signal to the forced exit. It leaves 0.2 s to remove temporary files within one second.
constexpr suseconds_t microseconds_to_stop = 800'000;

// Lock-free, so that a signal handler may use them.
std::atomic<int> received_signal = 0;
std::atomic<std::int64_t> received_at = 0;  // milliseconds
std::atomic<const std::string*> resume_note = nullptr;
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<const std::string*>::is_always_lock_free);

std::atomic<int> exit_code = 0;  // exit code of the stopped process; 0 until it is determined

/// Returns the exit code of a stopped process. The first call prints the note on where to resume. Async-signal-safe.
int print_note_and_get_code() {
  if (exit_code != 0) return exit_code;
  const std::string* note = resume_note;
  exit_code = note == nullptr ? 128 + received_signal : static_cast<int>(ExitCode::stopped_early);
  if (note != nullptr) {
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, note->data(), note->size());
  }
  return exit_code;
}

std::int64_t milliseconds_now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{1000} * now.tv_sec + now.tv_nsec / 1'000'000;
}

/// Two signals within this time count as one, because a launcher may signal the process and then its group.
constexpr std::int64_t duplicate_window = 100;  // milliseconds

/// Async-signal-safe.
[[noreturn]] void end_now() {
  remove_temporary_files();
  _exit(print_note_and_get_code());
}

/// Schedules SIGALRM; 0 cancels it. Async-signal-safe.
void set_alarm(suseconds_t microseconds) {
  const itimerval once{.it_interval = {}, .it_value = {.tv_sec = 0, .tv_usec = microseconds}};
  setitimer(ITIMER_REAL, &once, nullptr);
}

extern "C" void on_stop_signal(int number) {
  if (number == SIGALRM) {
    if (received_signal != 0) end_now();
    return;  // an alarm from elsewhere, not from set_alarm
  }
  if (received_signal != 0) {
    if (milliseconds_now() - received_at < duplicate_window) return;
    end_now();
  }
  received_at = milliseconds_now();
  received_signal = number;
  set_alarm(microseconds_to_stop);
}

}  // namespace

void install_stop_signals() {
  struct sigaction action {};
  action.sa_handler = on_stop_signal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (const int number : {SIGHUP, SIGINT, SIGTERM, SIGALRM}) {
    struct sigaction before {};
    sigaction(number, nullptr, &before);
    // Signals that are already ignored stay ignored: SIGINT in background jobs of a shell, SIGHUP under nohup.
    if (before.sa_handler != SIG_IGN || number == SIGALRM) sigaction(number, &action, nullptr);
  }
}

#ifdef __ELF__
/// Runs before the initialization of libraries and static objects, which takes most of a short command's time.
__attribute__((section(".preinit_array"), used)) void (*const installed_early)() = install_stop_signals;
#endif

bool stop_signal_received() { return received_signal != 0; }

ExitCode stop_exit_code() {
  return stop_signal_received() ? static_cast<ExitCode>(print_note_and_get_code()) : ExitCode::ok;
}

void clear_stop_signal() {
  set_alarm(0);
  received_signal = 0;
  exit_code = 0;
}

void set_resumable(const std::string& note) {
  if (resume_note == nullptr) resume_note = new std::string(note);  // never freed: the handler reads it on any thread
}

}  // namespace periscope::app
