#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>

#include "experiments/engine/settings/config.h"
#include "sim/base/error.h"
#include "tests/soundness/search.h"

/// soundness_attack: attacks certificates with any number of checkpoints. Prints a table and the violations.
/// Exit code: 0 no bound exceeded, 1 a bound exceeded, 2 usage error.
int main(int argc, char** argv) {
  using namespace periscope;
  CLI::App app{"Attack certificates: run adversarial checkpoints in the arithmetic of their certificates"};
  soundness::SoundnessConfig config;
  std::vector<std::string> formats{"fp32", "bf16", "fp16", "fp8_e5m2", "fp8_e4m3"};
  std::vector<std::string> kinds{"mixed", "pure"};
  app.add_option("--checkpoints", config.checkpoints, "Number of checkpoints")->check(CLI::Range(1, 100'000'000));
  app.add_option("--seed", config.seed, "Seed of the checkpoints and their inputs");
  app.add_option("--format", formats, "Number formats: fp64, fp32, bf16, fp16, fp8_e5m2, fp8_e4m3")->delimiter(',');
  app.add_option("--arithmetic", kinds, "mixed (sums and norms in fp32), pure (all in the format)")
      ->delimiter(',')
      ->check(CLI::IsMember({"mixed", "pure"}));
  const auto* only = app.add_option("--only", config.first, "Run only the checkpoint with this number");
  app.add_option("--scale", config.scale, "Factor on every bound; factors below 1 must give violations")
      ->check(CLI::Range(1e-300, 1.0));
  try {
    app.parse(argc, argv);
    for (const std::string& kind : kinds) {
      for (const std::string& name : formats) {
        config.arithmetics.push_back(run_arithmetic(kind == "mixed" ? Arithmetic::mixed : Arithmetic::pure,
                                                    name == fp64.name ? fp64 : config::parse_format(name)));
      }
    }
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const ConfigError& error) {
    fmt::print(stderr, "soundness_attack: {}\n", error.what());
    return 2;
  }
  if (only->count() > 0) config.checkpoints = 1;
  const std::vector<soundness::SpecimenResult> results = soundness::run(config);
  fmt::print("{}", soundness::report(config, results));
  return std::ranges::any_of(results, &soundness::SpecimenResult::violated) ? 1 : 0;
}
