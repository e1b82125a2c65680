#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <vector>

#include "experiments/app/options.h"
#include "experiments/engine/study/study.h"

namespace periscope::app {

/// The command line that started this process, which results state; set by main.
inline std::vector<std::string> command_line;

/// A finished run, which is cached so that --skip-finished need not compute its result again.
struct FinishedRun {
  std::string file_sha256;  ///< of NAME.nc
  std::string json_sha256;  ///< of NAME.json; "" where a study writes none
  ExitCode code = ExitCode::ok;
  std::string table;  ///< for people, without colours
};
inline auto parts(FinishedRun& r) { return std::tie(r.file_sha256, r.json_sha256, r.code, r.table); }

/// The task of a finished run with these settings, of this very program.
[[nodiscard]] std::string finished_task(const study::Study& study, const study::Job& job);

/// Throws, before anything is computed, what writing a job's results would throw after it, the disk's room aside.
/// ConfigError too for a --csv that is the result file itself, a file that is no CSV without --force, standard output
/// together with --json, or of an answer that has no columns.
void require_place_for_results(const study::Study& study, const study::Job& job, const CommonOptions& options);

/// The result of --json: one object in one line on standard output. Text that is no UTF-8 is replaced. Throws as
/// print_result does.
void print_json(const nlohmann::ordered_json& json);

/// Publishes what a study found: writes NAME.nc into run.out unless that is "", the CSV of --csv and the study's other
/// files, prints the table for people on standard error without --quiet, and JSON on standard output with --json, in
/// this order: nothing that is only shown can cost the files. A dataset gets its origin, its circumstances (it took
/// `seconds`) and how the run ended. When all files are written the run is cached as finished. Returns the exit code.
ExitCode publish(const study::Study& study, const study::Job& job, const CommonOptions& options, study::Outcome outcome,
                 double seconds, stacks::Progress& progress);

}  // namespace periscope::app
