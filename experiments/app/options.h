#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "experiments/core/study/request.h"

namespace periscope::app {

/// The flags that every command takes, and what they were set to.
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

  void add_to(CLI::App& command);
  /// --theory-set, of commands that hold a prediction against a measurement.
  void add_theory_set_to(CLI::App& command);
  /// --csv, of studies.
  void add_csv_to(CLI::App& command);
  /// --skip-finished, of commands that ask finished_run.
  void add_skip_finished_to(CLI::App& command);
  /// What they ask for, with a command's own flags.
  [[nodiscard]] study::Request request(const study::FlagValues& flags = {}) const;
};

}  // namespace periscope::app
