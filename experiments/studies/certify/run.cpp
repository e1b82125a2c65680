#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <memory>

#include "experiments/engine/run/memory_estimate.h"
#include "experiments/engine/run/rescaled_stack.h"
#include "experiments/engine/run/stacks.h"
#include "experiments/engine/run/token_ids.h"
#include "experiments/engine/settings/resolved.h"
#include "experiments/engine/settings/sha256.h"
#include "experiments/engine/settings/theory_parameters.h"
#include "experiments/engine/study/request.h"
#include "experiments/studies/certify/certify.h"
#include "sim/backends.h"
#include "sim/base/error.h"
#include "sim/base/mapped.h"
#include "sim/base/printable.h"
#include "sim/checkpoint/checkpoint_weights.h"

namespace periscope::certify {
namespace {

/// The model under test, from a checkpoint or from a configuration.
struct ModelToCertify {
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Checkpoint> checkpoint = {};
  std::unique_ptr<WeightSource> weights = {};
  StackSpec spec = {};
  DType dtype;

  /// Returns the names of a checkpoint's weights in its files; empty for a random stack.
  [[nodiscard]] config::EntryNames entry_names() const {
    if (checkpoint == nullptr) return {};
    return [this](const ParameterId& id, std::int64_t entry) { return checkpoint->entry_name(id, entry); };
  }
  [[nodiscard]] StackContext context() const { return {.ops = *backend, .model = spec.model, .weights = *weights}; }
};

ModelToCertify open_model(const CertifyConfig& own) {
  ModelToCertify s{.backend = make_backend(own.run.device), .dtype = own.run.dtype_choice.value_or(DType::f64)};
  if (own.checkpoint.empty()) {
    s.spec = own.stacks().front();
    s.weights = std::make_unique<GeneratedWeights>(*s.backend, s.spec, s.dtype, own.run.seed);
    return s;
  }
  s.checkpoint = own.open(Checkpoint::Mixtures::read);
  s.spec.model = s.checkpoint->model();
  if (s.spec.model.experts.count > 0 && (own.measures() || own.attack || !own.headroom.empty())) {
    throw ConfigError(
        "--tokens, --text, --attack and --headroom run the model: expected a checkpoint without mixtures of experts");
  }
  s.spec.input.kind = InputKind::tokens;
  s.weights = std::make_unique<CheckpointWeights>(*s.backend, *s.checkpoint, s.dtype);
  return s;
}

/// Throws ConfigError with the text of the first condition that holds.
void reject(std::initializer_list<std::pair<bool, const char*>> conditions) {
  for (const auto& [is_true, words] : conditions) {
    if (is_true) throw ConfigError(words);
  }
}

void require_scalable(const CertifyConfig& own, const ModelSpec& m) {
  if (own.headroom.empty() || can_scale(m)) return;
  throw ConfigError("--headroom: " + why_unscalable(m));
}

void require_checkpoint(const CertifyConfig& own) {
  study::require_keys_of_checkpoint(own, {"run."});
  reject({{own.measure, "--measure: does not apply to a checkpoint; use --tokens or --text"},
          {own.input_maximum.has_value(), "--input-maximum: does not apply to a checkpoint, which reads token ids"}});
}

void require_random_stack(const CertifyConfig& own) {
  const std::vector<StackSpec> stacks = own.stacks();
  if (stacks.size() != 1) {
    throw ConfigError(fmt::format("certify: expected one value for every key of model, init and input, found {} stacks",
                                  stacks.size()));
  }
  const ModelSpec& m = stacks.front().model;
  const bool is_gaussian = stacks.front().input.kind == InputKind::gaussian;
  reject({{!own.tokens.empty() || !own.text.empty(),
           "--tokens and --text apply only to checkpoints; use --measure to measure a random stack on its own input"},
          {!own.ignore_keys.empty(), "--ignore-key applies only to checkpoints; a random stack has no config.json"}});
  require_scalable(own, m);
  reject({{!is_gaussian && own.input_maximum, "--input-maximum has no effect here; expected input.kind = \"gaussian\""},
          {is_gaussian && !own.input_maximum && !m.embedding_norm,
           "input.kind = \"gaussian\": Gaussian input is unbounded; expected --input-maximum, model.embedding_norm = "
           "true or input.kind = \"tokens\""},
          {is_gaussian && !own.headroom.empty(),
           "--headroom: expected input.kind = \"tokens\", as both stacks are run on token ids"}});
}

/// Limits real vectors to magnitudes whose squares do not overflow in a run.
theory::InputDomain run_domain(theory::InputDomain domain) {
  domain.largest = std::min(domain.largest, 1e6);
  return domain;
}

/// Returns the tokens to measure, or random tokens for the scaled run.
std::vector<int> ids_of(const ModelToCertify& s, const CertifyConfig& own) {
  if (s.checkpoint == nullptr) return stacks::token_ids(s.spec, own.run.seed);
  return own.measures() ? stacks::read_token_input(own, s.spec.model, own.checkpoint).ids
                        : stacks::random_token_ids(s.spec.model, own.run.seed);
}

void measure(const ModelToCertify& s, CertifyResult& result) {
  SignalMaxima& seen = result.measured.emplace();
  if (result.domain.tokens) {
    seen.add(s.context(), ids_of(s, result.config));
  } else {
    const Tensor input = stacks::stack_input(s.context(), s.spec, s.dtype, result.config.run.seed);
    seen.add(s.context(), clamped(*s.backend, input, run_domain(result.domain).largest));
  }
}

void attack_all(const ModelToCertify& s, stacks::Progress& progress, CertifyResult& result, SignalMaxima& seen) {
  const std::vector<SignalPlace> places = attack_places(*result.own);
  const theory::InputDomain domain = run_domain(result.domain);
  progress.begin("attack", static_cast<int>(places.size()));
  for (const SignalPlace& place : places) {
    progress.throw_if_stop_requested();
    const AttackOptions options{.steps = *result.config.attack, .seed = result.config.run.seed, .dtype = s.dtype};
    result.attacks.push_back(attack(s.context(), *result.own, place, domain, options, seen));
    progress.step(place_text(place, s.spec.model));
  }
}

void compute_headroom(const ModelToCertify& s, CertifyResult& result) {
  const Certificates& all = result.certificates;
  const StackContext context = s.context();
  const CertifyScaled certify_at = certify_scaled(context, result.domain, s.entry_names());
  // A tied table is also the head's weight, so the factor goes into the embedding's scale.
  const bool tied = s.checkpoint != nullptr && s.checkpoint->tied();
  result.headroom = headroom_of(s.spec.model, all, result.config.formats, result.measured ? &*result.measured : nullptr,
                                certify_at, tied ? TableFactor::scale : TableFactor::table);
  if (result.config.headroom.empty()) return;
  require_scalable(result.config, s.spec.model);
  for (const FormatHeadroom& f : result.headroom.formats) {
    if (f.format.name != result.config.headroom) continue;
    if (!(f.fitting.stream > 0.0)) {
      throw ConfigError("--headroom: expected a stream with a finite bound");
    }
    StackScale scale = f.fitting;
    if (!std::isnan(f.stream)) scale.stream = f.stream;
    result.headroom.run = run_scaled(context, scale, ids_of(s, result.config), all, certify_at);
  }
}

/// True for formats of 8 bits, in which caches are stored although the rest of a run is not.
bool is_narrow(const NumberFormat& format) { return format.precision < 8; }

/// Computes the certificates and the hashes of the weights. Random weights are hashed while `certify` reads them.
void certify_all(const ModelToCertify& s, stacks::Progress& progress, CertifyResult& result) {
  const ModelSpec& m = s.spec.model;
  const bool is_drawn = s.checkpoint == nullptr;
  const config::TheoryParameters parameters(*s.backend, m, *s.weights, s.entry_names());
  config::Sha256 digest;
  const config::TheoryParameters hashed(*s.backend, m, *s.weights, s.entry_names(), &digest);
  if (!is_drawn) result.weights = study::hashes_of_files(s.checkpoint->files());  // before files can change
  result.certificates.exact = theory::certify(m, is_drawn ? hashed : parameters, result.domain);
  if (is_drawn) result.weights = {{"drawn", digest.hex()}};
  for (const NumberFormat& f : result.config.formats) {
    progress.throw_if_stop_requested();
    if (result.config.arithmetic == Arithmetic::exact) break;
    const RunArithmetic run = run_arithmetic(result.config.arithmetic, f);
    result.certificates.runs.push_back(theory::certify(m, parameters, result.domain, run, result.config.length));
  }
  std::vector<NumberFormat> narrow;
  if (result.config.arithmetic != Arithmetic::exact) {
    std::ranges::copy_if(result.config.formats, std::back_inserter(narrow), is_narrow);
  }
  if (!narrow.empty()) {
    const RunArithmetic run = run_arithmetic(result.config.arithmetic, config::parse_format("bf16"));
    theory::Certificate cache = theory::certify(m, parameters, result.domain, run, result.config.length, narrow);
    for (const NumberFormat& f : narrow) {
      cache.cached = f;
      result.certificates.caches.push_back(cache);
    }
  }
  if (result.config.measures() || result.config.attack) {
    const NumberFormat& f = format_of(s.dtype);
    result.own = theory::certify(m, parameters, run_domain(result.domain), run_arithmetic(Arithmetic::pure, f),
                                 result.config.length);
  }
}

config::Resolved resolved_of(const ModelToCertify& s, const CertifyResult& result) {
  const CertifyConfig& own = result.config;
  auto config = static_cast<const config::Config&>(own);
  config.run.dtype = s.dtype;
  config::Resolved all = config::resolved(config, {s.spec});
  for (auto* json : {&all.printed, &all.hashed}) {
    (*json)["certify"] = {{"input_maximum", own.input_maximum ? config::Json(*own.input_maximum) : config::Json()},
                          {"measure", own.measure},
                          {"attack", own.attack.value_or(0)},
                          {"headroom", own.headroom},
                          {"length", own.length},
                          {"arithmetic", arithmetic_names[static_cast<std::size_t>(own.arithmetic)]},
                          {"formats", mapped(own.formats, &NumberFormat::name)}};
    if (s.checkpoint == nullptr) continue;
    auto& files = (*json)["checkpoint"];
    files["config.json"] = config::sha256_of(s.checkpoint->config_file());
    for (const auto& [name, hash] : result.weights) files[name] = hash;
  }
  if (s.checkpoint != nullptr && own.measures()) all.hashed["ids"] = ids_of(s, own);
  return all;
}

}  // namespace

void require_model(const CertifyConfig& config) {
  config.checkpoint.empty() ? require_random_stack(config) : require_checkpoint(config);
  const bool reads = !config.tokens.empty() || !config.text.empty();
  reject({{!reads && !config.tokenizer.empty(), "--tokenizer has no effect without --text or --tokens"},
          {!reads && config.max_tokens, "--max-tokens has no effect without --text or --tokens"}});
}

CertifyResult run(const CertifyConfig& config, stacks::Progress& progress) {
  const ModelToCertify s = open_model(config);
  CertifyResult result{
      .model = fmt::format("random {} stack of seed {}", config::placement_label(s.spec), config.run.seed),
      .family = {},
      .spec = s.spec,
      .domain = {.tokens = s.spec.input.kind != InputKind::gaussian,
                 .largest = config.input_maximum.value_or(theory::infinity)},
      .config = config};
  if (s.checkpoint != nullptr) {
    result.model = config.model_name();
    result.family = s.checkpoint->family().name;
    result.ignored_keys = s.checkpoint->ignored_keys();
    for (const std::string& warning : s.checkpoint->warnings())
      progress.say(fmt::format("warning: {}\n", printable(warning)));
  }
  stacks::MemoryEstimate memory = stacks::gram_memory(s.spec.model);
  if (config.measures()) {
    memory.add_phase(stacks::pass_memory(s.spec.model, s.spec.input.tokens, s.dtype, false, omp_get_max_threads()));
  }
  stacks::within_memory(memory, config.force, progress, [&] {
    certify_all(s, progress, result);
    if (config.measures()) measure(s, result);
    SignalMaxima seen = result.measured.value_or(SignalMaxima());
    if (config.attack) attack_all(s, progress, result, seen);
    if (result.own) result.check = check_bounds(*result.own, seen, 0.0);
    compute_headroom(s, result);
    result.resolved = resolved_of(s, result);
  });
  return result;
}

}  // namespace periscope::certify
