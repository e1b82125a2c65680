#pragma once

#include "experiments/common/progress.h"
#include "experiments/probe/probe.h"

namespace periscope {

/// A checkpoint on tokens. Of the configuration, init, run, theory and agreement count, and input.second_moment.
struct ProbeConfig : Config {
  std::string checkpoint;  ///< its folder
  TokenSource source;
  bool with_theory = true;  ///< theory at initialisation, too
  int top = 10;             ///< largest entries of the stream per depth
  std::string dump;         ///< folder for activations and gradients; "": none
};

extern const Section<ProbeConfig> probe_section;

/// Runs the checkpoint, in config.run.dtype, and measures all that theory speaks of. Throws InputError for a bad
/// checkpoint or bad tokens, ConfigError for gradients of a pass without labels.
ProbeResult probe(const ProbeConfig& config, Progress& progress);

}  // namespace periscope
