#include "experiments/certify/commands.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <memory>

#include "experiments/certify/certify.h"
#include "experiments/certify/theory_parameters.h"
#include "experiments/common/command.h"
#include "experiments/common/measure_stack.h"
#include "experiments/common/progress.h"
#include "experiments/common/provenance.h"
#include "experiments/common/publish.h"
#include "experiments/common/token_ids.h"
#include "experiments/common/verdict_table.h"
#include "experiments/probe/token_input.h"
#include "sim/backends.h"
#include "sim/checkpoint/checkpoint_weights.h"

namespace periscope {
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
        ->check(CLI::PositiveNumber);
    command.add_flag("--measure", measure, "Of a random stack: measure its input of the first seed too");
    command.add_option("--input-maximum", input_maximum,
                       "Of a random stack with Gaussian input: certify real inputs with entries up to this");
    command.add_option(
        "--arithmetic", arithmetic,
        "Arithmetic that verdicts are for: mixed (results are rounded to the format, sums are in fp32), pure "
        "(all in the format), exact");
    command.add_option("--length", length, "Longest input in tokens that is certified, where rounding makes it matter")
        ->check(CLI::Range(1, 1 << 24));
    command.add_option("--attack", attack, "Try to exceed the bounds, with so many steps per restart")
        ->check(CLI::PositiveNumber);
    command.add_option("--headroom", headroom,
                       "Scale stream and branches into this format, run both stacks, certify the scaled one");
  }
  [[nodiscard]] bool measures() const { return measure || source.tokens || source.text; }
};

/// The model under test, from a checkpoint or from a configuration.
struct Subject {
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Checkpoint> checkpoint;
  std::unique_ptr<WeightSource> weights;
  StackSpec spec;
  std::string name, family;
  DType dtype;

  [[nodiscard]] StackContext context() const { return {.ops = *backend, .model = spec.model, .weights = *weights}; }
};

Subject open_checkpoint(const Config& config, const CertifyOptions& own) {
  for (const std::string& key : config.given) {
    if (!key.starts_with("run.")) throw ConfigError(fmt::format("{}: not for a checkpoint; expected keys of run", key));
  }
  if (own.measure || own.input_maximum) {
    throw ConfigError(fmt::format("{}: not for a checkpoint; expected --tokens or --text",
                                  own.measure ? "--measure" : "--input-maximum"));
  }
  Subject s{.backend = make_backend(config.run.device),
            .checkpoint = std::make_unique<Checkpoint>(own.folder),
            .weights = nullptr,
            .spec = {},
            .name = std::filesystem::path(own.folder + "/.").lexically_normal().parent_path().filename().string(),
            .family = {},
            .dtype = config.run.dtype_choice.value_or(DType::f64)};
  s.family = s.checkpoint->family().name;
  s.spec.model = s.checkpoint->model();
  s.spec.input.kind = InputKind::tokens;
  s.weights = std::make_unique<CheckpointWeights>(*s.backend, *s.checkpoint, s.dtype);
  return s;
}

Subject draw_stack(const Config& config, const CertifyOptions& own) {
  const std::vector<StackSpec> stacks = config.stacks();
  if (stacks.size() != 1) {
    throw ConfigError(
        fmt::format("certify: expected one placement and one kind of input, not {} stacks", stacks.size()));
  }
  if (own.source.tokens || own.source.text) {
    throw ConfigError("--tokens and --text are for checkpoints; of a random stack, --measure reads its input");
  }
  Subject s{.backend = make_backend(config.run.device),
            .checkpoint = nullptr,
            .weights = nullptr,
            .spec = stacks.front(),
            .name = fmt::format("random {} stack of seed {}", stacks.front().model.placement.name, config.run.seed),
            .family = {},
            .dtype = config.run.dtype_choice.value_or(DType::f64)};
  s.weights = std::make_unique<GeneratedWeights>(*s.backend, s.spec, s.dtype, config.run.seed);
  return s;
}

