#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "experiments/engine/study/study.h"
#include "sim/base/error.h"

namespace periscope::app {

/// Values of the flags that commands share.
struct CommonOptions {
  study::Request from_flags;            ///< request in which only the fields set by flags differ from the defaults
  std::vector<std::string> variations;  ///< --vary
  std::optional<std::string> csv;       ///< path of the CSV file, or "-" for standard output
  bool json = false;
  bool quiet = false;
  bool skip_finished = false;

  /// Adds --json, --quiet, the command's own `flags`, and the common flags that are not in `without`.
  void add_to(CLI::App& command, const study::FlagNames& without, const std::vector<study::FlagText>& flags);
  /// Adds the flags of a study, and --csv, --skip-finished and --theory-set if the study supports them.
  void add_to(CLI::App& command, const study::Study& study);
  /// Returns the request for `command`, in which only `effective_keys` have an effect.
  [[nodiscard]] study::Request request(std::string command, std::vector<std::string> effective_keys) const;
};

/// Runs `body`; returns its exit code, or stop_exit_code() if a signal stopped it.
int exit_code_of(const std::function<ExitCode()>& body);

/// Adds a command that is not a study, with `flags` and the common flags except those in `without`. `body` receives
/// the flags' values; its exit code is stored in `code`. Returns the command, so that callers can add flags.
CLI::App* add_command(CLI::App& app, int& code, const std::string& name, const std::string& about,
                      const study::FlagNames& without, std::function<ExitCode(const CommonOptions&)> body,
                      const std::vector<study::FlagText>& flags = {});

/// Common flags that commands without a simulation omit; --json and --quiet remain.
inline const study::FlagNames no_run{"config", "vary",  "seed",   "seeds", "threads",
                                     "device", "dtype", "memory", "out",   "force"};

/// Returns `no_run` without the flags in `supported`.
study::FlagNames no_run_except(const study::FlagNames& supported);

/// Returns a message about the first unknown command or flag, or "" if all are known. It lists the commands that have
/// the flag, or suggests a command or flag with a similar name.
std::string unknown_word(const CLI::App& app, const std::vector<std::string>& words);

}  // namespace periscope::app
