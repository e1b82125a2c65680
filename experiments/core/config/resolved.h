#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "experiments/core/config/config.h"

namespace periscope::config {

/// The SHA-256, in hex, of what this program was built from: results and journals count for it alone.
const std::string& program_sha256();

/// What a result was made from, by sections: as it is printed, and what its hash is of. The hash covers what changes a
/// result and nothing else: of files their content, not their paths; neither threads nor folders for results.
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
/// The same of stacks that something else than the configuration says, as a checkpoint.
Resolved resolved(const Config& config, const std::vector<StackSpec>& stacks);

/// The SHA-256, in hex, of what is hashed.
std::string config_sha256(const Resolved& resolved);

}  // namespace periscope::config
