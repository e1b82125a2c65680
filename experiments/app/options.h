#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "experiments/engine/study/common_flags.h"
#include "experiments/engine/study/request.h"

namespace periscope::app {

/// The values of the flags that commands share.
struct CommonOptions {
  std::string config;
  std::vector<std::string> settings;
  std::vector<std::string> variations;  ///< --vary
  std::vector<std::string> theory_settings;
  std::optional<std::uint64_t> seed;
  std::optional<int> seeds;
  std::optional<int> threads;
  std::optional<std::string> device;
  std::optional<std::string> dtype;
  std::optional<std::string> out;
  std::optional<double> memory;
  std::optional<std::string> csv;  ///< where the result goes as text, "-" for standard output
  bool json = false;
  bool quiet = false;
  bool skip_finished = false;
  bool force = false;  ///< do what would overwrite a model or not fit

  /// Adds those of the flags that `taken` names, and --json and --quiet.
  void add_to(CLI::App& command, const study::CommonFlags& taken);
  /// Adds --theory-set, for commands that hold a prediction against a measurement.
  void add_theory_set_to(CLI::App& command);
  /// Adds --csv, for studies.
  void add_csv_to(CLI::App& command);
  /// Adds --skip-finished, for commands that ask finished_run.
  void add_skip_finished_to(CLI::App& command);
  /// The request of `command`, in which the keys `acting` act (Request::acting), with its own flags.
  [[nodiscard]] study::Request request(std::string command, std::vector<std::string> acting,
                                       study::FlagValues flags = {}) const;
};

}  // namespace periscope::app
