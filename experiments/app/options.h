#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "experiments/core/config/config.h"
#include "sim/numerics/number_format.h"

namespace periscope {

/// Which matrices a command can do with: dense alone, or whatever run.weights says.
enum class Matrices { dense, any };

/// The flags that every command takes, and what they were set to.
struct CommonOptions {
  std::string config;
  std::vector<std::string> settings;
  std::vector<std::string> theory_settings;
  std::optional<std::uint64_t> seed;
  std::optional<int> seeds;
  std::optional<int> threads;
  std::optional<std::string> device;
  std::optional<std::string> dtype;
  std::optional<std::string> out;
  std::optional<double> memory;
  bool json = false;
  bool quiet = false;
  bool skip_finished = false;
  bool force = false;  ///< do what would overwrite a model or not fit

  void add_to(CLI::App& command);
  /// --theory-set, of commands that hold a prediction against a measurement.
  void add_theory_set_to(CLI::App& command);
  /// --skip-finished, of commands that ask finished_run.
  void add_skip_finished_to(CLI::App& command);
  /// The configuration with the flags on top, checked. Sets the number of OpenMP threads. A command that reads a
  /// matrix more than once, or by its entries, or pairs stacks by their weights has them dense.
  [[nodiscard]] Config load(Matrices matrices = Matrices::dense) const;
  /// The same with the experiment's own section.
  template <class Own>
  [[nodiscard]] Own load(const Section<Own>& section, Matrices matrices = Matrices::dense) const {
    Own own;
    static_cast<Config&>(own) = load(matrices);
    load_section(section, config, settings, own);
    return own;
  }
};

}  // namespace periscope
