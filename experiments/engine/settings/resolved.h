#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "experiments/engine/settings/config.h"

namespace periscope::config {

/// Returns the SHA-256, in hex, of this program's sources and the CPU's instruction set.
const std::string& program_sha256();

/// Settings of a result, by section. `hashed` contains only settings that can change the result: not the number of
/// threads, not folders for results, and the content of files instead of their paths.
struct Resolved {
  Json printed;
  Json hashed;
  /// {"model.qk_norm": "full", "run.seeds": 4, …}: keys of model, init and input, run.seeds, run.dtype and run.weights
  /// with the same value in all stacks, set or derived, that differs from the default.
  Json differences = {};

  template <class S>
  Resolved& add(const Section<S>& section, const S& values) {
    const std::string name(section.name);
    printed[name] = section_json(section, values);
    hashed[name] = printed[name];
    return *this;
  }
};

/// Returns resolved_json as a flat object: {"model.width": 256, …}.
Json flat_json(const StackSpec& spec, bool for_hash = false);

/// Sets `settings` of every stack to a JSON object of the keys in which the stacks differ, except input.kind:
/// {"model.placement": "peri", "model.qk_norm": "full"}; unchanged for a single stack.
void note_differences(std::vector<StackSpec>& stacks);

Resolved resolved(const Config& config);
/// Returns the settings for stacks that do not come from the configuration, for example from a checkpoint.
Resolved resolved(const Config& config, const std::vector<StackSpec>& stacks);

/// Returns the SHA-256 of the hashed settings, in hex.
std::string config_sha256(const Resolved& resolved);

}  // namespace periscope::config
