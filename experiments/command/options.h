#pragma once

#include <CLI/App.hpp>
#include <optional>
#include <string>
#include <vector>

#include "experiments/common/config.h"
#include "sim/numerics/number_format.h"

namespace periscope {

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
  bool json = false;
  bool quiet = false;
  bool skip_finished = false;
  bool force = false;  ///< do what would overwrite a model or not fit

  void add_to(CLI::App& command);
  /// --theory-set, of commands that hold a prediction against a measurement.
  void add_theory_set_to(CLI::App& command);
  /// --skip-finished, of commands that ask finished_run.
  void add_skip_finished_to(CLI::App& command);
  /// The configuration with the flags on top, checked. Sets the number of OpenMP threads.
  [[nodiscard]] Config load() const;
  /// The same with the experiment's own section.
  template <class Own>
  [[nodiscard]] Own load(const Section<Own>& section) const {
    Own own;
    static_cast<Config&>(own) = load();
    load_section(section, config, settings, own);
    return own;
  }
};

/// The format of that name. Throws ConfigError, which lists them.
NumberFormat parse_format(const std::string& word);

}  // namespace periscope
