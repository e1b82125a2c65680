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
  /// The settings that the result was made from, if they became known only while it ran; used instead of Job::resolved.
  std::optional<config::Resolved> resolved = {};
  /// Writes other files than that of the result, to be called when this is written.
  std::function<void(stacks::Progress&)> write_files = {};
  bool stopped_early = false;  ///< as Progress asked; nothing else is here then
};

/// The exit code of a result whose check passed, or not: of a theory that was rejected, of a bound that was violated.
constexpr ExitCode code_of(bool passed) { return passed ? ExitCode::ok : ExitCode::check_failed; }

/// A study's answer to a request: what it will compute, checked, and what that needs. `run` may be called from any
/// process: it reads no command line, prints nothing, handles no signal, starts no child, and stops when Progress says
/// so. It computes with the threads that its caller's OpenMP has.
struct Job {
  std::string file;  ///< name of the result's files, without folder and extension; "" if there are none
  config::RunOptions run_options;
  config::Resolved resolved;
  nlohmann::ordered_json overridden = {};  ///< what theory has instead of the truth (override_json); null: the truth
  std::optional<stacks::MemoryEstimate> memory = {};  ///< none: the run finds out itself
  std::string unskippable = {};                       ///< why a result file is not all that this makes; "" if it is
  std::function<Outcome(stacks::Progress&)> run;
};

/// An experiment as a value. Commands, their help, lists, result schemas and documentation are made from it.
struct Study {
  std::string name;        ///< the command: "propagate", "gradients depth"
  std::string question;    ///< what it answers, in a line
  std::string example;     ///< a command that shows it, for lists
  std::string takes = {};  ///< how long the example runs, where that is minutes: "36 minutes on 2 cores"
  /// Stands in where a caller names no configuration: a file of the project, by its path from the project's folder. "":
  /// the defaults of all keys do.
  std::string configuration = {};
  std::string group = {};                         ///< of a name of two words: what the first one stands for
  std::vector<config::AnySection> sections = {};  ///< of the configuration, besides those that all have
  std::vector<FlagText> flags = {};               ///< besides the common ones
  const dataset::Schema* schema = nullptr;        ///< of its result; null: the answer is a document
  bool compares = false;                          ///< holds a prediction against a measurement: takes --theory-set
  bool skips = false;                             ///< a result file can stand for a run: takes --skip-finished
  CommonFlags common = {};                        ///< the common flags that it takes
  /// Keys that act besides those of its own sections and those of its common flags; "model." stands for a whole table.
  std::vector<std::string> shared_keys = {"model.",     "init.",        "input.",     "theory.",
                                          "agreement.", "run.backward", "run.weights"};
  bool json_file = false;    ///< writes its JSON into a file too
  bool shown_first = false;  ///< its example is among those that a newcomer sees
  /// Throws ConfigError and InputError for what can be seen without computing that it cannot be done.
  std::function<Job(const Request&)> resolve;
};

/// The keys that act in a study, as Request::acting has them.
[[nodiscard]] std::vector<std::string> acting_keys(const Study& study);

/// The file with that extension of the result of a job that has a folder for results.
[[nodiscard]] std::string result_file(const Job& job, const std::string& extension);

/// Returns the cache of a job in its folder for results; nothing without such a folder, and where the settings become
/// known only while it runs.
[[nodiscard]] std::optional<cache::Cache> cache_of(const Study& study, const Job& job);

}  // namespace periscope::study
