#pragma once

#include <functional>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "experiments/engine/settings/config.h"
#include "experiments/engine/settings/sweep.h"
#include "experiments/engine/study/flag.h"
#include "sim/checkpoint/memory_model.h"

namespace periscope::study {

using FlagNames = std::set<std::string, std::less<>>;

/// Returns the common flags of a run, --seed, --seeds, --threads, --device, --dtype, --memory and --out, except those
/// in `without`. All except --memory take precedence over the key of [run] of the same name.
std::vector<Flag<config::RunOptions>> run_flags(const FlagNames& without = {});

/// Returns the keys of [run] that have a common flag, such as "run.seed".
std::vector<std::string> keys_of_flags(const FlagNames& without);

/// Values of run.weights that a study supports: dense only, or any.
enum class Matrices { dense, any };

/// A request to run a study: a configuration, common flags that take precedence over it, and the study's own flags.
struct Request {
  std::span<const config::AnySection> known = {};   ///< valid sections of a configuration, for all studies
  std::string file = {};                            ///< path of the configuration (TOML); "" for none
  std::shared_ptr<const config::Tree> parsed = {};  ///< parsed configuration, used instead of `file`
  std::vector<std::string> entries = {};            ///< "a.b=value", equivalent to entries of the file
  std::vector<std::string> settings = {};           ///< take precedence over `entries`; each must have an effect
  std::vector<std::string> theory_settings = {};
  std::vector<config::Candidate> candidates = {};  ///< stacks to compare, instead of a sweep; may be empty
  FlagValues run = {};                             ///< values of run_flags
  bool force = false;                              ///< overwrite models, ignore memory estimates
  bool reads_texts = true;
  std::shared_ptr<config::TextFiles> texts = {};  ///< texts read by earlier requests, or null
  FlagValues flags = {};
  /// A model in memory, for studies of checkpoints; the flag `checkpoint` is then the model's name.
  std::shared_ptr<const MemoryModel> model = {};
  std::string command = {};                      ///< for messages
  std::vector<std::string> effective_keys = {};  ///< keys that have an effect, "model." for a whole table; empty: all

  /// Returns the entries followed by the settings; the last value of a key wins.
  [[nodiscard]] std::vector<std::string> all_settings() const;
  /// Returns the configuration with all settings applied. Throws ConfigError.
  [[nodiscard]] config::Tree tree() const;
  /// Loads the configuration, applies the common flags, checks them against the device, resolves defaults and reads
  /// texts. Studies that read a matrix more than once or by entry, or pair stacks by their weights, need dense
  /// matrices. Throws InputError and ConfigError, the latter also for a setting without effect.
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
