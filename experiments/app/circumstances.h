#pragma once

#include <string>
#include <vector>

#include "experiments/core/dataset/dataset.h"

namespace periscope::app {

/// How this process was started, set once by main.
void set_argv(std::vector<std::string> argv);

/// The name of this machine's processor, as the system tells it.
std::string cpu_name();

/// When, where and how a result was made, which says nothing of the result: created (UTC), argv, cpu, threads, seconds
/// that it took, and the largest memory of this process so far in bytes.
dataset::Facts circumstances(int threads, double seconds);

}  // namespace periscope::app
