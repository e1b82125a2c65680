#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "experiments/engine/study/study.h"

namespace periscope::app {

/// Command line of this process, stored in results; set by main.
inline std::vector<std::string> command_line;

/// Adds the command of a study; "gradients depth" becomes subcommand "depth" of "gradients". Running the command sets
/// `code`, the exit code of the process. SIGINT and SIGTERM stop a run. With run.out, finished tasks are cached there,
/// and the same command resumes from them. If a run fails, a message names the folder of the cached tasks.
void add_study(CLI::App& app, int& code, const study::Study& study);

}  // namespace periscope::app
