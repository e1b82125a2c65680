#pragma once

#include <string>

#include "sim/base/error.h"

/// SIGHUP, SIGINT and SIGTERM. The first one asks the function that runs to stop; what does not end within a second,
/// or sees a second signal a tenth of a second later or more, is ended, its temporary files removed. A stopped process
/// returns 75, 129, 130 or 143; one that was complete before it was asked returns its own code.
namespace periscope::app {

/// Called at the start of main, and on ELF systems before that, when the process begins.
void install_stop_signals();

/// True once a signal has come. For Progress.
[[nodiscard]] bool stop_signalled();

/// 75 if the run is resumable, else 129, 130 or 143; `ok` if no signal has come. Prints the note of set_resumable.
[[nodiscard]] ExitCode stopped();

/// From now on a stopped process returns 75, and prints `note`, which says from where it is resumed.
void set_resumable(const std::string& note);

/// A result is complete: the signal that may have come stops nothing any more.
void forget_stop_signal();

}  // namespace periscope::app
