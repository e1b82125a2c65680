#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "experiments/common/config.h"

namespace periscope {

/// How this process was started, set once by main.
void set_argv(std::vector<std::string> argv);

/// Where a result comes from: version, commit, compiler, CPU, device, dtype, seeds, argv, the resolved
/// configuration and its SHA-256. Every value is text, a number or a list; names are stable.
nlohmann::ordered_json provenance(const Config& config);

std::string sha256_hex(const std::string& text);

}  // namespace periscope
