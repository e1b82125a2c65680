#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "experiments/engine/study/study.h"

namespace periscope::app {

/// The command line that started this process, which results state; set by main.
inline std::vector<std::string> command_line;

/// Adds the command of a study, "gradients depth" below a command "gradients". A command that runs sets `code`, the
/// process's exit code: SIGINT and SIGTERM stop it; with run.out finished tasks are cached in that folder, from which
/// the same command resumes; they stay, and a message says where, if the run fails.
void add_study(CLI::App& app, int& code, const study::Study& study);

}  // namespace periscope::app
