#include "experiments/app/finished_run.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

#include "experiments/app/standard_streams.h"
#include "experiments/engine/settings/json_text.h"
#include "experiments/engine/settings/sha256.h"
#include "sim/base/printable.h"
#include "sim/files/mapped_file.h"
#include "sim/files/output_file.h"

namespace periscope::app {
namespace {

bool is_there(const std::string& path) {
  std::error_code unreadable;
  return std::filesystem::exists(path, unreadable);
}

/// The record beside a result. Throws InputError where there is none that can be read.
nlohmann::ordered_json record_of(const study::Job& job) {
  const std::string path = finished_record_file(job);
  if (!is_there(path)) throw InputError(fmt::format("{} is missing", path));
  const MappedFile file(path);
  const auto* begin = reinterpret_cast<const char*>(file.bytes().data());
  nlohmann::ordered_json record = nlohmann::ordered_json::parse(begin, begin + file.bytes().size(), nullptr, false);
  for (const char* name : {"study", "config_sha256", "program_sha256", "file_sha256", "json_sha256", "table"}) {
    if (!record.is_object() || !record.contains(name) || !record[name].is_string()) {
      throw InputError(fmt::format("{} is no record of a finished run", path));
    }
  }
  if (!record.contains("exit_code") || !record["exit_code"].is_number_integer()) {
    throw InputError(fmt::format("{} does not say how its run ended", path));
  }
  return record;
}

/// Why a result does not count; "" if it does. Throws InputError for files that cannot be read.
std::string objection(const study::Study& study, const study::Job& job, const nlohmann::ordered_json& record) {
  if (record["study"] != study.name) return fmt::format("it is a result of {}", record["study"].get<std::string>());
  if (record["config_sha256"] != config::config_sha256(job.resolved)) return "it has another configuration";
  if (record["program_sha256"] != config::program_sha256()) {
    return "another build of the program made it, or the same one with other instructions";
  }
  if (record["file_sha256"] != config::sha256_of(MappedFile(study::result_file(job, "nc")))) {
    return "it was changed after it was written";
  }
  if (study.json_file) {
    const std::string json = study::result_file(job, "json");
    if (!is_there(json)) return fmt::format("{} is missing", json);
    if (record["json_sha256"] != config::sha256_of(MappedFile(json))) return fmt::format("{} was changed", json);
  }
  const auto code = record["exit_code"].get<std::int64_t>();
  const bool kept = code == static_cast<int>(ExitCode::ok) || code == static_cast<int>(ExitCode::check_failed);
  return kept ? "" : "its exit code depends on the flags of its run";
}

}  // namespace

std::string finished_record_file(const study::Job& job) { return study::result_file(job, "finished.json"); }

void record_finished(const study::Study& study, const study::Job& job, const FinishedRun& run) {
  const nlohmann::ordered_json record{{"study", study.name},
                                      {"config_sha256", run.config_sha256},
                                      {"program_sha256", config::program_sha256()},
                                      {"file_sha256", run.file_sha256},
                                      {"json_sha256", run.json_sha256},
                                      {"exit_code", static_cast<int>(run.code)},
                                      {"table", config::valid_utf8(run.table)}};
  write_file(finished_record_file(job), config::json_text(record, 1) + "\n");
}

std::optional<ExitCode> finished_run(const CommonOptions& options, const study::Study& study, const study::Job& job) {
  if (!options.skip_finished) return std::nullopt;
  if (job.run_options.out.empty())
    throw ConfigError("--skip-finished: expected --out or run.out, the folder with the result");
  if (options.json) throw ConfigError("--skip-finished with --json: a result file keeps no JSON; expected one of them");
  if (options.csv) throw ConfigError("--skip-finished with --csv: a result file keeps no CSV; expected one of them");
  const std::string path = study::result_file(job, "nc");
  if (!is_there(path)) return std::nullopt;
  std::string reason;
  nlohmann::ordered_json record;
  try {
    record = record_of(job);
    reason = objection(study, job, record);
  } catch (const InputError& error) {
    reason = error.what();
  }
  if (!reason.empty()) {
    if (!options.quiet)
      print_message(
          fmt::format("runs again, {} is there but does not count: {}\n", printable(path), printable(reason)));
    return std::nullopt;
  }
  if (!options.quiet) {
    print_message(fmt::format("skipped: {} is the result of this configuration and program\n{}", printable(path),
                              printable(record["table"].get<std::string>(), Layout::lines)));
  }
  return static_cast<ExitCode>(record["exit_code"].get<int>());
}

}  // namespace periscope::app
