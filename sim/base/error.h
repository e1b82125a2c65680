#pragma once

#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

namespace periscope {

/// The exit code of a process that ends for this reason. It is part of the command-line contract.
enum class ExitCode : int {
  ok = 0,
  runtime_failure = 1,
  configuration = 2,   ///< usage, unknown key, wrong type, impossible shape
  invalid_input = 3,   ///< a file that was read is not what it claims to be
  check_failed = 4,    ///< theory rejected, or a bound violated
  diverged = 5,        ///< only with --fail-on-divergence
  stopped_early = 75,  ///< by SIGINT or SIGTERM; the same command goes on from there
  interrupted = 130,   ///< by SIGINT, with nothing to go on from
  terminated = 143,    ///< by SIGTERM, likewise
};

/// The one error type: a sentence for the user, and the exit code that goes with it.
class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& what) : std::runtime_error(what), code_(code) {}
  [[nodiscard]] ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

/// A setting that cannot be: names the key, what was found, what was expected.
class ConfigError : public Error {
 public:
  explicit ConfigError(const std::string& what) : Error(ExitCode::configuration, what) {}
};

/// A file that cannot be used: names the file, what was found, what was expected.
class InputError : public Error {
 public:
  explicit InputError(const std::string& what) : Error(ExitCode::invalid_input, what) {}
};

/// Returns the name nearest to a misspelt `word` by edit distance. Names within two edits, and names that begin with
/// `word` or that `word` begins with, take precedence over all others.
[[nodiscard]] std::string nearest(std::string_view word, std::span<const std::string> names);

/// Returns the nearest name if it is similar, else "": at most two edits, and at most half of the letters of `word`, or
/// one begins with the other.
[[nodiscard]] std::string similar_name(std::string_view word, std::span<const std::string> names);

/// Returns the end of an error message, "; nearest is " + `prefix` + name, or "" if no name is similar.
[[nodiscard]] std::string suggestion(std::string_view word, std::span<const std::string> names,
                                     std::string_view prefix = "");

}  // namespace periscope
