#pragma once

#include <optional>
#include <string>

#include "experiments/app/options.h"
#include "experiments/engine/study/study.h"
#include "sim/base/error.h"

namespace periscope::app {

/// The content of NAME.finished.json, which stands beside a result and describes the run that made it, so that
/// --skip-finished need not compute the result again.
struct FinishedRun {
  std::string file_sha256;       ///< of the bytes of NAME.nc
  std::string json_sha256 = {};  ///< of those of NAME.json; "" where a study writes none
  std::string config_sha256;
  ExitCode code;
  std::string table;  ///< what people were shown, without colours
};

/// NAME.finished.json of a job that has a folder for results.
[[nodiscard]] std::string finished_record_file(const study::Job& job);

/// Writes the file, whole or not at all. To be called when all files of the run are written: a run that ends before
/// leaves a record that does not fit its result, or none, and is computed again. Throws as OutputFile does.
void record_finished(const study::Study& study, const study::Job& job, const FinishedRun& run);

/// With --skip-finished, the exit code of the run whose complete result is in the file that the job would write, made
/// by this very program from the same configuration; its table is printed, unless --quiet. Nothing if there is none:
/// standard error says why a file that is there does not count. Throws ConfigError for --skip-finished without a folder
/// for results, or with --json or --csv, which are not kept.
std::optional<ExitCode> finished_run(const CommonOptions& options, const study::Study& study, const study::Job& job);

}  // namespace periscope::app
