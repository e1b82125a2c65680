#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "experiments/engine/settings/config.h"
#include "experiments/engine/study/flag.h"
#include "sim/checkpoint/memory_model.h"

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

/// Which matrices a study can do with: dense alone, or whatever run.weights says.
enum class Matrices { dense, any };

/// The request of a caller to a study: a configuration, common flags on top of it, and the study's own flags.
struct Request {
  std::span<const config::AnySection> known = {};  ///< the sections that a configuration may have: those of all studies
  std::string file = {};                           ///< of the configuration (TOML); "" for none
  std::vector<std::string> entries = {};           ///< "a.b=value", as if they stood in the file
  std::vector<std::string> settings = {};          ///< likewise, on top; every one of them must act
  std::vector<std::string> theory_settings = {};
  std::optional<std::uint64_t> seed = {};
  std::optional<int> seeds = {};
  std::optional<int> threads = {};
  std::optional<std::string> device = {};
  std::optional<std::string> dtype = {};
  std::optional<std::string> out = {};
  std::optional<double> memory = {};  ///< bytes
  bool force = false;                 ///< do what would overwrite a model or not fit
  bool reads_texts = true;            ///< false: the texts of inputs are not needed
  FlagValues flags = {};
  /// A model in memory, for studies of checkpoints: the folder that the flags give is then its name.
  std::shared_ptr<const MemoryModel> model = {};
  std::string command = {};              ///< for messages
  std::vector<std::string> acting = {};  ///< keys that act in it, "model." for a whole table; none: all do

  /// The entries and the settings, the last of a key wins.
  [[nodiscard]] std::vector<std::string> all_settings() const;
  /// The configuration with the common flags on top, checked against the device, with defaults resolved and texts read.
  /// A study that reads a matrix more than once, or by its entries, or pairs stacks by their weights has them dense.
  /// Throws ConfigError, for a setting of a key that does not act too, in this command or with the values of other
  /// keys, and InputError.
  [[nodiscard]] config::Config load(Matrices matrices = Matrices::dense) const;
  /// Loads the configuration as `load` does, and the study's own section with it.
  template <class Own>
  [[nodiscard]] Own load(const Section<Own>& section, Matrices matrices = Matrices::dense) const {
    Own own;
    static_cast<config::Config&>(own) = load(matrices);
    config::read_section(config::TomlReader(*own.tree), section, own);
    return own;
  }
};

/// Returns the number of threads of a run: run.threads, else OpenMP's default (OMP_NUM_THREADS, else all cores).
int threads_of(const config::RunOptions& run);

}  // namespace periscope::study
