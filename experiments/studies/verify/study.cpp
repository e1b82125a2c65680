#include "experiments/engine/study/study.h"

#include <fmt/format.h>

#include <utility>

#include "experiments/studies/verify/verify.h"
#include "sim/base/printable.h"
#include "sim/files/output_file.h"

namespace periscope::verify {
namespace {

using study::Job;
using study::Outcome;
using study::Request;

const std::vector<study::Flag<VerifyConfig>>& verify_flags() {
  static const std::vector<study::Flag<VerifyConfig>> all{
      {"cases", &VerifyConfig::cases, "Number of random cases", from_to(1, 2e9)},
      {"scale", &VerifyConfig::scale, "Multiply every bound that should hold by this; below 1 violations must be found",
       from_to(0.0, 1.0)},
      {"replay", &VerifyConfig::replay, "One case alone: a JSON file, as --out writes one for every violation"}};
  return all;
}

Outcome outcome_of(const VerifyConfig& config, const std::string& out, stacks::Progress& run_progress) {
  const VerifyResult result = verify::run(config, run_progress);
  if (result.stopped_early) return {.stopped_early = true};
  Outcome outcome{.data = dataset_of(result), .table = table(result, out), .code = study::code_of(result.passed())};
  std::vector<std::pair<std::string, std::string>> files;
  for (const StatementResult& s : result.statements) {
    if (out.empty() || !s.counterexample || !s.statement->should_hold()) continue;
    files.emplace_back(case_file(out, *s.statement), case_json(s.counterexample->found).dump() + "\n");
  }
  if (files.empty()) return outcome;
  outcome.write_files = [files = std::move(files)](stacks::Progress& progress) {
    for (const auto& [path, text] : files) {
      write_file(path, text);
      progress.say(fmt::format("wrote {}\n", printable(path)));
    }
  };
  return outcome;
}

Job resolve_verify(const Request& request) {
  VerifyConfig own = study::read_flags(verify_flags(), request.flags);
  if (!(own.scale > 0.0)) {
    throw ConfigError(fmt::format("--scale {:g}: expected a number above 0 and up to 1", own.scale));
  }
  config::RunOptions run = request.load().run;
  run.device = "reference";
  run.dtype = DType::f64;
  own.seed = run.seed;
  Job job{.file = "verify", .run_options = run, .resolved = {}, .run = {}};
  job.resolved.printed["verify"] = {
      {"seed", own.seed}, {"cases", own.cases}, {"scale", own.scale}, {"starts", own.starts}};
  job.resolved.hashed = job.resolved.printed;
  if (own.replay.empty()) {
    job.run = [own, out = run.out](stacks::Progress& progress) { return outcome_of(own, out, progress); };
    return job;
  }
  const auto reject = [](bool given, const char* flag, const char* why) {
    if (given) throw ConfigError(fmt::format("{} does nothing with --replay: {}", flag, why));
  };
  reject(request.out.has_value(), "--out", "there is no result file of a case");
  reject(request.seed.has_value(), "--seed", "it names the case, seed included");
  reject(request.flags.contains("cases"), "--cases", "it is of one case");
  job.file = "";
  job.unskippable = "--replay: there is no result file of a case";
  job.run = [own](stacks::Progress&) { return replay(own); };
  return job;
}

}  // namespace

std::vector<study::Study> studies() {
  return {{.name = "verify",
           .question = "Attack the bounds on gradients and growth: no input may break them",
           .example = "verify --cases 20000",
           .flags = flag_texts(verify_flags()),
           .schema = &schema(),
           .skips = true,
           .common = {.vary = false, .seeds = false, .device = false, .dtype = false, .memory = false, .force = false},
           .shared_keys = {},
           .json_file = true,
           .resolve = resolve_verify}};
}

}  // namespace periscope::verify
