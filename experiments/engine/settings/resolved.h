#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "experiments/engine/settings/config.h"

namespace periscope::config {

/// The SHA-256, in hex, of what this program was built from and of the instruction set with which it computes on the
/// CPU: finished runs count for it alone.
const std::string& program_sha256();

/// The settings that a result was made from, by sections: once as they are printed, once as they are hashed. The hash
/// covers what changes a result and nothing else: the content of files, not their paths; neither threads nor folders
/// for results.
struct Resolved {
  nlohmann::ordered_json printed;
  nlohmann::ordered_json hashed;
  /// {"model.qk_norm": "full", "run.seeds": 4, …}: the keys of model, init and input, and run.seeds, run.dtype and
  /// run.weights, that have the same value in all stacks, which is not their default. Defaults that follow from other
  /// keys, as model.kv_heads, count as such.
  nlohmann::ordered_json differences = {};

  /// Adds a section of keys.
  template <class S>
  Resolved& add(const Section<S>& section, const S& values) {
    const std::string name(section.name);
    printed[name] = section_json(section, values);
    hashed[name] = printed[name];
    return *this;
  }
};

/// Every key of model, init and input by path: {"model.width": 256, …}; for_hash as in resolved_json.
nlohmann::ordered_json flat_json(const StackSpec& spec, bool for_hash = false);

/// Puts into every stack's `settings` the keys in which the stacks differ, with its own values, as a JSON object:
/// {"model.placement": "peri", "model.qk_norm": "full"}. input.kind, which results have a dimension for, is none of
/// them. A stack that is alone keeps "".
void note_differences(std::vector<StackSpec>& stacks);

Resolved resolved(const Config& config);
/// Returns the settings for stacks that do not come from the configuration, for example from a checkpoint.
Resolved resolved(const Config& config, const std::vector<StackSpec>& stacks);

/// The SHA-256, in hex, of what is hashed.
std::string config_sha256(const Resolved& resolved);

}  // namespace periscope::config
