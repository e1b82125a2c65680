#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "experiments/engine/study/study.h"

namespace periscope::app {

/// Command line of this process, stored in results; set by main.
inline std::vector<std::string> command_line;

/// Finds a configuration file of the project: `path` in the working directory or in the parent of the build folder, or
/// its file name in the installation's share/periscope/configs. Throws ConfigError, naming `flag`, if there is none.
std::string find_shipped_configuration(const std::string& path, const std::string& flag = "--config");

/// Adds the command of a study; "gradients depth" becomes subcommand "depth" of "gradients". Running the command sets
/// `code`, the exit code of the process. SIGINT and SIGTERM stop a run. With run.out, finished tasks are cached there,
/// and the same command resumes from them. If a run fails, a message names the folder of the cached tasks.
void add_study(CLI::App& app, int& code, const study::Study& study);

}  // namespace periscope::app
