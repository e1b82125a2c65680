#include "experiments/app/run_study.h"

#include <fmt/format.h>
#include <omp.h>

#include <chrono>
#include <memory>

#include "experiments/app/command.h"
#include "experiments/app/finished_run.h"
#include "experiments/app/options.h"
#include "experiments/app/publish.h"
#include "experiments/app/shipped_file.h"
#include "experiments/app/standard_streams.h"
#include "experiments/app/stop_signals.h"
#include "experiments/app/study_flags.h"
#include "experiments/app/terminal_progress.h"
#include "experiments/engine/run/cell_journal.h"
#include "experiments/engine/run/fits.h"
#include "experiments/engine/settings/input_file.h"

namespace periscope::app {
namespace {

/// Runs a job with `journal`, which may be null, and publishes a complete result.
ExitCode run_and_publish(const study::Study& study, const study::Job& job, const CommonOptions& options,
                         stacks::CellJournal* journal) {
  TerminalProgress progress(options.quiet, journal);
  const auto start = std::chrono::steady_clock::now();
  study::Outcome outcome = job.run(progress);
  if (outcome.stopped_early) return stopped();
  forget_stop_signal();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  // The journal goes last: where the result cannot be written or shown, the same command has it without computing
  // again.
  const ExitCode code = publish(study, job, options, std::move(outcome), took.count(), progress);
  if (journal != nullptr) journal->remove();
  return code;
}

/// Calls `run`; if it throws, says where finished cells are kept.
template <class F>
ExitCode naming_journal(const stacks::CellJournal* journal, const F& run) {
  try {
    return run();
  } catch (const stacks::Stopped&) {
    return stopped();  // while the journal is there to say so
  } catch (...) {
    if (journal != nullptr && journal->has_kept()) {
      print_message(fmt::format("{} keeps what is finished; the same command goes on from there\n", journal->path()));
    }
    throw;
  }
}

ExitCode run_with_journal(const study::Study& study, const study::Job& job, const CommonOptions& options) {
  const auto journal = study::journal_of(
      job, [quiet = options.quiet](const std::string& note) { return std::make_shared<Resumable>(quiet ? "" : note); });
  if (journal) TerminalProgress(options.quiet).say(journal->others());
  return naming_journal(journal.get(), [&] { return run_and_publish(study, job, options, journal.get()); });
}

ExitCode run_study(const study::Study& study, const CommonOptions& options, const study::FlagValues& flags) {
  const config::RunOfInputFiles files;
  study::Request request = options.request(study.name, study::acting_keys(study), flags);
  if (request.file.empty() && !study.configuration.empty()) request.file = shipped_file(study.configuration);
  const study::Job job = study.resolve(request);
  if (options.skip_finished && !job.unskippable.empty()) {
    throw ConfigError(fmt::format("--skip-finished with {}", job.unskippable));
  }
  omp_set_num_threads(study::threads_of(job.run_options));
  if (const auto code = finished_run(options, study, job)) return *code;
  require_place_for_results(study, job, options);
  const auto run = [&] { return run_with_journal(study, job, options); };
  if (!job.need) return run();
  TerminalProgress progress(options.quiet);
  return stacks::within_memory(*job.need, options.force, progress, run);
}

/// The command that studies with names of two words stand below.
CLI::App* group_of(CLI::App& app, const std::string& name, const std::string& about) {
  const auto is_it = [&](const CLI::App* command) { return command->get_name() == name; };
  if (const auto found = app.get_subcommands(is_it); !found.empty()) return found.front();
  return app.add_subcommand(name, about)->require_subcommand(1);
}

}  // namespace

void add_study(CLI::App& app, int& code, const study::Study& study) {
  CLI::App* parent = &app;
  std::string name = study.name;
  if (const std::size_t space = name.find(' '); space != std::string::npos) {
    parent = group_of(app, name.substr(0, space), study.group);
    name = name.substr(space + 1);
  }
  CLI::App* command = parent->add_subcommand(name, study.question);
  const std::string takes = study.takes.empty() ? "" : ", " + study.takes;
  command->footer(fmt::format("Example: periscope {}{}\n\n{}", study.example, takes, app.get_footer()));
  const auto options = std::make_shared<CommonOptions>();
  const auto flags = std::make_shared<study::FlagValues>();
  options->add_to(*command, study.common);
  if (study.schema != nullptr) options->add_csv_to(*command);
  if (study.skips) options->add_skip_finished_to(*command);
  if (study.compares) options->add_theory_set_to(*command);
  add_flags(*command, study.flags, *flags);
  command->callback([=, &code, &study] { code = exit_code_of([&] { return run_study(study, *options, *flags); }); });
}

}  // namespace periscope::app
