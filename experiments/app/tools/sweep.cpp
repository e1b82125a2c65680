#include <fmt/format.h>
#include <fmt/ranges.h>
#include <omp.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "experiments/app/command.h"
#include "experiments/app/netcdf_file.h"
#include "experiments/app/run_study.h"
#include "experiments/app/standard_streams.h"
#include "experiments/app/stop_signals.h"
#include "experiments/app/terminal_progress.h"
#include "experiments/app/tools/tools.h"
#include "experiments/engine/result/text_table.h"
#include "experiments/studies/studies.h"
#include "experiments/sweeps/gather.h"
#include "sim/base/mapped.h"
#include "sim/base/printable.h"

namespace periscope::app {
namespace {

using nlohmann::ordered_json;

/// The required positional argument `name`.
template <class F>
study::Flag<F> argument(const std::string& name, std::string F::*field, const std::string& meaning) {
  study::Flag<F> flag(name, field, meaning);
  flag.positional = flag.required = true;
  return flag;
}

template <class F>
study::Flag<F> folder_flag() {
  return argument("folder", &F::folder, "Folder of the sweep");
}

struct PlanFlags {
  std::string plan;
  std::vector<std::string> grid, zip, study_flags;
};
/// A list whose words are not split at commas.
study::Flag<PlanFlags> words_flag(const std::string& name, std::vector<std::string> PlanFlags::*field,
                                  const std::string& meaning) {
  study::Flag<PlanFlags> flag(name, meaning, [=](PlanFlags& f, const auto& words) { f.*field = words; });
  flag.list = true;
  return flag;
}
const std::vector<study::Flag<PlanFlags>> plan_flags{
    argument("plan", &PlanFlags::plan, "TOML file of the sweep, or the name of a study"),
    words_flag("grid", &PlanFlags::grid,
               "Sweep a key over a list, as in --grid 'model.layers=[12,24]'; repeatable, cells are all combinations"),
    words_flag("zip", &PlanFlags::zip, "As --grid, but the lists of all --zip flags vary together"),
    words_flag("flag", &PlanFlags::study_flags, "A flag of the study, as in --flag backward; repeatable")};

struct RunFlags {
  std::string folder, shard = "1/1";
  bool retry = false;
};
const std::vector<study::Flag<RunFlags>> run_flags{
    folder_flag<RunFlags>(),
    {"shard", &RunFlags::shard,
     "Run part K of N, as in --shard 3/16; \"slurm\" takes both from the variables of a Slurm array; default: 1/1"},
    {"retry", &RunFlags::retry, "Compute failed cells again"}};

struct GatherFlags {
  std::string folder;
  bool partial = false;
  std::vector<std::string> columns;
};
const std::vector<study::Flag<GatherFlags>> gather_flags{
    folder_flag<GatherFlags>(),
    {"partial", &GatherFlags::partial, "Gather an incomplete sweep; values of other cells are missing"},
    {"columns", &GatherFlags::columns, "Gather only these columns"}};

struct StatusFlags {
  std::string folder;
};
const std::vector<study::Flag<StatusFlags>> status_flags{folder_flag<StatusFlags>()};

struct SlurmFlags {
  std::string folder;
  int tasks = 1, cpus = 1;
  double hours = 1.0, gigabytes = 2.0;
};
const std::vector<study::Flag<SlurmFlags>> slurm_flags{
    folder_flag<SlurmFlags>(),
    {"tasks", &SlurmFlags::tasks, "Number of array elements, each of which runs one shard", from_to(1, 1e5)},
    {"cpus", &SlurmFlags::cpus, "CPUs of a task", from_to(1, config::max_threads)},
    {"hours", &SlurmFlags::hours, "Time limit of a task in hours", from_to(0.05, 1e4)},
    {"gigabytes", &SlurmFlags::gigabytes, "Memory of a task in GB (2^30 bytes)", from_to(0.1, 1e4)}};

/// Returns the draft of `sweep plan STUDY`. Throws ConfigError.
sweeps::Draft draft_of(const PlanFlags& flags, const study::Request& request) {
  sweeps::Draft draft{.study = flags.plan,
                      .flags = sweeps::flags_of(flags.study_flags),
                      .base = {},
                      .axes = {},
                      .source = "sweep plan"};
  draft.base = config::read_tree(request.file, request.settings);
  for (auto& list : sweeps::lists_of(flags.grid, "--grid")) draft.axes.push_back({{std::move(list)}});
  if (auto lists = sweeps::lists_of(flags.zip, "--zip"); !lists.empty()) draft.axes.push_back({std::move(lists)});
  return draft;
}

sweeps::Draft draft_of(const CommonOptions& options, const PlanFlags& flags) {
  const auto names = mapped(studies(), &study::Study::name);
  if (std::ranges::find(names, flags.plan) != names.end()) return draft_of(flags, options.from_flags);
  const study::Request& request = options.from_flags;
  const bool mixes = !request.file.empty() || !request.settings.empty() || !flags.grid.empty() || !flags.zip.empty() ||
                     !flags.study_flags.empty();
  if (mixes) {
    throw ConfigError(
        fmt::format("sweep plan {}: expected the name of a study before --config, --set, --grid, --zip or --flag{}",
                    shortened(flags.plan), suggestion(flags.plan, names)));
  }
  return sweeps::read_draft(flags.plan);
}

/// Returns "propagate, 12 cells: model.layers 4 x model.placement 3".
std::string title_of(const sweeps::GridPlan& plan) {
  std::vector<std::string> axes;
  for (const sweeps::GridAxis& axis : plan.axes()) axes.push_back(fmt::format("{} {}", axis.name(), axis.size()));
  return fmt::format("{}, {}: {}", plan.study().name, dataset::counted(std::to_string(plan.cells()), "cell"),
                     fmt::join(axes, " x "));
}

std::string counts_text(const sweeps::CellCounts& counts) {
  std::string text = fmt::format("{} done, {} failed, {} missing", counts.done, counts.failed, counts.missing());
  if (counts.check_failed > 0) text += fmt::format("; a check failed in {}", counts.check_failed);
  if (counts.diverged > 0) text += fmt::format("; {} diverged", counts.diverged);
  return text + "\n";
}

/// Prints the state of a sweep, and as JSON with --json.
void report(const CommonOptions& options, const std::string& text, const ordered_json& json) {
  if (!options.quiet) print_message(dataset::wrap_to_table_width(text));
  if (options.json) print_json(json);
}

ExitCode plan_sweep(const CommonOptions& options) {
  const auto flags = study::read_flags(plan_flags, options.from_flags.flags);
  const auto run = study::read_flags(study::run_flags(), options.from_flags.run);
  if (run.out.empty()) throw ConfigError("--out: expected the folder of the sweep");
  const sweeps::GridPlan plan(draft_of(options, flags));
  TerminalProgress progress(options.quiet);
  const sweeps::PlanSummary summary = sweeps::make_plan(plan, run.out, progress, run.threads);
  ordered_json json = sweeps::summary_json(summary);
  std::string text = title_of(plan) + "\n" + counts_text(summary.counts);
  if (!summary.invalid.empty()) {
    text += fmt::format("{} invalid, the first is {}\n", summary.invalid_cells, summary.invalid);
  }
  if (summary.cost.seconds > 0.0) {
    text += fmt::format("estimated cost: about {:.2g} core hours\n", summary.cost.seconds / 3600.0);
  }
  text += fmt::format("largest memory estimate: {:.2g} GB\n", summary.cost.memory / 1e9);
  std::string next = summary.counts.missing() > 0 ? "sweep run " : "sweep gather ";
  if (plan.has_parts() && summary.counts.missing() == 0) next = plan.study().name + " --out ";
  report(options, text + fmt::format("next: periscope {}{}\n", next, printable(run.out)), json);
  return ExitCode::ok;
}

stacks::Shard shard_of(const std::string& word) {
  if (word != "slurm") return stacks::parse_shard(word);
  const auto variable = [](const char* name) {
    const char* const value = std::getenv(name);
    if (value == nullptr) throw ConfigError(fmt::format("--shard slurm: expected the variable {}", name));
    return std::string(value);
  };
  const std::string first = variable("SLURM_ARRAY_TASK_MIN");
  if (first != "1")
    throw ConfigError(fmt::format("--shard slurm: expected an array from 1, found {}", shortened(first)));
  return stacks::parse_shard(variable("SLURM_ARRAY_TASK_ID") + "/" + variable("SLURM_ARRAY_TASK_COUNT"));
}

ExitCode run_sweep(const CommonOptions& options) {
  const auto flags = study::read_flags(run_flags, options.from_flags.flags);
  const auto run = study::read_flags(study::run_flags(), options.from_flags.run);
  require_ranges(config::run_section, run);
  if (run.threads > 0) omp_set_num_threads(run.threads);
  TerminalProgress progress(options.quiet);
  const sweeps::RunSettings settings{.shard = shard_of(flags.shard),
                                     .threads = run.threads,
                                     .retry = flags.retry,
                                     .force = options.from_flags.force,
                                     .argv = command_line};
  const sweeps::CellCounts counts = sweeps::run_shard(flags.folder, settings, progress);
  clear_stop_signal();
  report(options, counts_text(counts), sweeps::counts_json(counts));
  return counts.code();
}

ExitCode show_status(const CommonOptions& options) {
  const std::string folder = study::read_flags(status_flags, options.from_flags.flags).folder;
  TerminalProgress progress(options.quiet);
  const sweeps::SweepStatus status = sweeps::status_of(folder, progress);
  std::string text = title_of(sweeps::read_plan(folder)) + "\n" + counts_text(status.counts);
  for (const std::string& failure : status.failures) text += fmt::format("failed: {}\n", failure);
  for (const std::string& damaged : status.damaged) text += damaged + "\n";
  const ordered_json json = sweeps::status_json(status);
  if (json.contains("core_hours")) {
    text += fmt::format("about {:.2g} core hours left\n", json["core_hours"].get<double>());
  }
  report(options, text, json);
  return json.at("complete") ? ExitCode::ok : ExitCode::stopped_early;
}

ExitCode gather_sweep(const CommonOptions& options) {
  const auto flags = study::read_flags(gather_flags, options.from_flags.flags);
  TerminalProgress progress(options.quiet);
  const sweeps::Gathered gathered =
      sweeps::gather(flags.folder, {.partial = flags.partial, .columns = flags.columns}, progress);
  std::string text = counts_text(gathered.counts);
  for (const std::string& damaged : gathered.damaged) text += damaged + "\n";
  if (gathered.data) {
    const std::string path = flags.folder + "/sweep.nc";
    write_netcdf(path, *gathered.data);
    text += fmt::format("wrote {}\n", printable(path));
  } else {
    text += "nothing written; --partial gathers an incomplete sweep\n";
  }
  report(options, text, sweeps::counts_json(gathered.counts));
  if (gathered.data) return ExitCode::ok;
  return gathered.counts.missing() > 0 ? ExitCode::stopped_early : ExitCode::runtime_failure;
}

/// Quotes a word for a shell.
std::string quoted(const std::string& word) {
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

ExitCode print_slurm(const CommonOptions& options) {
  const auto flags = study::read_flags(slurm_flags, options.from_flags.flags);
  static_cast<void>(sweeps::read_plan(flags.folder));
  const std::string program = command_line.front().find('/') == std::string::npos
                                  ? command_line.front()
                                  : std::filesystem::absolute(command_line.front()).lexically_normal().string();
  const std::string folder = std::filesystem::absolute(flags.folder).lexically_normal().string();
  print_result(fmt::format(R"(#!/bin/bash
#SBATCH --job-name=periscope-sweep
#SBATCH --array=1-{}
#SBATCH --cpus-per-task={}
#SBATCH --time={}
#SBATCH --mem={}M
#SBATCH --requeue
#SBATCH --signal=B:USR1@60
#SBATCH --open-mode=append
# One minute before the time limit the shard is stopped (exit code 75) and queued again; it resumes from its cells. A
# cancelled job (TERM) is stopped only.
{} sweep run {} --shard slurm --threads {} &
child=$!
requeue=
trap 'requeue=1; kill -TERM "$child" 2>/dev/null' USR1
trap 'requeue=; kill -TERM "$child" 2>/dev/null' TERM
while kill -0 "$child" 2>/dev/null; do wait "$child"; done  # a trapped signal interrupts `wait`
wait "$child"
code=$?
[ "$code" = 75 ] && [ "$requeue" ] && scontrol requeue "$SLURM_JOB_ID"
exit "$code"
)",
                           flags.tasks, flags.cpus, std::max(2, static_cast<int>(60.0 * flags.hours)),
                           static_cast<int>(1024.0 * flags.gigabytes), quoted(program), quoted(folder), flags.cpus));
  return ExitCode::ok;
}

}  // namespace

void add_sweep(CLI::App& app, int& code) {
  CLI::App* group = app.add_subcommand("sweep", "Run a study for every cell of a grid of configurations");
  group->require_subcommand(1);
  group->footer(app.get_footer());
  add_command(*group, code, "plan", "Write the plan of a sweep; print its cells and cost",
              no_run_except({"config", "out", "threads"}), plan_sweep, flag_texts(plan_flags));
  add_command(*group, code, "run", "Compute the missing cells of a sweep, or of one shard",
              no_run_except({"threads", "force"}), run_sweep, flag_texts(run_flags));
  add_command(*group, code, "status", "Count the cells of a sweep; exit code 75 unless it is complete", no_run,
              show_status, flag_texts(status_flags));
  add_command(*group, code, "gather", "Join the cells of a sweep into one result, FOLDER/sweep.nc", no_run,
              gather_sweep, flag_texts(gather_flags));
  add_command(*group, code, "slurm", "Print a batch script that runs a sweep as a Slurm array", no_run, print_slurm,
              flag_texts(slurm_flags));
}

}  // namespace periscope::app
