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

bool is_there(const std::string& path) {
  std::error_code unreadable;
  return std::filesystem::exists(path, unreadable);
}

/// A finished run, which is cached so that --skip-finished need not compute its result again.
struct FinishedRun {
  std::string file_sha256;  ///< of NAME.nc
  std::string json_sha256;  ///< of NAME.json; "" where a study writes none
  ExitCode code = ExitCode::ok;
  std::string table;  ///< for people, without colours
};
auto parts(FinishedRun& r) { return std::tie(r.file_sha256, r.json_sha256, r.code, r.table); }

/// The task of a finished run with these settings, of this very program.
std::string finished_task(const study::Study& study, const study::Job& job) {
  return cache::task_name("finished", study.name + config::config_sha256(job.resolved) + config::program_sha256());
}

/// Returns why a finished run does not stand for its result files, or "". Throws InputError for files that cannot be
/// read.
std::string objection(const study::Study& study, const study::Job& job, const FinishedRun& run) {
  if (run.file_sha256 != config::sha256_of(MappedFile(study::result_file(job, "nc")))) {
    return "it was changed after it was written";
  }
  if (study.json_file) {
    const std::string json = study::result_file(job, "json");
    if (!is_there(json)) return fmt::format("{} is missing", json);
    if (run.json_sha256 != config::sha256_of(MappedFile(json))) return fmt::format("{} was changed", json);
  }
  const bool of_result = run.code == ExitCode::ok || run.code == ExitCode::check_failed;
  return of_result ? "" : "its exit code depends on the flags of its run";
}

/// With --skip-finished: the exit code of the finished run whose result the job would write, made by this very program
/// from the same settings; its table is printed, unless --quiet. Nothing if there is none: standard error says why a
/// file that is there does not count. Throws ConfigError for --skip-finished without a folder for results, or with
/// --json or --csv, which are not cached.
std::optional<ExitCode> skipped(const study::Study& study, const study::Job& job, const CommonOptions& options,
                                stacks::Progress& progress) {
  if (!options.skip_finished) return std::nullopt;
  if (job.run_options.out.empty())
    throw ConfigError("--skip-finished: expected --out or run.out, the folder with the result");
  if (options.json) throw ConfigError("--skip-finished with --json: a result file keeps no JSON; expected one of them");
  if (options.csv) throw ConfigError("--skip-finished with --csv: a result file keeps no CSV; expected one of them");
  const std::string path = study::result_file(job, "nc");
  if (!is_there(path)) return std::nullopt;
  std::string reason = "no finished run with these settings, of this build of the program, is in the cache";
  FinishedRun run;
  try {
    if (const auto bytes = progress.task_cache()->get(finished_task(study, job))) {
      run = cache::decode<FinishedRun>(*bytes);
      reason = objection(study, job, run);
    }
  } catch (const InputError& error) {
    reason = error.what();
  }
  if (!reason.empty()) {
    progress.say(fmt::format("runs again, {} is there but does not count: {}\n", printable(path), printable(reason)));
    return std::nullopt;
  }
  progress.say(fmt::format("skipped: {} is the result of this configuration and program\n{}", printable(path),
                           printable(run.table, Layout::lines)));
  return run.code;
}

/// Returns true if there is no readable file of that name, or one that is empty or begins as our CSV does.
bool may_be_replaced(const std::string& csv) {
  std::ifstream old(csv, std::ios::binary);
  std::string start(dataset::csv_start.size(), '\0');
  old.read(start.data(), static_cast<std::streamsize>(start.size()));
  return old.gcount() == 0 || start == dataset::csv_start;
}

