#pragma once

#include <string>
#include <vector>

namespace periscope::study {

/// Which of the flags that commands share act in one of them; a command refuses the others. --json and --quiet act in
/// all.
struct CommonFlags {
  bool config = true;  ///< --config and --set
  bool vary = true;    ///< --vary
  bool seed = true;
  bool seeds = true;
  bool threads = true;
  bool device = true;
  bool dtype = true;
  bool memory = true;
  bool out = true;
  bool force = true;
};

/// The keys of [run] that act with their flags: "run.seed" where --seed does.
std::vector<std::string> keys_of(const CommonFlags& flags);

}  // namespace periscope::study
