#pragma once

#include <string>
#include <vector>

namespace periscope::power {

/// A configuration that wrong theories are confronted with.
struct PowerConfig {
  std::string name;
  std::string file;                   ///< of the configuration, as a path that can be opened
  std::vector<std::string> settings;  ///< a.b=v on top of it
  bool ladder = false;                ///< confronted along a ladder of widths (T23) instead of at its own width
  bool master_seeds = false;          ///< small enough for `power --master-seeds`
};

/// A theory that is wrong on purpose, and where that has to be noticed.
struct WrongTheory {
  std::string name;
  std::vector<std::string> settings;    ///< what is overridden for theory, as after --theory-set
  std::string config;                   ///< name of a PowerConfig
  std::vector<std::string> placements;  ///< stacks of that run that hear of it; empty: all
  std::vector<std::string> inputs;      ///< likewise
};

/// The list that `periscope power` runs through.
struct PowerList {
  std::string file;
  std::vector<PowerConfig> configs;
  std::vector<WrongTheory> theories;
};

/// Reads a list (TOML: [[config]] and [[theory]]). Files are relative to the list. Throws ConfigError.
PowerList read_power_list(const std::string& file);

}  // namespace periscope::power
