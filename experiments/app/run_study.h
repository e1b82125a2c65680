#pragma once

#include <CLI/CLI.hpp>

#include "experiments/engine/study/study.h"

namespace periscope::app {

/// Adds the command of a study, "gradients depth" below a command "gradients". A command that runs sets `code`, the
/// process's exit code: SIGINT and SIGTERM stop it; with run.out finished tasks are cached in that folder, from which
/// the same command resumes; they stay, and a message says where, if the run fails.
void add_study(CLI::App& app, int& code, const study::Study& study);

}  // namespace periscope::app