theory::InputDomain domain_of(const Subject& s, const CertifyOptions& own) {
  if (s.spec.input.kind != InputKind::gaussian) return {};
  if (!own.input_maximum && !s.spec.model.embedding_norm) {
    throw ConfigError(
        "input.kind = \"gaussian\": any real input has no bound; expected --input-maximum, model.embedding_norm = true "
        "or input.kind = \"tokens\"");
  }
  return {.tokens = false, .largest = own.input_maximum.value_or(theory::infinity)};
}

/// What is run here of any real vectors: the squares of larger ones overflow.
theory::InputDomain run_domain(theory::InputDomain domain) {
  domain.largest = std::min(domain.largest, 1e6);
  return domain;
}

/// The tokens to measure: those that were asked for, or 32 random ones to run scaled stacks on.
std::vector<int> ids_of(const Subject& s, const CertifyOptions& own, const Config& config) {
  if (s.checkpoint != nullptr && own.measures()) return read_token_input(own.source, s.spec.model, own.folder).ids;
  StackSpec spec = s.spec;
  if (s.checkpoint != nullptr) {
    spec.input.tokens = 32;
    const EmbeddingSpec& e = spec.model.embedding;
    if (e.positions > 0) spec.input.tokens = std::min(spec.input.tokens, e.positions - e.position_offset);
  }
  return token_ids(spec, config.run.seed);
}

void measure(const Subject& s, const CertifyOptions& own, const Config& config, CertifyResult& result) {
  SignalMaxima& seen = result.measured.emplace();
  if (result.domain.tokens) {
    const std::vector<int> ids = ids_of(s, own, config);
    seen.add(s.context(), ids);
    result.tokens = static_cast<int>(ids.size());
    return;
  }
  const Tensor input = stack_input(s.context(), s.spec, s.dtype, config.run.seed);
  seen.add(s.context(), clamped(*s.backend, input, run_domain(result.domain).largest));
  result.tokens = static_cast<int>(input.rows());
}

void attack_all(const Subject& s, const CertifyOptions& own, const Config& config, bool quiet, CertifyResult& result,
                SignalMaxima& seen) {
  const std::vector<SignalPlace> places = attack_places(*result.own);
  const theory::InputDomain domain = run_domain(result.domain);
  Progress progress("attack", static_cast<int>(places.size()), quiet);
  for (const SignalPlace& place : places) {
    const AttackOptions options{.steps = own.attack, .seed = config.run.seed, .dtype = s.dtype};
    result.attacks.push_back(attack(s.context(), *result.own, place, domain, options, seen));
    progress.step(place_text(place, s.spec.model));
  }
}

void advise(const Subject& s, const CertifyOptions& own, const Config& config, CertifyResult& result) {
  result.headroom =
      headroom_of(s.spec.model, result.certificate, result.measured ? &*result.measured : nullptr, result.runs);
  if (own.headroom.empty()) return;
  const NumberFormat format = parse_format(own.headroom);
  if (!result.domain.tokens) throw ConfigError("--headroom: expected token input, to run both stacks on");
  if (!result.headroom.possible) {
    throw ConfigError("--headroom: the stack's output is its result; expected a final norm or an unembedding");
  }
  for (const FormatHeadroom& f : result.headroom.formats) {
    if (f.format.name != format.name) continue;
    if (!(f.stream > 0.0))
      throw ConfigError("--headroom: the stream has no bound, so no factor brings it into a format");
    const double c = std::clamp(power_of_two_below(f.stream), 0x1p-40, 0x1p40);
    const double k = std::isnan(f.branch) ? 1.0 : std::min(1.0, power_of_two_below(f.branch));
    result.headroom.run = run_scaled(s.context(), {.stream = c, .branch = k}, ids_of(s, own, config), result.runs);
  }
}

Arithmetic parse_arithmetic(const std::string& word) {
  const auto* at = std::ranges::find(arithmetic_names, word);
  if (at != arithmetic_names.end()) return static_cast<Arithmetic>(at - arithmetic_names.begin());
  throw ConfigError(fmt::format("--arithmetic {}: expected one of {}", word, fmt::join(arithmetic_names, ", ")));
}

