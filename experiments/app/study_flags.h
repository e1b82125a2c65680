#pragma once

#include <CLI/CLI.hpp>
#include <vector>

#include "experiments/engine/study/flag.h"

namespace periscope::app {

/// Adds a study's own flags to its command; what they are given goes to `values`, which outlives the command.
void add_flags(CLI::App& command, const std::vector<study::FlagText>& flags, study::FlagValues& values);

}  // namespace periscope::app
