#include "experiments/app/commands.h"
#include "experiments/core/config/parse_format.h"

#include <fmt/format.h>

#include <memory>

#include "experiments/app/command.h"
#include "experiments/app/whole_number.h"
#include "experiments/core/config/provenance.h"
#include "experiments/core/stacks/fits.h"
#include "experiments/core/stacks/verdict_table.h"
#include "experiments/studies/certify/certify.h"
#include "experiments/studies/certify/soundness/soundness.h"

namespace periscope::soundness {
namespace {

struct SoundnessFlags {
  std::int64_t checkpoints = 1000;
  std::vector<std::string> formats{"fp32", "bf16", "fp16", "fp8_e5m2", "fp8_e4m3"};
  std::vector<std::string> arithmetics{"mixed", "pure"};
  std::optional<std::int64_t> only;
  double scale = 1.0;
};

constexpr std::int64_t most = 100'000'000;

NumberFormat any_format(const std::string& word) { return word == fp64.name ? fp64 : parse_format(word); }

std::vector<RunArithmetic> arithmetics_of(const SoundnessFlags& own) {
  std::vector<RunArithmetic> all;
  for (const std::string& kind : own.arithmetics) {
    if (kind != "mixed" && kind != "pure") {
      throw ConfigError(fmt::format("--arithmetic {}: expected mixed or pure", kind));
    }
    for (const std::string& format : own.formats) {
      all.push_back(run_arithmetic(kind == "mixed" ? Arithmetic::mixed : Arithmetic::pure, any_format(format)));
    }
  }
  return all;
}

ExitCode run_soundness(const CommonOptions& options, const SoundnessFlags& own) {
  if (!(own.scale > 0.0 && own.scale <= 1.0)) {
    throw ConfigError(fmt::format("--scale {:g}: expected a number above 0 and up to 1", own.scale));
  }
  const RunOptions run = options.load().run;
  const SoundnessConfig config{.seed = run.seed,
                               .checkpoints = static_cast<std::uint64_t>(own.checkpoints),
                               .arithmetics = arithmetics_of(own),
                               .scale = own.scale};
  Resolved all;
  all.add(section, config);
  for (auto* json : {&all.printed, &all.hashed}) {
    (*json)["soundness"].update({{"formats", own.formats}, {"arithmetics", own.arithmetics}});
    if (own.only) (*json)["soundness"]["only"] = *own.only;
  }
  Need need;
  need.add(128.0 * static_cast<double>(own.checkpoints), "--checkpoints");  // a line of the summary each
  return within_memory(need, options.force, options.quiet, [&] {
    return run_whole(
        options, "soundness", run.out,
        [&](Progress& progress) {
          return own.only ? soundness::run(config, static_cast<std::uint32_t>(*own.only), progress)
                          : soundness::run(config, progress);
        },
        [&](const SoundnessResult& result) {
          return publish("soundness", options, run.out, columns(result, provenance(run, all)),
                         table(result, use_colour()), result.violated == 0 ? ExitCode::ok : ExitCode::check_failed,
                         true);
        });
  });
}

}  // namespace

void add_commands(CLI::App& app, int& code) {
  const auto own = std::make_shared<SoundnessFlags>();
  CLI::App* command =
      add_command(app, code, "soundness",
                  "Attack certificates: adversarial checkpoints, run in the arithmetic they are certified for",
                  [=](const CommonOptions& options) { return run_soundness(options, *own); });
  command->add_option("--checkpoints", own->checkpoints, "Number of checkpoints")
      ->check(positive_up_to(most))
      ->capture_default_str();
  command->add_option("--format", own->formats, "Number formats: fp64, fp32, bf16, fp16, fp8_e5m2, fp8_e4m3")
      ->delimiter(',');
  command->add_option("--arithmetic", own->arithmetics, "mixed (sums and norms in fp32), pure (all in the format)")
      ->delimiter(',');
  command->add_option("--only", own->only, "One checkpoint alone, by its number")->check(whole_number(0, most));
  command->add_option("--scale", own->scale, "Multiply every bound by this; below 1 violations must be found")
      ->capture_default_str();
}

}  // namespace periscope::soundness
