#pragma once

#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

namespace periscope {

/// Exit codes of the program; a stable part of the command-line interface.
enum class ExitCode : int {
  ok = 0,
  runtime_failure = 1,
  configuration = 2,   ///< usage error, unknown key, wrong type, impossible shape
  invalid_input = 3,   ///< an input file is unreadable, malformed or inconsistent
  check_failed = 4,    ///< theory rejected by the measurement, or a bound violated
  diverged = 5,        ///< a run diverged; only with --fail-on-divergence
  stopped_early = 75,  ///< stopped by SIGINT or SIGTERM; the same command resumes
  interrupted = 130,   ///< stopped by SIGINT; nothing to resume
  terminated = 143,    ///< stopped by SIGTERM; nothing to resume
};

/// An error to report to the user: a message and the exit code of the process.
class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& what) : std::runtime_error(what), code_(code) {}
  [[nodiscard]] ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

/// An invalid setting. The message names the key, its value and the expected values.
class ConfigError : public Error {
 public:
  explicit ConfigError(const std::string& what) : Error(ExitCode::configuration, what) {}
};

/// An unusable input file. The message names the file, its content and the expected content.
class InputError : public Error {
 public:
  explicit InputError(const std::string& what) : Error(ExitCode::invalid_input, what) {}
};

/// Returns the element of `names` that is closest to a misspelt `word` by edit distance, or "" if there are no names.
/// Names within two edits of `word`, and names that start with `word` or are a prefix of it, take precedence.
[[nodiscard]] std::string nearest(std::string_view word, std::span<const std::string> names);

/// Returns the nearest name if it is similar, else "". Similar means at most two edits and at most half of the letters
/// of `word`. A name that starts with `word` or is its prefix is similar, too.
[[nodiscard]] std::string similar_name(std::string_view word, std::span<const std::string> names);

/// Returns the suffix of an error message, "; nearest is " + `prefix` + name, or "" if no name is similar.
[[nodiscard]] std::string suggestion(std::string_view word, std::span<const std::string> names,
                                     std::string_view prefix = "");

}  // namespace periscope
