#pragma once

#include <functional>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "experiments/engine/settings/config.h"
#include "experiments/engine/study/flag.h"
#include "sim/checkpoint/memory_model.h"

namespace periscope::study {

using FlagNames = std::set<std::string, std::less<>>;

/// Returns the common flags of a run, --seed, --seeds, --threads, --device, --dtype, --memory and --out, but those in
/// `without`. All but --memory override the key of [run] of the same name.
std::vector<Flag<config::RunOptions>> run_flags(const FlagNames& without = {});

/// Returns the keys of [run] that have a flag: "run.seed" where --seed is taken.
std::vector<std::string> keys_of_flags(const FlagNames& without);

/// The matrices that a study supports: dense ones only, or any value of run.weights.
enum class Matrices { dense, any };

/// A caller's request to a study: a configuration, common flags that override it, and the study's own flags.
struct Request {
  std::span<const config::AnySection> known = {};  ///< the sections that a configuration may have: those of all studies
  std::string file = {};                           ///< of the configuration (TOML); "" for none
  std::vector<std::string> entries = {};           ///< "a.b=value", as if written in the file
  std::vector<std::string> settings = {};          ///< override these; every one of them must have an effect
  std::vector<std::string> theory_settings = {};
  FlagValues run = {};  ///< of run_flags
  bool force = false;   ///< overwrite models, ignore memory estimates
  bool reads_texts = true;
  FlagValues flags = {};
  /// A model in memory, for studies of checkpoints; the flag `checkpoint` is then its name.
  std::shared_ptr<const MemoryModel> model = {};
  std::string command = {};                      ///< for messages
  std::vector<std::string> effective_keys = {};  ///< keys that have an effect, "model." for a whole table; empty: all

  /// Returns the entries and then the settings; the last setting of a key wins.
  [[nodiscard]] std::vector<std::string> all_settings() const;
  /// Returns the configuration with the common flags applied, checked against the device, defaults resolved and texts
  /// read. Studies that read a matrix more than once or by entry, or pair stacks by their weights, need dense matrices.
  /// Throws InputError, and ConfigError, also for a setting without effect.
  [[nodiscard]] config::Config load(Matrices matrices = Matrices::dense) const;
  /// Loads the configuration and the study's own section.
  template <class Own>
  [[nodiscard]] Own load(const Section<Own>& section, Matrices matrices = Matrices::dense) const {
    Own own;
    static_cast<config::Config&>(own) = load(matrices);
    config::read_section(config::TomlReader(own.tree), section, own);
    return own;
  }
};

/// Returns the number of threads of a run: run.threads, else OpenMP's default (OMP_NUM_THREADS, else all cores).
int threads_of(const config::RunOptions& run);

}  // namespace periscope::study
