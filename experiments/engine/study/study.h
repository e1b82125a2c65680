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
  std::optional<dataset::Dataset> data = {};  ///< by the study's schema
  nlohmann::ordered_json document = {};       ///< instead of `data`, where the answer is no dataset
  std::string table = {};                     ///< for people: whole lines, with colours as fmt writes them
  ExitCode code = ExitCode::ok;               ///< what the result means
  /// Used instead of Job::resolved if the settings became known only during the run.
  std::optional<config::Resolved> resolved = {};
  /// Writes further files, after that of the result.
  std::function<void(stacks::Progress&)> write_files = {};
};

/// The exit code of a result whose check passed, or not: of a theory that was rejected, of a bound that was violated.
constexpr ExitCode code_of(bool passed) { return passed ? ExitCode::ok : ExitCode::check_failed; }

/// A checked request, ready to run. `run` may be called from any process: it reads no command line, prints nothing,
/// handles no signal, starts no child, stops when Progress says so, and uses its caller's OpenMP threads.
struct Job {
  std::string file;  ///< name of the result's files, without folder and extension; "" if there are none
  config::RunOptions run_options;
  config::Resolved resolved;
  nlohmann::ordered_json overridden = {};             ///< override_json; null: nothing
  std::optional<stacks::MemoryEstimate> memory = {};  ///< nullopt: estimated by the run itself
  std::string unskippable_reason = {};                ///< why a result file cannot stand for the run; "" if it can
  std::function<Outcome(stacks::Progress&)> run;
};

/// An experiment as a value. Commands, their help, lists, result schemas and documentation are made from it.
struct Study {
  std::string name;                   ///< the command: "propagate", "gradients depth"
  std::string question;               ///< what it answers, in a line
  std::string example;                ///< a command that shows it, for lists
  std::string example_duration = {};  ///< how long the example runs, where that is minutes: "36 minutes on 2 cores"
  /// The configuration if the caller names none: a path from the project's folder; "": the defaults of all keys.
  std::string configuration = {};
  std::string group = {};                         ///< of a name of two words: what the first one stands for
  std::vector<config::AnySection> sections = {};  ///< of the configuration, besides those that all have
  std::vector<FlagText> flags = {};               ///< besides the common ones
  const dataset::Schema* schema = nullptr;        ///< of its result; null: the answer is a document
  bool compares = false;                          ///< compares prediction and measurement: takes --theory-set
  bool skippable = false;                         ///< a result file can stand for a run: takes --skip-finished
  /// Common flags that it does not take: of "config" (with --set), "vary", "force" and run_flags.
  FlagNames without = {};
  /// Keys that act besides those of its own sections and those of its common flags; "model." stands for a whole table.
  std::vector<std::string> shared_keys = {"model.",     "init.",        "input.",     "theory.",
                                          "agreement.", "run.backward", "run.weights"};
  bool json_file = false;    ///< writes its JSON into a file too
  bool shown_first = false;  ///< its example is among those that a newcomer sees
  /// Throws ConfigError and InputError for requests that can be rejected without computing.
  std::function<Job(const Request&)> resolve;
};

/// The keys that act in a study, as Request::effective_keys has them.
[[nodiscard]] std::vector<std::string> effective_keys(const Study& study);

/// The file with that extension of the result of a job that has a folder for results.
[[nodiscard]] std::string result_file(const Job& job, const std::string& extension);

/// Returns the cache of a job in its folder for results; nullopt without such a folder, and if the settings become
/// known only during the run.
[[nodiscard]] std::optional<cache::Cache> cache_of(const Study& study, const Job& job);

/// Adds provenance attributes to the outcome's dataset, before the study's own: program, version, commit, compiler,
/// device, instruction set, the resolved configuration and its SHA-256, overrides, study and kind of result. Their
/// names are stable.
void add_provenance(const Study& study, const Job& job, Outcome& outcome);

/// The name of this machine's processor.
std::string cpu_name();

/// Returns the circumstances of a run, which do not influence its result: created (UTC), argv (the command line of the
/// process), cpu, threads, seconds that it took, and the largest memory of this process so far in bytes.
dataset::Attributes circumstances(const std::vector<std::string>& argv, int threads, double seconds);

nlohmann::ordered_json result_json(const Outcome& outcome);

/// Returns BibTeX of this program, or of the program that made a result, with the result's study and configuration, and
/// of the paper that it examines; `attribute` returns the text of a global attribute of the result.
std::string citation(const std::function<std::string(const char*)>& attribute = {});

}  // namespace periscope::study
