#include "experiments/engine/study/study.h"

#include <fmt/format.h>

#include "experiments/studies/verify/verify.h"
#include "sim/base/printable.h"
#include "sim/files/output_file.h"

namespace periscope::verify {
namespace {

const std::vector<study::Flag<VerifyConfig>> verify_flags{
    {"cases", &VerifyConfig::cases, "Number of random cases", from_to(1, 2e9)},
    {"starts", &VerifyConfig::starts, "Random starts per attack; few may miss its bound (exit code 4)",
     from_to(1, 1e6)},
    {"scale", &VerifyConfig::scale,
     "Factor applied to every bound that should hold; factors below 1 should cause violations", from_to(0.0, 1.0)},
    {"replay", &VerifyConfig::replay, "Check only the case in this JSON file; --out writes one file per violation"}};

study::Outcome outcome_of(const VerifyConfig& config, stacks::Progress& progress) {
  const VerifyResult result = verify::run(config, progress);
  study::Outcome outcome{.data = dataset_of(result), .table = table(result), .code = study::code_of(result.passed())};
  if (config.out.empty()) return outcome;
  outcome.write_files = [config, statements = result.statements](stacks::Progress& to) {
    for (const StatementResult& s : statements) {
      if (!s.is_violated()) continue;
      const std::string path = case_file(config, *s.statement);
      write_file(path, case_json(s.counterexample->found).dump() + "\n");
      to.say(fmt::format("wrote {}\n", printable(path)));
    }
  };
  return outcome;
}

study::Job resolve_verify(const study::Request& request) {
  VerifyConfig own = study::read_flags(verify_flags, request.flags);
  if (own.scale == 0.0) throw ConfigError("--scale 0: expected a number above 0 and up to 1");
  config::RunOptions run = request.load().run;
  run.device = "reference";
  run.dtype = DType::f64;
  own.seed = run.seed;
  own.out = run.out;
  study::Job job{.file = "verify", .run_options = run, .resolved = {}, .run = {}};
  job.resolved.printed["verify"] = {
      {"seed", own.seed}, {"cases", own.cases}, {"scale", own.scale}, {"starts", own.starts}};
  job.resolved.hashed = job.resolved.printed;
  if (own.replay.empty()) {
    job.run = [own](stacks::Progress& progress) { return outcome_of(own, progress); };
    return job;
  }
  for (const auto& [given, flag] : {std::pair{request.run.contains("out"), "out"},
                                    {request.run.contains("seed"), "seed"},
                                    {request.flags.contains("cases"), "cases"},
                                    {request.flags.contains("starts"), "starts"}}) {
    if (given)
      throw ConfigError(fmt::format("--{} has no effect with --replay, which checks the one case in the file", flag));
  }
  job.file = "";
  job.unskippable_reason = "--replay: a replayed case has no result file";
  job.run = [own](stacks::Progress&) { return replay(own); };
  return job;
}

}  // namespace

std::vector<study::Study> studies() {
  return {{.name = "verify",
           .question = "Attack the bounds on gradients and growth, which no input should violate",
           .example = "verify --cases 20000",
           .flags = flag_texts(verify_flags),
           .schema = &schema(),
           .skippable = true,
           .without = {"vary", "seeds", "device", "dtype", "memory", "force"},
           .shared_keys = {},
           .json_file = true,
           .resolve = resolve_verify}};
}

}  // namespace periscope::verify