void require_place_for_csv(const study::Job& job, const CommonOptions& options) {
  const std::string& csv = *options.csv;
  if (job.file.empty()) throw ConfigError("--csv: this answer has no columns; expected --json");
  if (csv == "-") {
    if (options.json) throw ConfigError("--csv - with --json: both are for standard output; expected one of them");
    return;
  }
  if (destination_of(csv).is_stream) return;
  std::error_code unreadable;
  if (!job.run_options.out.empty() &&
      std::filesystem::weakly_canonical(csv, unreadable) ==
          std::filesystem::weakly_canonical(study::result_file(job, "nc"), unreadable)) {
    throw ConfigError(fmt::format("--csv {}: this is the result file itself; expected another name", csv));
  }
  if (!options.asked.force && !may_be_replaced(csv)) {
    throw ConfigError(fmt::format("--csv {}: found a file that is no CSV; --force overwrites it", csv));
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

/// Throws, before anything is computed, what writing a job's results would throw after it, the disk's room aside.
/// ConfigError too for a --csv that is the result file itself, a file that is no CSV without --force, standard output
/// together with --json, or of an answer that has no columns.
void require_place_for_results(const study::Study& study, const study::Job& job, const CommonOptions& options) {
  if (options.csv) require_place_for_csv(job, options);
  if (job.file.empty() || job.run_options.out.empty()) return;
  const OutputFile trial(study::result_file(job, "nc"));
  if (study.json_file) const OutputFile of_json(study::result_file(job, "json"));
}

/// Publishes what a study found: writes NAME.nc into run.out unless that is "", the CSV of --csv and the study's other
/// files, prints the table for people on standard error without --quiet, and JSON on standard output with --json, in
/// this order: nothing that is only shown can cost the files. A dataset gets its provenance and circumstances (it took
/// `seconds`). When all files are written the run is cached as finished. Returns the exit code.
ExitCode publish(const study::Study& study, const study::Job& job, const CommonOptions& options, study::Outcome outcome,
                 double seconds, stacks::Progress& progress) {
  if (outcome.data) {
    study::add_provenance(study, job, outcome);
    outcome.data->circumstances = study::circumstances(command_line, study::threads_of(job.run_options), seconds);
  }
  outcome.table = dataset::within_table_width(outcome.table);
  nlohmann::ordered_json json;
  if (options.json || (study.json_file && outcome.data)) json = study::result_json(outcome);
  const auto wrote = [&](const std::string& path) { progress.say(fmt::format("wrote {}\n", printable(path))); };
  std::optional<FinishedRun> finished;
  if (outcome.data && !job.run_options.out.empty()) {
    const std::string path = study::result_file(job, "nc");
    finished = FinishedRun{.file_sha256 = write_netcdf(path, *outcome.data),
                           .json_sha256 = {},
                           .code = outcome.code,
                           .table = dataset::without_colours(outcome.table)};
    wrote(path);
    if (study.json_file) {
      const std::string text = config::json_text(json, 1) + "\n";
      write_file(study::result_file(job, "json"), text);
      finished->json_sha256 = config::sha256_hex(text);
      wrote(study::result_file(job, "json"));
    }
  }
  if (outcome.data && options.csv) {
    write_csv(*options.csv, *outcome.data);
    if (*options.csv != "-") wrote(*options.csv);
  }
  if (outcome.write_files) outcome.write_files(progress);
  // After all other files: a run that was killed before counts as unfinished.
  if (finished && study.skippable) stacks::store(progress, finished_task(study, job), *finished);
  progress.say(use_colour() ? outcome.table : dataset::without_colours(outcome.table));
  if (options.json) print_json(json);
  return outcome.code;
}

/// Runs a job and publishes a complete result. If it fails, says where finished tasks are cached.
ExitCode run_and_publish(const study::Study& study, const study::Job& job, const CommonOptions& options,
                         stacks::Progress& progress) {
  const cache::Cache* tasks = progress.task_cache();
  try {
    const auto start = std::chrono::steady_clock::now();
    study::Outcome outcome = job.run(progress);
    clear_stop_signal();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    const ExitCode code = publish(study, job, options, std::move(outcome), took.count(), progress);
    // Last: where the result cannot be written or shown, the same command has it without computing again.
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

/// Returns the path of a configuration of the project, given by its path from the project's folder: in the working
/// directory, beside the folder that the program was built in, or in share/periscope/configs beside the folder of the
/// installed program. Throws ConfigError if it is in none of them.
std::string shipped_configuration(const std::string& path) {
  std::error_code error;
  const std::filesystem::path prefix =
      std::filesystem::read_symlink("/proc/self/exe", error).parent_path().parent_path();
  const std::filesystem::path name = std::filesystem::path(path).filename();
  for (const std::filesystem::path& place :
       {std::filesystem::path(path), prefix / path, prefix / "share/periscope/configs" / name}) {
    if (std::filesystem::is_regular_file(place, error)) return place.string();
  }
  throw ConfigError(fmt::format(
      "--config: {} is neither in the working directory nor beside the program's folder; expected a configuration",
      path));
}

ExitCode run_study(const study::Study& study, const CommonOptions& options) {
  study::Request request = options.request(study.name, study::effective_keys(study));
  if (request.file.empty() && !study.configuration.empty()) request.file = shipped_configuration(study.configuration);
  const study::Job job = study.resolve(request);
  if (options.skip_finished && !job.unskippable_reason.empty()) {
    throw ConfigError(fmt::format("--skip-finished with {}", job.unskippable_reason));
  }
  omp_set_num_threads(study::threads_of(job.run_options));
  const std::optional<cache::Cache> tasks = study::cache_of(study, job);
  TerminalProgress progress(options.quiet, tasks ? &*tasks : nullptr);
  if (const auto code = skipped(study, job, options, progress)) return *code;
  require_place_for_results(study, job, options);
  const auto run = [&] { return run_and_publish(study, job, options, progress); };
  return job.memory ? stacks::within_memory(*job.memory, options.asked.force, progress, run) : run();
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
  const std::string takes = study.example_duration.empty() ? "" : ", " + study.example_duration;
  command->footer(fmt::format("Example: periscope {}{}\n\n{}", study.example, takes, app.get_footer()));
  const auto options = std::make_shared<CommonOptions>();
  options->add_to(*command, study);
  command->callback([=, &code, &study] { code = exit_code_of([&] { return run_study(study, *options); }); });
}

}  // namespace periscope::app
