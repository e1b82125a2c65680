#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "experiments/engine/study/study.h"
#include "sim/base/error.h"

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

/// Runs `body`; returns its exit code, or 75, 129, 130 or 143 if it was stopped.
int exit_code_of(const std::function<ExitCode()>& body);

/// Adds a command that is no study, with `flags` and the common flags but those in `without`. Its body gets them and
/// returns the exit code, which goes to `code`. Returns the command, for further flags.
CLI::App* add_command(CLI::App& app, int& code, const std::string& name, const std::string& about,
                      const study::FlagNames& without, std::function<ExitCode(const CommonOptions&)> body,
                      const std::vector<study::FlagText>& flags = {});

/// Leaves --json and --quiet alone, for commands that simulate nothing.
inline const study::FlagNames no_run{"config", "vary",  "seed",   "seeds", "threads",
                                     "device", "dtype", "memory", "out",   "force"};

/// Returns a message about the first unknown command or flag: the nearest command; for a flag the commands that take
/// it, or else the nearest flag. "" if all are known.
std::string unknown_word(const CLI::App& app, const std::vector<std::string>& words);

}  // namespace periscope::app
