#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "experiments/engine/settings/config.h"

namespace periscope::config {

/// Returns the SHA-256, in hex, of this program's sources and of the CPU's instruction set; cached runs are valid for
/// this program only.
const std::string& program_sha256();

/// The settings of a result, by sections, as printed and as hashed. The hash covers exactly what changes a result: the
/// content of files, not their paths; neither threads nor folders for results.
struct Resolved {
  Json printed;
  Json hashed;
  /// {"model.qk_norm": "full", "run.seeds": 4, …}: the keys of model, init and input, and run.seeds, run.dtype and
  /// run.weights, with the same value in all stacks that is not their default, also one that follows from other keys.
  Json differences = {};

  /// Adds a section of keys.
  template <class S>
  Resolved& add(const Section<S>& section, const S& values) {
    const std::string name(section.name);
    printed[name] = section_json(section, values);
    hashed[name] = printed[name];
    return *this;
  }
};

/// Returns resolved_json by path: {"model.width": 256, …}.
Json flat_json(const StackSpec& spec, bool for_hash = false);

/// Sets every stack's `settings` to its values of the keys in which the stacks differ, except input.kind, as a JSON
/// object: {"model.placement": "peri", "model.qk_norm": "full"}. A single stack keeps "".
void note_differences(std::vector<StackSpec>& stacks);

Resolved resolved(const Config& config);
/// Returns the settings for stacks that do not come from the configuration, for example from a checkpoint.
Resolved resolved(const Config& config, const std::vector<StackSpec>& stacks);

/// The SHA-256 of the hashed settings, in hex.
std::string config_sha256(const Resolved& resolved);

}  // namespace periscope::config
