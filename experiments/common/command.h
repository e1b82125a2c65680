#pragma once

#include <CLI/App.hpp>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "experiments/common/options.h"
#include "sim/spec/error.h"

namespace periscope {

/// Adds a command with the common flags, whose body gets them and returns the exit code, which goes to `code`. Returns
/// the command, for further flags.
CLI::App* add_command(CLI::App& app, int& code, const std::string& name, const std::string& about,
                      std::function<ExitCode(const CommonOptions&)> body);

/// The same for a command that also takes --theory-set.
CLI::App* add_comparing_command(CLI::App& app, int& code, const std::string& name, const std::string& about,
                                std::function<ExitCode(const CommonOptions&)> body);

/// The result of --json: one object in one line on standard output. Text that is no UTF-8 is replaced.
void print_json(const nlohmann::ordered_json& json);

}  // namespace periscope
