#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>

#include "experiments/app/options.h"
#include "sim/base/error.h"

namespace periscope::app {

/// Runs `body`; returns its exit code, or 75, 129, 130 or 143 if it was stopped.
int exit_code_of(const std::function<ExitCode()>& body);

/// Adds a command that is no study, with `flags` and the common flags but those in `without`. Its body gets them and
/// returns the exit code, which goes to `code`. Returns the command, for further flags.
CLI::App* add_command(CLI::App& app, int& code, const std::string& name, const std::string& about,
                      const study::FlagNames& without, std::function<ExitCode(const CommonOptions&)> body,
                      const std::vector<study::FlagText>& flags = {});

/// Leaves --json and --quiet alone, for commands that simulate nothing.
inline const study::FlagNames no_run{"config", "vary",  "seed",   "seeds", "threads",
                                     "device", "dtype", "memory", "out",   "force"};

}  // namespace periscope::app
