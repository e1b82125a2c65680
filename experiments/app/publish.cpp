#include "experiments/app/publish.h"

#include <fmt/format.h>

#include "experiments/app/circumstances.h"
#include "experiments/app/finished_run.h"
#include "experiments/app/netcdf_file.h"
#include "experiments/app/result_file.h"
#include "experiments/app/standard_streams.h"
#include "experiments/core/config/json_text.h"
#include "experiments/core/dataset/json_image.h"
#include "experiments/core/dataset/text_table.h"
#include "experiments/core/study/origin.h"
#include "sim/base/printable.h"
#include "sim/files/output_file.h"

namespace periscope::app {
namespace {

/// A result with --theory-set says so at the top level too, not only in its provenance.
nlohmann::ordered_json whole_json(const study::Study& study, const study::Outcome& outcome) {
  if (!outcome.data) return outcome.document;
  nlohmann::ordered_json json = dataset::json_image(*study.schema, *outcome.data);
  json["provenance"] = dataset::json_image(outcome.data->facts);
  if (json["provenance"].contains("theory_told")) json["theory_told"] = json["provenance"]["theory_told"];
  json["circumstances"] = dataset::json_image(outcome.data->circumstances);
  return json;
}

}  // namespace

void require_place_for_results(const study::Study& study, const study::Job& job) {
  if (job.file.empty() || job.run_options.out.empty()) return;
  const OutputFile trial(result_file(job, "nc"));
  if (study.json_file) const OutputFile of_json(result_file(job, "json"));
}

void print_json(const nlohmann::ordered_json& json) { print_result(config::json_text(json) + "\n"); }

ExitCode publish(const study::Study& study, const study::Job& job, const CommonOptions& options, study::Outcome outcome,
                 double seconds, stacks::Progress& progress) {
  if (outcome.data) {
    dataset::Facts facts = study::origin(job, outcome.resolved.value_or(job.resolved));
    facts.emplace_back("study", study.name);
    facts.emplace_back("result", study.schema->kind());
    facts.emplace_back("result_version", std::int64_t{study.schema->version()});
    for (auto& [name, value] : outcome.data->facts) dataset::set(facts, name, std::move(value));
    outcome.data->facts = std::move(facts);
    outcome.data->circumstances = circumstances(study::threads_of(job.run_options), seconds);
  }
  outcome.table = dataset::within_table_width(outcome.table);
  nlohmann::ordered_json json;
  if (options.json || (study.json_file && outcome.data)) json = whole_json(study, outcome);
  const auto wrote = [&](const std::string& path) { progress.say(fmt::format("wrote {}\n", printable(path))); };
  if (outcome.data && !job.run_options.out.empty()) {
    seal(*outcome.data, outcome.code, dataset::without_colours(outcome.table));
    write_netcdf(result_file(job, "nc"), *outcome.data);
    wrote(result_file(job, "nc"));
    if (study.json_file) {
      write_file(result_file(job, "json"), config::json_text(json, 1) + "\n");
      wrote(result_file(job, "json"));
    }
  }
  if (outcome.write_files) outcome.write_files(progress);
  progress.say(use_colour() ? outcome.table : dataset::without_colours(outcome.table));
  if (options.json) print_json(json);
  return outcome.code;
}

}  // namespace periscope::app
