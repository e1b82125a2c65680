#include "experiments/app/child_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <string_view>

#include "sim/base/error.h"
#include "sim/files/output_file.h"

namespace periscope::app {
namespace {

constexpr int child_failed = 1;
constexpr int child_too_long = 2;

[[noreturn]] void no_child(int error) {
  throw Error(ExitCode::runtime_failure, fmt::format("cannot start a process to read with: {}", std::strerror(error)));
}

/// Bytes of address space that this process has. The sanitizers reserve terabytes of it, so limits count from there.
std::size_t address_space() {
  std::size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

/// Beyond `most` comes the limit's signal, beyond `most` + `grace` SIGKILL.
void limit(decltype(RLIMIT_CPU) resource, std::size_t most, std::size_t grace = 0) {
  const rlimit both{.rlim_cur = most, .rlim_max = most + grace};
  ::setrlimit(resource, &both);
}

void restrict_this_process(const ChildLimits& limits) {
  // A terminal signals the whole group. The parent answers, and this process ends with it.
  for (const int number : {SIGHUP, SIGINT, SIGTERM}) ::signal(number, SIG_IGN);
  ::signal(SIGALRM, SIG_DFL);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const int nowhere = ::open("/dev/null", O_RDWR);
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(nowhere, descriptor);
  limit(RLIMIT_CORE, 0);
  limit(RLIMIT_CPU, limits.cpu_seconds, 1);
  limit(RLIMIT_AS, address_space() + limits.memory);
  ::alarm(10 * limits.cpu_seconds);
}

/// All bytes, or the process ends: the parent has gone or does not want more.
void send(int pipe, std::string_view bytes) {
  if (write_all(pipe, bytes) != 0) ::_exit(child_failed);
}

[[noreturn]] void run_child(int pipe, const ChildLimits& limits, const std::function<void(const SendMessage&)>& work) {
  std::size_t sent = 0;
  try {
    restrict_this_process(limits);
    work([&](const std::string& message) {
      sent += sizeof(std::uint64_t) + message.size();
      if (sent > limits.answer_size) ::_exit(child_too_long);
      const std::uint64_t length = message.size();
      send(pipe, {reinterpret_cast<const char*>(&length), sizeof(length)});
      send(pipe, message);
    });
  } catch (...) {
    ::_exit(child_failed);
  }
  // Not exit: what this process would flush or remove belongs to its parent.
  ::_exit(0);
}

/// Everything until the child closes the pipe; nothing beyond `most` bytes.
std::string read_all(int pipe, std::size_t most) {
  std::string text;
  std::array<char, 65536> part{};
  while (text.size() <= most) {
    const ssize_t n = ::read(pipe, part.data(), part.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    text.append(part.data(), static_cast<std::size_t>(n));
  }
  return text;
}

/// The messages in `text`; false if the last one is cut.
bool split(const std::string& text, std::vector<std::string>& messages) {
  std::size_t at = 0;
  while (at < text.size()) {
    std::uint64_t length = 0;
    if (text.size() - at < sizeof(length)) return false;
    std::memcpy(&length, text.data() + at, sizeof(length));
    at += sizeof(length);
    if (text.size() - at < length) return false;
    messages.push_back(text.substr(at, length));
    at += length;
  }
  return true;
}

std::string failure_of(int status) {
  if (WIFSIGNALED(status)) {
    const int number = WTERMSIG(status);
    if (number == SIGXCPU || number == SIGALRM) return "it took too long";
    if (number == SIGKILL) return "it was killed";  // by a person, or by the system for want of memory
    return fmt::format("it crashed with signal {} ({})", number, ::strsignal(number));
  }
  if (WEXITSTATUS(status) == child_too_long) return "it gave more than the file can hold";
  return "it failed, or wanted too much memory";
}

}  // namespace

ChildAnswer in_child(const ChildLimits& limits, const std::function<void(const SendMessage&)>& work) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) no_child(errno);
  const pid_t child = ::fork();
  if (child < 0) {
    const int error = errno;
    ::close(ends[0]);
    ::close(ends[1]);
    no_child(error);
  }
  if (child == 0) run_child(ends[1], limits, work);
  ::close(ends[1]);
  ChildAnswer answer{.messages = {}, .complete = false, .failure = {}};
  bool whole = false;
  try {
    whole = split(read_all(ends[0], limits.answer_size), answer.messages);
  } catch (...) {
    ::close(ends[0]);
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    throw;
  }
  ::close(ends[0]);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  answer.complete = whole && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  if (!answer.complete) answer.failure = failure_of(status);
  return answer;
}

}  // namespace periscope::app
