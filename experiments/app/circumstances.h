#pragma once

#include <string>
#include <vector>

#include "experiments/core/dataset/dataset.h"

namespace periscope::app {

/// Stores the command line that started this process. Called once, by main.
void set_argv(std::vector<std::string> argv);

/// The name of this machine's processor, as the system tells it.
std::string cpu_name();

/// Returns the circumstances of a run, which do not influence its result: created (UTC), argv, cpu, threads, seconds
/// that it took, and the largest memory of this process so far in bytes.
dataset::Facts circumstances(int threads, double seconds);

}  // namespace periscope::app
