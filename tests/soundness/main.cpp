#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "experiments/engine/settings/config.h"
#include "sim/base/error.h"
#include "tests/soundness/search.h"

/// soundness_attack: the attack on certificates by hand, with as many checkpoints as one likes. The table goes to
/// standard error, the smallest checkpoints that passed a bound, with their weights, to standard output as JSON.
/// Exit code: 0 no bound was passed, 1 one was, 2 usage.
namespace periscope::soundness {
namespace {

NumberFormat any_format(const std::string& word) { return word == fp64.name ? fp64 : config::parse_format(word); }

int attack(int argc, char** argv) {
  CLI::App app{"Attack certificates: adversarial checkpoints, run in the arithmetic they are certified for"};
  SoundnessConfig config;
  std::vector<std::string> formats{"fp32", "bf16", "fp16", "fp8_e5m2", "fp8_e4m3"};
  std::vector<std::string> kinds{"mixed", "pure"};
  app.add_option("--checkpoints", config.checkpoints, "Number of checkpoints")->check(CLI::Range(1, 100'000'000));
  app.add_option("--seed", config.seed, "Seed of the checkpoints and their inputs");
  app.add_option("--format", formats, "Number formats: fp64, fp32, bf16, fp16, fp8_e5m2, fp8_e4m3")->delimiter(',');
  app.add_option("--arithmetic", kinds, "mixed (sums and norms in fp32), pure (all in the format)")
      ->delimiter(',')
      ->check(CLI::IsMember({"mixed", "pure"}));
  const auto* only = app.add_option("--only", config.first, "One checkpoint alone, by its number");
  app.add_option("--scale", config.scale, "Multiply every bound by this; below 1 violations must be found")
      ->check(CLI::Range(1e-300, 1.0));
  try {
    app.parse(argc, argv);
    for (const std::string& kind : kinds) {
      for (const std::string& format : formats) {
        config.arithmetics.push_back(
            run_arithmetic(kind == "mixed" ? Arithmetic::mixed : Arithmetic::pure, any_format(format)));
      }
    }
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const ConfigError& error) {
    fmt::print(stderr, "soundness_attack: {}\n", error.what());
    return 2;
  }
  if (only->count() > 0) config.checkpoints = 1;
  constexpr std::uint32_t between_notes = 6400;
  const SoundnessResult result = run(config, [&](std::uint32_t done) {
    if (done % between_notes == 0) fmt::print(stderr, "{} of {} checkpoints\n", done, config.checkpoints);
  });
  fmt::print(stderr, "{}", report(result));
  if (result.violated > 0) fmt::print("{}\n", violations_json(result).dump());
  return result.violated == 0 ? 0 : 1;
}

}  // namespace
}  // namespace periscope::soundness

int main(int argc, char** argv) { return periscope::soundness::attack(argc, argv); }
