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
  nlohmann::ordered_json differences = {};  ///< as config_differences

  /// Adds a section of keys.
  template <class S>
  void add(const Section<S>& section, const S& values) {
    const std::string name(section.name);
    printed[name] = section_json(section, values);
    hashed[name] = section_json(section, values, true);
  }
};
Resolved resolved(const Config& config);
/// Returns the settings for stacks that do not come from the configuration, for example from a checkpoint.
Resolved resolved(const Config& config, const std::vector<StackSpec>& stacks);

/// The SHA-256, in hex, of what is hashed.
std::string config_sha256(const Resolved& resolved);

}  // namespace periscope::config
