#include "experiments/app/run_study.h"

#include <fmt/format.h>
#include <omp.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <tuple>

#include "experiments/app/command.h"
#include "experiments/app/netcdf_file.h"
#include "experiments/app/standard_streams.h"
#include "experiments/app/stop_signals.h"
#include "experiments/app/terminal_progress.h"
#include "experiments/engine/result/serialize.h"
#include "experiments/engine/result/text_table.h"
#include "experiments/engine/run/cached.h"
#include "experiments/engine/run/memory_estimate.h"
#include "experiments/engine/settings/json_text.h"
#include "experiments/engine/settings/sha256.h"
#include "sim/base/printable.h"
#include "sim/files/destination.h"
#include "sim/files/mapped_file.h"
#include "sim/files/output_file.h"

namespace periscope::app {
namespace {

bool exists(const std::string& path) {
  std::error_code unreadable;
  return std::filesystem::exists(path, unreadable);
}

/// Cache entry for --skip-finished: the hashes of a finished run's result files, its exit code and its table.
struct FinishedRun {
  std::string file_sha256;  ///< SHA-256 of NAME.nc
  std::string json_sha256;  ///< SHA-256 of NAME.json; "" if the study writes no JSON
  ExitCode code = ExitCode::ok;
  std::string table;  ///< without colours
};
auto parts(FinishedRun& r) { return std::tie(r.file_sha256, r.json_sha256, r.code, r.table); }

/// Returns the cache key of a finished run with these settings and this build of the program.
std::string finished_task(const study::Study& study, const study::Job& job) {
  return cache::task_name("finished", study.name + config::config_sha256(job.resolved) + config::program_sha256());
}

/// Returns why the result files of a finished run cannot be reused, or "". Throws InputError for unreadable files.
std::string stale_reason(const study::Study& study, const study::Job& job, const FinishedRun& run) {
  if (run.file_sha256 != config::sha256_of(MappedFile(study::result_file(job, "nc")))) {
    return "the file was changed after the run";
  }
  if (study.json_file) {
    const std::string json = study::result_file(job, "json");
    if (!exists(json)) return fmt::format("{} is missing", json);
    if (run.json_sha256 != config::sha256_of(MappedFile(json))) return fmt::format("{} was changed", json);
  }
  const bool is_of_result = run.code == ExitCode::ok || run.code == ExitCode::check_failed;
  return is_of_result ? "" : "the exit code depends on the flags of the run";
}

/// Handles --skip-finished. If the result file was written by this program with these settings, prints the cached table
/// and returns the cached exit code. Otherwise returns nullopt and prints why an existing file is not reused.
/// Throws ConfigError if there is no folder for results, and for --json or --csv, whose output is not cached.
std::optional<ExitCode> skip_finished(const study::Study& study, const study::Job& job, const CommonOptions& options,
                                      stacks::Progress& progress) {
  if (!options.skip_finished) return std::nullopt;
  if (job.run_options.out.empty())
    throw ConfigError("--skip-finished: expected --out or run.out, the folder of the result");
  if (options.json) throw ConfigError("--skip-finished with --json: expected only one; JSON output is not cached");
  if (options.csv) throw ConfigError("--skip-finished with --csv: expected only one; CSV output is not cached");
  const std::string path = study::result_file(job, "nc");
  if (!exists(path)) return std::nullopt;
  std::string reason = "the cache contains no finished run with these settings and this build of the program";
  FinishedRun run;
  try {
    if (const auto bytes = progress.task_cache()->get(finished_task(study, job))) {
      run = cache::decode<FinishedRun>(*bytes);
      reason = stale_reason(study, job, run);
    }
  } catch (const InputError& error) {
    reason = error.what();
  }
  if (!reason.empty()) {
    progress.say(fmt::format("running again: cannot reuse {}: {}\n", printable(path), printable(reason)));
    return std::nullopt;
  }
  progress.say(fmt::format("skipped: {} already contains the result of this configuration and program\n{}",
                           printable(path), printable(run.table, Layout::lines)));
  return run.code;
}

/// Returns true if the file does not exist, is unreadable or empty, or begins like a CSV file of this program.
bool may_be_replaced(const std::string& csv) {
  std::ifstream old(csv, std::ios::binary);
  std::string start(dataset::csv_start.size(), '\0');
  old.read(start.data(), static_cast<std::streamsize>(start.size()));
  return old.gcount() == 0 || start == dataset::csv_start;
}

void check_csv_destination(const study::Job& job, const CommonOptions& options) {
  const std::string& csv = *options.csv;
  if (job.file.empty()) throw ConfigError("--csv: this result has no columns; use --json");
  if (csv == "-") {
    if (options.json) throw ConfigError("--csv - with --json: expected only one; both write to standard output");
    return;
  }
  if (destination_of(csv).is_stream) return;
  std::error_code unreadable;
  if (!job.run_options.out.empty() &&
      std::filesystem::weakly_canonical(csv, unreadable) ==
          std::filesystem::weakly_canonical(study::result_file(job, "nc"), unreadable)) {
    throw ConfigError(fmt::format("--csv {}: expected a different name; this is the result file itself", csv));
  }
  if (!options.from_flags.force && !may_be_replaced(csv)) {
    throw ConfigError(fmt::format("--csv {}: the existing file is not CSV; --force overwrites it", csv));
  }
  const OutputFile trial(csv);
}

void write_csv(const std::string& csv, const dataset::Dataset& data) {
  const std::string text = dataset::csv_text(data);
  if (csv != "-") {
    write_file_or_stream(csv, text);
  } else {
    print_result(isatty(STDOUT_FILENO) == 1 ? printable(text, Layout::lines) : text);
  }
}

/// Checks before the computation that the results can be written, except for free disk space. Throws the errors of
/// OutputFile. Throws ConfigError if --csv names the result file itself or, without --force, an existing file that is
/// not CSV; if both --csv and --json write to standard output; and if the result has no columns.
void check_destinations(const study::Study& study, const study::Job& job, const CommonOptions& options) {
  if (options.csv) check_csv_destination(job, options);
  if (job.file.empty() || job.run_options.out.empty()) return;
  const OutputFile trial(study::result_file(job, "nc"));
  if (study.json_file) const OutputFile of_json(study::result_file(job, "json"));
}

/// Writes NAME.nc into run.out unless run.out is "", the CSV of --csv and the study's other files. Only then prints
/// the table on standard error, unless --quiet, and JSON on standard output with --json, so that a failed print loses
/// no file. Adds provenance and circumstances, with the run time `seconds`, to a dataset. Caches the run as finished
/// after all files are written. Returns the exit code.
ExitCode publish(const study::Study& study, const study::Job& job, const CommonOptions& options, study::Outcome outcome,
                 double seconds, stacks::Progress& progress) {
  if (outcome.data) {
    study::add_provenance(study, job, outcome);
    outcome.data->circumstances = study::circumstances(command_line, study::threads_of(job.run_options), seconds);
  }
  outcome.table = dataset::wrap_to_table_width(outcome.table);
  nlohmann::ordered_json json;
  if (options.json || (study.json_file && outcome.data)) json = study::result_json(outcome);
  const auto report_written = [&](const std::string& path) {
    progress.say(fmt::format("wrote {}\n", printable(path)));
  };
  std::optional<FinishedRun> finished;
  if (outcome.data && !job.run_options.out.empty()) {
    const std::string path = study::result_file(job, "nc");
    finished = FinishedRun{.file_sha256 = write_netcdf(path, *outcome.data),
                           .json_sha256 = {},
                           .code = outcome.code,
                           .table = dataset::without_colours(outcome.table)};
    report_written(path);
    if (study.json_file) {
      const std::string text = config::json_text(json, 1) + "\n";
      write_file(study::result_file(job, "json"), text);
      finished->json_sha256 = config::sha256_hex(text);
      report_written(study::result_file(job, "json"));
    }
  }
  if (outcome.data && options.csv) {
    write_csv(*options.csv, *outcome.data);
    if (*options.csv != "-") report_written(*options.csv);
  }
  if (outcome.write_files) outcome.write_files(progress);
  // After all files, so that a run killed before this line counts as unfinished.
  if (finished && study.skippable) stacks::store(progress, finished_task(study, job), *finished);
  progress.say(use_colour() ? outcome.table : dataset::without_colours(outcome.table));
  if (options.json) print_json(json);
  return outcome.code;
}

/// Runs a job and publishes its result. If it fails, prints the folder of the cached tasks.
ExitCode run_and_publish(const study::Study& study, const study::Job& job, const CommonOptions& options,
                         stacks::Progress& progress) {
  const cache::Cache* tasks = progress.task_cache();
  try {
    const auto start = std::chrono::steady_clock::now();
    study::Outcome outcome = job.run(progress);
    clear_stop_signal();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    const ExitCode code = publish(study, job, options, std::move(outcome), took.count(), progress);
    // Last, so that the same command can publish without computing again if writing or printing fails.
    if (tasks != nullptr && !job.file.empty()) tasks->remove_all_but(finished_task(study, job));
    return code;
  } catch (const stacks::Stopped&) {
    return stop_exit_code();
  } catch (...) {
    if (progress.is_resumable() && tasks != nullptr) {
      print_message(fmt::format("finished tasks are cached in {}; the same command resumes from them\n",
                                printable(tasks->folder())));
    }
    throw;
  }
}

ExitCode run_study(const study::Study& study, const CommonOptions& options) {
  study::Request request = options.request(study.name, study::effective_keys(study));
  if (request.file.empty() && !study.configuration.empty())
    request.file = find_shipped_configuration(study.configuration);
  const study::Job job = study.resolve(request);
  if (options.skip_finished && !job.unskippable_reason.empty()) {
    throw ConfigError(fmt::format("--skip-finished with {}", job.unskippable_reason));
  }
  omp_set_num_threads(study::threads_of(job.run_options));
  const std::optional<cache::Cache> tasks = study::cache_of(study, job);
  TerminalProgress progress(options.quiet, tasks ? &*tasks : nullptr);
  if (const auto code = skip_finished(study, job, options, progress)) return *code;
  check_destinations(study, job, options);
  const auto run = [&] { return run_and_publish(study, job, options, progress); };
  return job.memory ? stacks::within_memory(*job.memory, options.from_flags.force, progress, run) : run();
}

/// Returns the parent command of studies with two-word names, such as "gradients"; adds it if it does not exist.
CLI::App* group_of(CLI::App& app, const std::string& name, const std::string& about) {
  const auto has_name = [&](const CLI::App* command) { return command->get_name() == name; };
  if (const auto found = app.get_subcommands(has_name); !found.empty()) return found.front();
  return app.add_subcommand(name, about)->require_subcommand(1);
}

}  // namespace

std::string find_shipped_configuration(const std::string& path, const std::string& flag) {
  std::error_code error;
  const std::filesystem::path prefix =
      std::filesystem::read_symlink("/proc/self/exe", error).parent_path().parent_path();
  const std::filesystem::path name = std::filesystem::path(path).filename();
  for (const std::filesystem::path& candidate :
       {std::filesystem::path(path), prefix / path, prefix / "share/periscope/configs" / name}) {
    if (std::filesystem::is_regular_file(candidate, error)) return candidate.string();
  }
  throw ConfigError(fmt::format(
      "{}: {} is neither in the working directory nor next to the program; pass a file's path", flag, path));
}

void add_study(CLI::App& app, int& code, const study::Study& study) {
  CLI::App* parent = &app;
  std::string name = study.name;
  if (const std::size_t space = name.find(' '); space != std::string::npos) {
    parent = group_of(app, name.substr(0, space), study.group);
    name = name.substr(space + 1);
  }
  CLI::App* command = parent->add_subcommand(name, study.question);
  const std::string takes = study.example_duration.empty() ? "" : ", " + study.example_duration;
  command->footer(fmt::format("Example: periscope {}{}\n\n{}", study.example, takes, app.get_footer()));
  const auto options = std::make_shared<CommonOptions>();
  options->add_to(*command, study);
  command->callback([=, &code, &study] { code = exit_code_of([&] { return run_study(study, *options); }); });
}

}  // namespace periscope::app