/// What certify reads; a random stack's weights are hashed on the way.
void certify_all(const Subject& s, const CertifyOptions& own, const std::vector<NumberFormat>& formats,
                 CertifyResult& result) {
  const TheoryParameters parameters(*s.backend, s.spec.model, *s.weights);
  const ModelSpec& m = s.spec.model;
  const auto start = std::chrono::steady_clock::now();
  if (s.checkpoint != nullptr) {
    result.certificate = theory::certify(m, parameters, result.domain);
    result.weights = hashes_of_files(s.checkpoint->files());
  } else {
    const HashedParameters hashed(parameters);
    result.certificate = theory::certify(m, hashed, result.domain);
    result.weights = {{"drawn", hashed.hash()}};
  }
  for (const NumberFormat& f : formats) {
    if (result.arithmetic == Arithmetic::exact) break;
    const RunArithmetic run = run_arithmetic(result.arithmetic, f);
    result.runs.push_back(theory::certify(m, parameters, result.domain, run, own.length));
  }
  if (own.measures() || own.attack > 0) {
    const NumberFormat& f = format_of(s.dtype);
    result.own =
        theory::certify(m, parameters, run_domain(result.domain), run_arithmetic(Arithmetic::pure, f), own.length);
  }
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

nlohmann::ordered_json provenance_of(Config config, const Subject& s, const CertifyOptions& own) {
  config.base = s.spec;
  config.placements = {s.spec.model.placement};
  config.inputs = {s.spec.input.kind};
  config.final_norm = s.spec.model.final_norm;
  config.run.dtype = s.dtype;
  nlohmann::ordered_json json = provenance(config);
  if (s.checkpoint != nullptr) json["checkpoint"] = own.folder;
  return json;
}

ExitCode run_certify(const CommonOptions& options, const CertifyOptions& own) {
  std::vector<NumberFormat> formats;
  for (const std::string& word : own.formats) formats.push_back(parse_format(word));
  std::vector<Requirement> requirements;
  for (const std::string& word : own.requirements) requirements.push_back(parse_requirement(word));
  for (const Requirement& r : requirements) {
    const auto same = [&](const NumberFormat& f) { return f.name == r.format.name; };
    if (std::ranges::none_of(formats, same)) formats.push_back(r.format);
  }
  if (!own.headroom.empty()) parse_format(own.headroom);
  const Arithmetic arithmetic = parse_arithmetic(own.arithmetic);
  if (own.input_maximum && !(*own.input_maximum > 0.0 && std::isfinite(*own.input_maximum))) {
    throw ConfigError(fmt::format("--input-maximum {}: expected a positive number", *own.input_maximum));
  }
  const Config config = options.load();
  const Subject s = own.folder.empty() ? draw_stack(config, own) : open_checkpoint(config, own);
  CertifyResult result{
      .model = s.name, .family = s.family, .spec = s.spec, .domain = domain_of(s, own), .arithmetic = arithmetic};
  certify_all(s, own, formats, result);

  if (own.measures()) measure(s, own, config, result);
  SignalMaxima seen = result.measured.value_or(SignalMaxima());
  if (own.attack > 0) attack_all(s, own, config, options.quiet, result, seen);
  if (result.own) result.exceeded = exceeded(*result.own, seen, 0.0);
  advise(s, own, config, result);
  publish("certify", options, config.run.out, certify_columns(result, formats, provenance_of(config, s, own)),
          certify_table(result, formats, use_colour()));

  if (result.exceeded) return ExitCode::check_failed;
  const bool met =
      std::ranges::all_of(requirements, [&](const Requirement& r) { return verdict_of(result, r).certified; });
  return met ? ExitCode::ok : ExitCode::check_failed;
}

}  // namespace

void add_certify_command(CLI::App& app, int& code) {
  const auto own = std::make_shared<CertifyOptions>();
  CLI::App* command = add_command(app, code, "certify", "Bound every signal for every input, from the weights alone",
                                  [=](const CommonOptions& options) { return run_certify(options, *own); });
  own->add_to(*command);
}

}  // namespace periscope
