#include "experiments/app/standard_streams.h"

#include <cstdlib>

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "experiments/engine/settings/json_text.h"
#include "sim/files/destination.h"
#include "sim/files/output_file.h"

namespace periscope::app {

void prepare_standard_streams() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(descriptor, F_GETFD) >= 0 || errno != EBADF) continue;
    // open() returns the lowest free descriptor, which is this one. The access mode makes reads and writes fail.
    [[maybe_unused]] const int opened = ::open("/dev/null", descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
  for (const int number : {SIGPIPE, SIGXFSZ}) std::signal(number, SIG_IGN);
}

void print_result(std::string_view text) {
  if (const int error = write_all(STDOUT_FILENO, text); error != 0) throw cannot_write("to standard output", error);
}

void print_json(const nlohmann::ordered_json& json) { print_result(config::json_text(json) + "\n"); }

void print_message(std::string_view text) noexcept {
  [[maybe_unused]] const int error = write_all(STDERR_FILENO, text);
}

bool use_colour() { return std::getenv("NO_COLOR") == nullptr && isatty(STDERR_FILENO) == 1; }

}  // namespace periscope::app
