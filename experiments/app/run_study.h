#pragma once

#include <CLI/CLI.hpp>

#include "experiments/engine/study/study.h"

namespace periscope::app {

/// Adds the command of a study, "gradients depth" below a command "gradients". A command that runs sets `code`, the
/// process's exit code: SIGINT and SIGTERM stop it; with run.out a journal in that folder keeps the finished cells of a
/// study that has some, from which the same command goes on; it stays, and a message says where, if the run fails.
void add_study(CLI::App& app, int& code, const study::Study& study);

}  // namespace periscope::app
