#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "experiments/engine/study/study.h"

namespace periscope::app {

/// The values of the flags that commands share.
struct CommonOptions {
  study::Request asked;                 ///< what flags say of it
  std::vector<std::string> variations;  ///< --vary
  std::optional<std::string> csv;       ///< where the result goes as text, "-" for standard output
  bool json = false;
  bool quiet = false;
  bool skip_finished = false;

  /// Adds a command's own flags, the common ones but those in `without`, and --json and --quiet.
  void add_to(CLI::App& command, const study::FlagNames& without, const std::vector<study::FlagText>& flags);
  /// Adds the flags of a study, and --csv, --skip-finished and --theory-set where they act.
  void add_to(CLI::App& command, const study::Study& study);
  /// The request of `command`, in which the keys `acting` act (Request::acting).
  [[nodiscard]] study::Request request(std::string command, std::vector<std::string> acting) const;
};

}  // namespace periscope::app
