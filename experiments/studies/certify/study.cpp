#include "experiments/engine/study/study.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "experiments/engine/settings/parse_format.h"
#include "experiments/engine/settings/theory_override.h"
#include "experiments/engine/study/checkpoint_flags.h"
#include "experiments/studies/certify/certify.h"

namespace periscope::certify {
namespace {

struct CertifyFlags : study::CheckpointFlags {
  std::vector<std::string> formats{"bf16", "fp16", "fp8_e5m2", "fp8_e4m3"};
  std::vector<std::string> requirements;
  std::optional<double> input_maximum;
  bool measure = false;
  std::optional<int> attack;
  std::string headroom;
  std::string arithmetic = "mixed";
  int length = theory::default_longest;
};
const std::vector<study::Flag<CertifyFlags>>& flags() {
  static const std::vector<study::Flag<CertifyFlags>> all{
      {.name = "checkpoint",
       .field = &CertifyFlags::checkpoint,
       .meaning = "Folder with config.json and safetensors files; without it, the random stack of the first seed",
       .positional = true},
      {"format", &CertifyFlags::formats, "Number formats to judge: fp32, bf16, fp16, fp8_e5m2, fp8_e4m3"},
      {"require", &CertifyFlags::requirements,
       "Exit 4 unless certified: fp16 (the residual stream), mlp:fp16 (a class), all:fp16"},
      {"tokens", &CertifyFlags::tokens, "Token ids to measure beside the bounds: 5,9,2, or a file of them"},
      {"text", &CertifyFlags::text, "Text file to measure, encoded by the tokenizer"},
      {"tokenizer", &CertifyFlags::tokenizer, "A tokenizer file of llama2.c, or \"bytes\""},
      {"max-tokens", &CertifyFlags::max_tokens, "Read only the first so many tokens", at_least(1)},
      study::ignore_key_flag<CertifyFlags>(),
      {"measure", &CertifyFlags::measure, "Of a random stack: measure its input of the first seed too"},
      {"input-maximum", &CertifyFlags::input_maximum,
       "Of a random stack with Gaussian input: certify real inputs with entries up to this", above(0.0)},
      {"arithmetic", &CertifyFlags::arithmetic,
       "Arithmetic that verdicts are for: mixed (results are rounded to the format, sums are in fp32), pure "
       "(all in the format), exact"},
      {"length", &CertifyFlags::length, "Longest input in tokens that is certified, where rounding makes it matter",
       from_to(1, 1 << 24)},
      {"attack", &CertifyFlags::attack, "Try to exceed the bounds, with so many steps per restart",
       from_to(1, 1'000'000)},
      {"headroom", &CertifyFlags::headroom,
       "Scale stream and branches into this format, run both stacks, certify the scaled one"}};
  return all;
}

Arithmetic parse_arithmetic(const std::string& word) {
  const auto* at = std::ranges::find(arithmetic_names, word);
  if (at != arithmetic_names.end()) return static_cast<Arithmetic>(at - arithmetic_names.begin());
  throw ConfigError(fmt::format("--arithmetic {}: expected one of {}", word, fmt::join(arithmetic_names, ", ")));
}

std::vector<Requirement> requirements_of(const CertifyFlags& own) {
  std::vector<Requirement> all;
  for (const std::string& word : own.requirements) all.push_back(parse_requirement(word));
  return all;
}

/// The formats that are judged: those that were asked for, and those that something is required of.
std::vector<NumberFormat> judged_formats(const CertifyFlags& own, const std::vector<Requirement>& requirements) {
  config::require_different("--format", own.formats);
  std::vector<NumberFormat> all;
  for (const std::string& word : own.formats) all.push_back(config::parse_format(word));
  for (const Requirement& r : requirements) {
    if (std::ranges::find(all, r.format.name, &NumberFormat::name) == all.end()) all.push_back(r.format);
  }
  return all;
}

CertifyConfig config_of(const study::Request& request, const CertifyFlags& own,
                        const std::vector<Requirement>& requirements) {
  CertifyConfig config;
  config.formats = judged_formats(own, requirements);
  if (!own.headroom.empty()) config::parse_format(own.headroom, "--headroom");
  config.arithmetic = parse_arithmetic(own.arithmetic);
  static_cast<config::Config&>(config) = request.load();
  config.checkpoint = own.checkpoint;
  study::require_other_folder("run.out", config.run.out, own.checkpoint);
  config.model = request.model;
  config.ignore_keys = own.ignore_keys;
  config.length = own.length;
  config.input_maximum = own.input_maximum;
  config.source = own;
  config.measure = own.measure;
  config.attack = own.attack.value_or(0);
  config.headroom = own.headroom;
  config.force = request.force;
  return config;
}

study::Outcome outcome_of(const CertifyConfig& config, const CertifyResult& result,
                          const std::vector<Requirement>& requirements) {
  if (result.stopped_early) return {.stopped_early = true};
  study::Outcome outcome{.data = dataset_of(result, config.formats),
                         .table = table(result, config.formats),
                         .code = study::code_of(passed(result, requirements)),
                         .resolved = result.resolved};
  if (!config.checkpoint.empty()) study::set_checkpoint(*outcome.data, config.checkpoint, result.ignored_keys);
  return outcome;
}

/// The run reads the weights, so that it finds out itself what it needs and what its result is made from.
study::Job resolve(const study::Request& request) {
  const auto own = study::read_flags(flags(), request.flags);
  const std::vector<Requirement> requirements = requirements_of(own);
  const CertifyConfig config = config_of(request, own, requirements);
  require_model(config);
  return {.file = "certify",
          .run_options = config.run,
          .resolved = {},
          .overridden = config::override_json(config),
          .run = [config, requirements](stacks::Progress& progress) {
            return outcome_of(config, run(config, progress), requirements);
          }};
}

}  // namespace

std::vector<study::Study> studies() {
  return {{.name = "certify",
           .question = "Bound every signal for every input, from the weights alone",
           .example = "certify DIR --headroom fp16",
           .flags = flag_texts(flags()),
           .schema = &schema(),
           .common = {.seeds = false, .memory = false},
           .shared_keys = {"model.", "init.", "input."},
           .resolve = resolve}};
}

}  // namespace periscope::certify
