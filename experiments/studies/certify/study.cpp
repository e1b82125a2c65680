#include "experiments/engine/study/study.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "experiments/engine/settings/theory_override.h"
#include "experiments/engine/study/checkpoint_flags.h"
#include "experiments/studies/certify/certify.h"

namespace periscope::certify {
namespace {

Arithmetic parse_arithmetic(const std::string& word) {
  const auto* at = std::ranges::find(arithmetic_names, word);
  if (at != arithmetic_names.end()) return static_cast<Arithmetic>(at - arithmetic_names.begin());
  throw ConfigError(fmt::format("--arithmetic {}: expected one of {}", word, fmt::join(arithmetic_names, ", ")));
}

const std::vector<study::Flag<CertifyConfig>>& flags() {
  static const auto all = study::checkpoint_flags<CertifyConfig>(
      {{"format", &CertifyConfig::format_words, "Number formats to judge: fp32, bf16, fp16, fp8_e5m2, fp8_e4m3"},
       {"require", &CertifyConfig::requirement_words,
        "Exit with code 4 unless certified: fp16 (the residual stream), mlp:fp16 or cache:fp8_e4m3 (a class), "
        "all:fp16"},
       {"measure", &CertifyConfig::measure, "For a random stack: also measure the signals of the first seed's input"},
       {"input-maximum", &CertifyConfig::input_maximum,
        "For a random stack with Gaussian input: certify real inputs with entries up to this value", above(0.0)},
       {"arithmetic",
        "Arithmetic of the verdicts: mixed (results are rounded to the format, sums are in fp32), pure (all in the "
        "format), exact",
        [](CertifyConfig& config, const auto& words) { config.arithmetic = parse_arithmetic(words.back()); }},
       {"length", &CertifyConfig::length,
        "Length of the longest input to certify, in tokens, if rounding depends on it", from_to(1, 1 << 24)},
       {"attack", &CertifyConfig::attack,
        "Search for inputs that exceed a bound, with this number of steps per restart", from_to(1, 1'000'000)},
       {"headroom", &CertifyConfig::headroom,
        "Scale stream and branches to fit this format, compare the logits, certify the scaled stack"}},
      false);
  return all;
}

CertifyConfig config_of(const study::Request& request) {
  auto config = study::checkpoint_config(flags(), request, request.load());
  config::require_different("--format", config.format_words);
  for (const std::string& word : config.format_words) config.formats.push_back(config::parse_format(word));
  const auto judge = [&](const NumberFormat& format) {
    const bool known = std::ranges::count(config.formats, format.name, &NumberFormat::name) > 0;
    if (!known) config.formats.push_back(format);
  };
  for (const std::string& word : config.requirement_words) {
    judge(config.requirements.emplace_back(parse_requirement(word)).format);
  }
  if (!config.headroom.empty()) judge(config::parse_format(config.headroom, "--headroom"));
  require_model(config);
  return config;
}

study::Outcome outcome_of(const CertifyResult& result) {
  const CertifyConfig& config = result.config;
  study::Outcome outcome{.data = dataset_of(result),
                         .table = table(result),
                         .code = study::code_of(passed(result, config.requirements)),
                         .resolved = result.resolved};
  if (!config.checkpoint.empty()) study::set_checkpoint(*outcome.data, config.checkpoint, result.ignored_keys);
  return outcome;
}

/// The run reads the weights, so it estimates its memory and resolves its settings itself.
study::Job resolve(const study::Request& request) {
  const CertifyConfig config = config_of(request);
  return {.file = "certify",
          .run_options = config.run,
          .resolved = {},
          .overridden = config::override_json(config),
          .run = [config](stacks::Progress& progress) { return outcome_of(run(config, progress)); }};
}

}  // namespace

std::vector<study::Study> studies() {
  return {{.name = "certify",
           .question = "Bound every signal for every input, from the weights alone",
           .example = "certify DIR --headroom fp16",
           .flags = flag_texts(flags()),
           .schema = &schema(),
           .without = {"seeds", "memory"},
           .shared_keys = {"model.", "init.", "input."},
           .resolve = resolve}};
}

}  // namespace periscope::certify
