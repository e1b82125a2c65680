#include "experiments/core/study/study.h"

#include <fmt/format.h>

#include "experiments/core/config/parse_format.h"
#include "experiments/studies/certify/soundness/soundness.h"

namespace periscope::soundness {
namespace {

constexpr int most = 100'000'000;

struct SoundnessFlags {
  int checkpoints = 1000;
  std::vector<std::string> formats{"fp32", "bf16", "fp16", "fp8_e5m2", "fp8_e4m3"};
  std::vector<std::string> arithmetics{"mixed", "pure"};
  std::optional<int> only;
  double scale = 1.0;
};
const std::vector<study::Flag<SoundnessFlags>>& flags() {
  static const std::vector<study::Flag<SoundnessFlags>> all{
      {"checkpoints", &SoundnessFlags::checkpoints, "Number of checkpoints", from_to(1, most)},
      {"format", &SoundnessFlags::formats, "Number formats: fp64, fp32, bf16, fp16, fp8_e5m2, fp8_e4m3"},
      {"arithmetic", &SoundnessFlags::arithmetics, "mixed (sums and norms in fp32), pure (all in the format)"},
      {"only", &SoundnessFlags::only, "One checkpoint alone, by its number", from_to(0, most)},
      {"scale", &SoundnessFlags::scale, "Multiply every bound by this; below 1 violations must be found",
       from_to(0.0, 1.0)}};
  return all;
}

NumberFormat any_format(const std::string& word) { return word == fp64.name ? fp64 : config::parse_format(word); }

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
  if (all.empty()) throw ConfigError("--format, --arithmetic: expected at least one of each");
  return all;
}

config::Resolved resolved_of(const SoundnessConfig& config, const SoundnessFlags& own) {
  config::Resolved all;
  all.add(section, config);
  for (auto* json : {&all.printed, &all.hashed}) {
    (*json)["soundness"].update({{"formats", own.formats}, {"arithmetics", own.arithmetics}});
    if (own.only) (*json)["soundness"]["only"] = *own.only;
  }
  return all;
}

study::Job resolve(const study::Request& request) {
  const auto own = study::read_flags(flags(), request.flags);
  if (!(own.scale > 0.0)) {
    throw ConfigError(fmt::format("--scale {:g}: expected a number above 0 and up to 1", own.scale));
  }
  const config::RunOptions options = request.load().run;
  const SoundnessConfig config{.seed = options.seed,
                               .checkpoints = static_cast<std::uint64_t>(own.checkpoints),
                               .arithmetics = arithmetics_of(own),
                               .scale = own.scale};
  stacks::Need need;
  need.add(128.0 * own.checkpoints, "--checkpoints");  // a line of the summary each
  return {.file = "soundness",
          .run_options = options,
          .resolved = resolved_of(config, own),
          .need = need,
          .run = [config, only = own.only](stacks::Progress& progress) -> study::Outcome {
            const SoundnessResult result = only ? soundness::run(config, static_cast<std::uint32_t>(*only), progress)
                                                : soundness::run(config, progress);
            if (result.stopped_early) return {.stopped_early = true};
            return {.data = dataset_of(result), .table = table(result), .code = study::code_of(result.violated == 0)};
          }};
}

}  // namespace

study::Study study() {
  return {.name = "soundness",
          .question = "Attack certificates: adversarial checkpoints, run in the arithmetic they are certified for",
          .example = "soundness --checkpoints 10000",
          .flags = flag_texts(flags()),
          .schema = &schema(),
          .json_file = true,
          .resolve = resolve};
}

}  // namespace periscope::soundness
