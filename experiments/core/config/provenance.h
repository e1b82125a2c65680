#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "experiments/core/config/config.h"

namespace periscope {

/// How this process was started, set once by main.
void set_argv(std::vector<std::string> argv);

/// The SHA-256, in hex, of what this program was built from: results and journals count for it alone.
const std::string& program_sha256();

/// What a result was made from, by sections: as it is printed, and what its hash is of. The hash covers what changes a
/// result and nothing else: of files their content, not their paths; neither threads nor folders for results.
struct Resolved {
  nlohmann::ordered_json printed;
  nlohmann::ordered_json hashed;

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

/// Where a result comes from: version, commit, compiler, CPU, device, dtype, seeds, argv, the resolved
/// configuration and its SHA-256. Every value is text, a number or a list; names are stable.
nlohmann::ordered_json provenance(const RunOptions& run, const Resolved& resolved);
/// The same of an experiment on stacks, with what theory was told instead of them.
nlohmann::ordered_json provenance(const Config& config, const Resolved& resolved);
nlohmann::ordered_json provenance(const Config& config);

}  // namespace periscope
