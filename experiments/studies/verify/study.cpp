#include "experiments/engine/study/study.h"

#include <fmt/format.h>

#include "experiments/studies/verify/report.h"
#include "sim/base/printable.h"
#include "sim/files/output_file.h"

namespace periscope::verify {
namespace {

using study::Job;
using study::Outcome;
using study::Request;

struct VerifyFlags {
  int cases = 20000;
  double scale = 1.0;
  std::string replay;
};
const std::vector<study::Flag<VerifyFlags>>& verify_flags() {
  static const std::vector<study::Flag<VerifyFlags>> all{
      {"cases", &VerifyFlags::cases, "Number of random cases", from_to(1, 2e9)},
      {.name = "scale",
       .field = &VerifyFlags::scale,
       .meaning = "Multiply every bound that should hold by this; below 1 violations must be found",
       .range = from_to(0.0, 1.0),
       .alias = "bound-scale"},
      {"replay", &VerifyFlags::replay, "One case alone: a JSON file, as --out writes one for every violation"}};
  return all;
}

Outcome outcome_of_replay(const std::string& file, double scale) {
  const Replay result = replay(file, scale);
  return {.document = replay_json(result), .table = describe(result), .code = study::code_of(result.passed())};
}

/// Writes the case of every violation into the folder of the result.
std::function<void(stacks::Progress&)> writer_of(const std::vector<Counterexample>& violations,
                                                 const std::string& out) {
  if (out.empty() || violations.empty()) return {};
  return [violations, out](stacks::Progress& progress) {
    for (const Counterexample& v : violations) {
      write_file(case_file(out, v), case_json(v.found).dump() + "\n");
      progress.say(fmt::format("wrote {}\n", printable(case_file(out, v))));
    }
  };
}

Outcome outcome_of_run(const VerifyConfig& config, const std::string& out, stacks::Progress& progress) {
  const VerifyResult result = verify::run(config, progress);
  if (result.stopped_early) return {.stopped_early = true};
  progress.say(fmt::format("{} cases in {:.1f} s ({:.0f}/s)\n", config.cases, result.seconds,
                           static_cast<double>(config.cases) / result.seconds));
  return {.data = dataset_of(result),
          .table = table(result, out),
          .code = study::code_of(result.passed()),
          .write_files = writer_of(result.violations, out)};
}

Job resolve_verify(const Request& request) {
  const auto own = study::read_flags(verify_flags(), request.flags);
  if (!(own.scale > 0.0)) {
    throw ConfigError(fmt::format("--scale {:g}: expected a number above 0 and up to 1", own.scale));
  }
  config::RunOptions run = request.load().run;
  if (!own.replay.empty()) {
    const auto refuse = [](const char* flag, const char* why) {
      throw ConfigError(fmt::format("{} does nothing with --replay: {}", flag, why));
    };
    if (request.out) refuse("--out", "there is no result file of a case");
    if (request.seed) refuse("--seed", "it names the case, seed included");
    if (request.flags.contains("cases")) refuse("--cases", "it is of one case");
  }
  run.device = "reference";
  run.dtype = DType::f64;
  const VerifyConfig config{.seed = run.seed, .cases = static_cast<std::uint64_t>(own.cases), .scale = own.scale};
  config::Resolved all;
  all.add(section, config);
  if (!own.replay.empty()) {
    return {.file = "",
            .run_options = run,
            .resolved = all,
            .unskippable = "--replay: there is no result file of a case",
            .run = [own](stacks::Progress&) { return outcome_of_replay(own.replay, own.scale); }};
  }
  return {.file = "verify",
          .run_options = run,
          .resolved = all,
          .run = [config, out = run.out](stacks::Progress& progress) { return outcome_of_run(config, out, progress); }};
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
