#pragma once

#include <string>

#include "sim/base/error.h"

/// Handling of SIGHUP, SIGINT and SIGTERM. The first signal requests a stop. If the process is still running one second
/// later, or receives another signal after at least 0.1 s, it removes its temporary files and exits. A stopped process
/// returns 75, 129, 130 or 143. A process whose result was complete before the signal returns its own exit code.
namespace periscope::app {

/// Installs the handlers. Called at the start of main and, on ELF systems, already before static initialization.
void install_stop_signals();

/// Returns true once a signal has been received.
[[nodiscard]] bool stop_signal_received();

/// Returns `ok` if not stopped, 75 if resumable, else 129, 130 or 143. Prints the note of set_resumable.
[[nodiscard]] ExitCode stop_exit_code();

/// Makes a stopped process return 75 and print `note`, which names the folder to resume from.
void set_resumable(const std::string& note);

/// Discards a received signal; called when the result is complete.
void clear_stop_signal();

}  // namespace periscope::app
