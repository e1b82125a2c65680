#include "experiments/app/commands.h"

#include <fmt/format.h>

#include <memory>

#include "experiments/app/command.h"
#include "experiments/app/standard_streams.h"
#include "experiments/app/whole_number.h"
#include "experiments/core/stacks/verdict_table.h"
#include "experiments/studies/verify/report.h"

namespace periscope::verify {
namespace {

/// What `verify` takes besides the common flags.
struct VerifyFlags {
  std::int64_t cases = 20000;
  double scale = 1.0;
  std::string replay;
};

ExitCode run_replay(const CommonOptions& options, const VerifyFlags& own) {
  const Replay result = replay(own.replay, own.scale);
  if (!options.quiet) print_message(describe(result, own.scale));
  if (options.json) print_json(replay_json(result, own.scale));
  return result.violations.empty() ? ExitCode::ok : ExitCode::check_failed;
}

ExitCode run_verify(const CommonOptions& options, const VerifyFlags& own) {
  if (!(own.scale > 0.0 && own.scale <= 1.0)) {
    throw ConfigError(fmt::format("--scale {:g}: expected a number above 0 and up to 1", own.scale));
  }
  if (options.device.value_or("reference") != "reference" || options.dtype.value_or("f64") != "f64") {
    throw ConfigError("verify measures on the device \"reference\" in f64 only: its bounds are exact to rounding");
  }
  RunOptions run = options.load().run;
  run.device = "reference";
  run.dtype = DType::f64;
  if (!own.replay.empty()) {
    if (options.skip_finished) throw ConfigError("--skip-finished with --replay: there is no result file of a case");
    return run_replay(options, own);
  }
  const VerifyConfig config{.seed = run.seed, .cases = static_cast<std::uint64_t>(own.cases), .scale = own.scale};
  Resolved all;
  all.add(section, config);
  if (const auto code = finished_run(options, "verify", run.out, all, true)) return *code;
  return run_whole(
      options, "verify", run.out, [&](Progress& progress) { return verify::run(config, progress); },
      [&](const VerifyResult& result) {
        return publish("verify", options, run.out, columns(result, provenance(run, all)), table(result, use_colour()),
                       result.passed() ? ExitCode::ok : ExitCode::check_failed, true);
      });
}

}  // namespace

void add_commands(CLI::App& app, int& code) {
  const auto verify_flags = std::make_shared<VerifyFlags>();
  CLI::App* verify = add_skipping_command(
      app, code, "verify", "Attack the bounds on gradients and growth (T14-T16): no input may break them",
      [=](const CommonOptions& options) { return run_verify(options, *verify_flags); });
  verify->add_option("--cases", verify_flags->cases, "Number of random cases")
      ->check(positive_up_to(2'000'000'000))
      ->capture_default_str();
  verify
      ->add_option("--scale,--bound-scale", verify_flags->scale,
                   "Multiply every bound that should hold by this; below 1 violations must be found")
      ->capture_default_str();
  verify->add_option("--replay", verify_flags->replay,
                     "One case alone: SEED:ID of a random case, or a JSON file with a case");
}

}  // namespace periscope::verify
