#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "experiments/app/finished_run.h"
#include "experiments/app/options.h"
#include "experiments/app/stop_signals.h"
#include "experiments/app/terminal_progress.h"
#include "experiments/core/dataset/columns.h"
#include "experiments/core/stacks/cell_journal.h"
#include "experiments/core/stacks/fits.h"
#include "sim/spec/error.h"

namespace periscope {

/// Adds a command with the common flags, whose body gets them and returns the exit code, which goes to `code`. Returns
/// the command, for further flags.
CLI::App* add_command(CLI::App& app, int& code, const std::string& name, const std::string& about,
                      std::function<ExitCode(const CommonOptions&)> body);

/// The same for a command that also takes --skip-finished.
CLI::App* add_skipping_command(CLI::App& app, int& code, const std::string& name, const std::string& about,
                               std::function<ExitCode(const CommonOptions&)> body);

/// The same for a command that takes --skip-finished and --theory-set.
CLI::App* add_comparing_command(CLI::App& app, int& code, const std::string& name, const std::string& about,
                                std::function<ExitCode(const CommonOptions&)> body);

/// Runs `body`; returns its exit code, or 75, 129, 130 or 143 if it was stopped.
int exit_code_of(const std::function<ExitCode()>& body);

/// Does nothing if `out` is "". Otherwise throws, before anything is computed, what publishing NAME.nc and NAME.json in
/// that folder would throw after it, the disk's room aside.
void require_place_for_results(const std::string& name, const std::string& out);

/// Runs an experiment with `journal`, which may be null, and publishes a complete result.
template <class F, class Publish>
ExitCode run_and_publish(const CommonOptions& options, CellJournal* journal, const F& f, const Publish& publish) {
  const auto result = [&] {
    TerminalProgress progress(options.quiet, journal);
    return f(progress);
  }();
  if (result.stopped_early) return stopped();
  forget_stop_signal();
  const ExitCode code = publish(result);
  if (journal != nullptr) journal->remove();
  return code;
}

/// within_memory with its words on standard error unless `quiet`.
template <class F>
auto within_memory(const Need& need, bool force, bool quiet, const F& f) {
  TerminalProgress progress(quiet);
  return within_memory(need, force, progress, f);
}

/// Calls `run`; if it throws, says where finished cells are kept.
ExitCode telling_of(const std::optional<CellJournal>& journal, const std::function<ExitCode()>& run);

/// Runs an experiment, `f(progress)`, whose result says whether it was stopped_early, and hands a complete result to
/// `publish`, which returns the exit code. Progress is shown unless --quiet, SIGINT and SIGTERM stop it, and with
/// run.out a journal in that folder keeps finished cells, from which the same command goes on; it stays, and a message
/// says where, if the run or `publish` fails. NAME is that of the result files, whose place is tried first. With
/// --skip-finished nothing is run whose result is there (finished_run). Throws ConfigError if `need` does not fit.
template <class F, class Publish>
ExitCode run_cells(const CommonOptions& options, const Need& need, const std::string& name, const std::string& out,
                   const Resolved& resolved, const F& f, const Publish& publish) {
  if (const auto code = finished_run(options, name, out, resolved)) return *code;
  require_place_for_results(name, out);
  return within_memory(need, options.force, options.quiet, [&] {
    std::optional<CellJournal> journal;
    if (!out.empty()) {
      TerminalProgress progress(options.quiet);
      journal.emplace(out, name, resolved, [quiet = options.quiet](const std::string& note) {
        return std::make_shared<Resumable>(quiet ? "" : note);
      });
      progress.say(journal->others());
    }
    return telling_of(journal, [&] { return run_and_publish(options, journal ? &*journal : nullptr, f, publish); });
  });
}

/// The same of an experiment that keeps nothing.
template <class F, class Publish>
ExitCode run_whole(const CommonOptions& options, const std::string& name, const std::string& out, const F& f,
                   const Publish& publish) {
  require_place_for_results(name, out);
  return run_and_publish(options, nullptr, f, publish);
}

/// The result of --json: one object in one line on standard output. Text that is no UTF-8 is replaced. Throws as
/// print_result does.
void print_json(const nlohmann::ordered_json& json);

/// What a command does with its result: NAME.nc in the folder `out` unless that is "", the table for people on standard
/// error without --quiet, and JSON on standard output with --json, in this order: nothing that is only shown can cost
/// the files. `json_file`: NAME.json too. `write_more` writes other files of the result, behind these. `code`, which is
/// returned, says what the result means; the file keeps it (add_outcome).
ExitCode publish(const std::string& name, const CommonOptions& options, const std::string& out, const Columns& result,
                 const std::string& table, ExitCode code, bool json_file = false,
                 const std::function<void()>& write_more = {});

}  // namespace periscope
