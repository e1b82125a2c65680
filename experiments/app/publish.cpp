#include "experiments/app/publish.h"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>

#include "experiments/app/netcdf_file.h"
#include "experiments/app/standard_streams.h"
#include "experiments/engine/result/images.h"
#include "experiments/engine/result/text_table.h"
#include "experiments/engine/run/cached.h"
#include "experiments/engine/settings/json_text.h"
#include "experiments/engine/settings/sha256.h"
#include "sim/base/printable.h"
#include "sim/files/destination.h"
#include "sim/files/output_file.h"

namespace periscope::app {
namespace {

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

}  // namespace

std::string finished_task(const study::Study& study, const study::Job& job) {
  return cache::task_name("finished", study.name + config::config_sha256(job.resolved) + config::program_sha256());
}

void require_place_for_results(const study::Study& study, const study::Job& job, const CommonOptions& options) {
  if (options.csv) require_place_for_csv(job, options);
  if (job.file.empty() || job.run_options.out.empty()) return;
  const OutputFile trial(study::result_file(job, "nc"));
  if (study.json_file) const OutputFile of_json(study::result_file(job, "json"));
}

void print_json(const nlohmann::ordered_json& json) { print_result(config::json_text(json) + "\n"); }

ExitCode publish(const study::Study& study, const study::Job& job, const CommonOptions& options, study::Outcome outcome,
                 double seconds, stacks::Progress& progress) {
  if (outcome.data) {
    study::seal(study, job, outcome);
    outcome.data->circumstances = study::circumstances(command_line, study::threads_of(job.run_options), seconds);
  }
  outcome.table = dataset::within_table_width(outcome.table);
  nlohmann::ordered_json json;
  if (options.json || (study.json_file && outcome.data)) json = study::whole_json(outcome);
  const auto wrote = [&](const std::string& path) { progress.say(fmt::format("wrote {}\n", printable(path))); };
  std::optional<FinishedRun> finished;
  if (outcome.data && !job.run_options.out.empty()) {
    finished = FinishedRun{.file_sha256 = write_netcdf(study::result_file(job, "nc"), *outcome.data),
                           .json_sha256 = {},
                           .code = outcome.code,
                           .table = dataset::without_colours(outcome.table)};
    wrote(study::result_file(job, "nc"));
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
  if (finished && study.skips) stacks::store(progress, finished_task(study, job), cache::encode(*finished));
  progress.say(use_colour() ? outcome.table : dataset::without_colours(outcome.table));
  if (options.json) print_json(json);
  return outcome.code;
}

}  // namespace periscope::app
