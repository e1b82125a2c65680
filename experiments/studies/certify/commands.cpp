#include "experiments/app/commands.h"
#include "experiments/core/config/parse_format.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <memory>

#include "experiments/app/command.h"
#include "experiments/app/whole_number.h"
#include "experiments/core/stacks/verdict_table.h"
#include "experiments/studies/certify/certify.h"

namespace periscope::certify {
namespace {

struct CertifyOptions {
  std::string folder;
  TokenSource source;
  std::vector<std::string> formats{"bf16", "fp16", "fp8_e5m2", "fp8_e4m3"};
  std::vector<std::string> requirements;
  std::optional<double> input_maximum;
  bool measure = false;
  int attack = 0;
  std::string headroom;
  std::string arithmetic = "mixed";
  int length = theory::default_longest;

  void add_to(CLI::App& command) {
    command.add_option("checkpoint", folder,
                       "Folder with config.json and safetensors files; without it, the random stack of the first seed");
    command.add_option("--format", formats, "Number formats to judge: fp32, bf16, fp16, fp8_e5m2, fp8_e4m3")
        ->delimiter(',');
    command
        .add_option("--require", requirements,
                    "Exit 4 unless certified: fp16 (the residual stream), mlp:fp16 (a class), all:fp16")
        ->delimiter(',');
    command.add_option("--tokens", source.tokens, "Token ids to measure beside the bounds: 5,9,2, or a file of them");
    command.add_option("--text", source.text, "Text file to measure, encoded by the tokenizer");
    command.add_option("--tokenizer", source.tokenizer, "A tokenizer file of llama2.c, or \"bytes\"");
    command.add_option("--max-tokens", source.max_tokens, "Read only the first so many tokens")
        ->check(positive_up_to());
    command.add_flag("--measure", measure, "Of a random stack: measure its input of the first seed too");
    command.add_option("--input-maximum", input_maximum,
                       "Of a random stack with Gaussian input: certify real inputs with entries up to this");
    command.add_option(
        "--arithmetic", arithmetic,
        "Arithmetic that verdicts are for: mixed (results are rounded to the format, sums are in fp32), pure "
        "(all in the format), exact");
    command.add_option("--length", length, "Longest input in tokens that is certified, where rounding makes it matter")
        ->check(positive_up_to(1 << 24));
    command.add_option("--attack", attack, "Try to exceed the bounds, with so many steps per restart")
        ->check(positive_up_to(1'000'000));
    command.add_option("--headroom", headroom,
                       "Scale stream and branches into this format, run both stacks, certify the scaled one");
  }
};

Arithmetic parse_arithmetic(const std::string& word) {
  const auto* at = std::ranges::find(arithmetic_names, word);
  if (at != arithmetic_names.end()) return static_cast<Arithmetic>(at - arithmetic_names.begin());
  throw ConfigError(fmt::format("--arithmetic {}: expected one of {}", word, fmt::join(arithmetic_names, ", ")));
}

ExitCode publish_verdicts(const CommonOptions& options, const CertifyConfig& config, const CertifyResult& result,
                          const std::vector<Requirement>& requirements) {
  return publish("certify", options, config.run.out, columns(result, config.formats, result.provenance),
                 table(result, config.formats, use_colour()),
                 passed(result, requirements) ? ExitCode::ok : ExitCode::check_failed);
}

ExitCode run_certify(const CommonOptions& options, const CertifyOptions& own) {
  CertifyConfig config;
  for (const std::string& word : own.formats) config.formats.push_back(parse_format(word));
  std::vector<Requirement> requirements;
  for (const std::string& word : own.requirements) requirements.push_back(parse_requirement(word));
  for (const Requirement& r : requirements) {
    const auto same = [&](const NumberFormat& f) { return f.name == r.format.name; };
    if (std::ranges::none_of(config.formats, same)) config.formats.push_back(r.format);
  }
  if (!own.headroom.empty()) parse_format(own.headroom);
  config.arithmetic = parse_arithmetic(own.arithmetic);
  if (own.input_maximum && !(*own.input_maximum > 0.0 && std::isfinite(*own.input_maximum))) {
    throw ConfigError(fmt::format("--input-maximum {}: expected a positive number", *own.input_maximum));
  }
  static_cast<Config&>(config) = options.load();
  config.checkpoint = own.folder;
  config.length = own.length;
  config.input_maximum = own.input_maximum;
  config.source = own.source;
  config.measure = own.measure;
  config.attack = own.attack;
  config.headroom = own.headroom;
  config.force = options.force;
  return run_whole(
      options, "certify", config.run.out, [&](Progress& progress) { return run(config, progress); },
      [&](const CertifyResult& result) { return publish_verdicts(options, config, result, requirements); });
}

}  // namespace

void add_commands(CLI::App& app, int& code) {
  const auto own = std::make_shared<CertifyOptions>();
  CLI::App* command = add_command(app, code, "certify", "Bound every signal for every input, from the weights alone",
                                  [=](const CommonOptions& options) { return run_certify(options, *own); });
  own->add_to(*command);
}

}  // namespace periscope::certify
