#pragma once

#include <optional>
#include <string>

#include "experiments/app/netcdf_file.h"
#include "experiments/app/options.h"
#include "experiments/core/study/study.h"
#include "sim/base/error.h"

namespace periscope::app {

/// A result file says how its run ended, so that --skip-finished need not compute again what is there: the attributes
/// exit_code; table, what people were shown; content_sha256, of everything in the file but itself and the
/// circumstances, by which a damaged file is known and which is the same for every run with this result.
void seal(dataset::Dataset& result, ExitCode code, const std::string& table);

/// With --skip-finished, the exit code of the run whose complete result is in the file that the job would write, made
/// by this very program from the same configuration; its table is printed, unless --quiet. Nothing if there is none:
/// standard error says why a file that is there does not count. Throws ConfigError for --skip-finished without a folder
/// for results, or with --json, which a file does not keep.
std::optional<ExitCode> finished_run(const CommonOptions& options, const study::Study& study, const study::Job& job);

}  // namespace periscope::app
