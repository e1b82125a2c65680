#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "experiments/engine/cache/cache.h"
#include "experiments/engine/result/schema.h"
#include "experiments/engine/run/memory_estimate.h"
#include "experiments/engine/run/progress.h"
#include "experiments/engine/settings/resolved.h"
#include "experiments/engine/study/request.h"
#include "sim/base/error.h"

namespace periscope::study {

/// The results of a study.
struct Outcome {
  std::optional<dataset::Dataset> data = {};  ///< follows the study's schema
  nlohmann::ordered_json document = {};       ///< used instead of `data` if the result is not a dataset
  std::string table = {};                     ///< report for the terminal: whole lines, may contain colours
  ExitCode code = ExitCode::ok;
  /// Replaces Job::resolved if the settings become known only during the run.
  std::optional<config::Resolved> resolved = {};
  /// Writes additional files after the result file.
  std::function<void(stacks::Progress&)> write_files = {};
};

/// Returns check_failed unless `passed`, for example if a prediction is rejected or a bound is violated.
constexpr ExitCode code_of(bool passed) { return passed ? ExitCode::ok : ExitCode::check_failed; }

/// A validated request, ready to run. `run` may be called from any process: it reads no command line, prints nothing,
/// handles no signals, starts no processes, stops when Progress requests it, and uses the caller's OpenMP threads.
struct Job {
  std::string file;  ///< base name of result files, without folder and extension; "" for none
  config::RunOptions run_options;
  config::Resolved resolved;
  nlohmann::ordered_json overridden = {};             ///< override_json; null if there are no overrides
  double operations = 0.0;                            ///< estimate, of floating point; 0: unknown
  std::optional<stacks::MemoryEstimate> memory = {};  ///< nullopt: the run estimates its memory itself
  std::string unskippable_reason = {};                ///< why --skip-finished is unsupported for this run, or ""
  std::function<Outcome(stacks::Progress&)> run;
};

/// Description of an experiment, from which commands, help, lists and documentation are generated.
struct Study {
  std::string name;                   ///< command, such as "propagate" or "gradients depth"
  std::string question;               ///< the question it answers, in one line
  std::string example;                ///< an example command
  std::string example_duration = {};  ///< duration of the example if it takes minutes: "36 minutes on 2 cores"
  /// Default configuration file, relative to the project's folder; "": the defaults of all keys.
  std::string configuration = {};
  std::string group = {};                         ///< for names of two words: description of the first word
  std::vector<config::AnySection> sections = {};  ///< sections of the configuration that belong to this study
  std::vector<FlagText> flags = {};               ///< flags of this study
  const dataset::Schema* schema = nullptr;        ///< schema of the result; null: the result is a document
  bool compares = false;                          ///< compares prediction and measurement: supports --theory-set
  bool skippable = false;                         ///< supports --skip-finished
  /// Unsupported common flags: any of "config" (with --set), "vary", "force" and the names of run_flags.
  FlagNames without = {};
  /// Keys outside the study's own sections and common flags that have an effect; "model." means the whole table.
  std::vector<std::string> shared_keys = {"model.",     "init.",        "input.",     "theory.",
                                          "agreement.", "run.backward", "run.weights"};
  /// Number of parts into which a sweep without swept keys splits a request, by the flag "shard". Empty: unsupported.
  std::function<std::size_t(const Request&)> parts = {};
  bool json_file = false;    ///< also writes its JSON to a file
  bool shown_first = false;  ///< the example is shown to new users
  /// Validates a request. Throws ConfigError and InputError for requests that can be rejected without computing.
  std::function<Job(const Request&)> resolve;
};

/// Returns the keys with an effect in a study, in the form of Request::effective_keys.
[[nodiscard]] std::vector<std::string> effective_keys(const Study& study);

/// Returns the path of the job's result file with an extension. Requires a folder for results.
[[nodiscard]] std::string result_file(const Job& job, const std::string& extension);

/// Returns the cache in the job's folder for results; nullopt if there is no folder or settings are not yet known.
[[nodiscard]] std::optional<cache::Cache> cache_of(const Study& study, const Job& job);

/// Prepends provenance attributes to the outcome's dataset: program, version, commit, compiler, device, instruction
/// set, resolved configuration and its SHA-256, overrides, study and kind of result. Their names are stable.
void add_provenance(const Study& study, const Job& job, Outcome& outcome);

std::string cpu_name();

/// Returns circumstances of a run that do not change its result: created (UTC), argv (command line), cpu, threads,
/// seconds (duration) and peak_memory of the process, in bytes.
dataset::Attributes circumstances(const std::vector<std::string>& argv, int threads, double seconds);

/// Returns the dataset as JSON, or the document.
nlohmann::ordered_json result_json(const Outcome& outcome);

/// Returns BibTeX entries for this program and for the paper that it examines. If `attribute`, which returns a global
/// attribute of a result, is set, the entry describes the program, study and configuration of that result.
std::string citation(const std::function<std::string(const char*)>& attribute = {});

}  // namespace periscope::study
