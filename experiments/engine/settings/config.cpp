#include "experiments/engine/settings/config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <stdexcept>

#include "experiments/engine/settings/resolved.h"
#include "experiments/engine/settings/sha256.h"
#include "sim/base/error.h"
#include "sim/base/printable.h"
#include "sim/files/mapped_file.h"

namespace periscope::config {
namespace {

// clang-format off
constexpr Key<RunOptions> run_keys[] = {
    {.name = "seed", .field = &RunOptions::seed, .meaning = "first seed"},
    {.name = "seeds", .field = &RunOptions::seeds, .range = seeds_from(1), .meaning = "number of seeds; a verdict needs at least 4"},
    {.name = "threads", .field = &RunOptions::threads, .range = from_to(0, max_threads), .meaning = "number of threads; 0: OMP_NUM_THREADS, else all cores", .effect = Effect::none},
    {.name = "device", .field = &RunOptions::device, .meaning = "compute device: cpu, reference, cuda, cuda-tf32"},
    {.name = "dtype", .field = WordField<RunOptions>{
         .get = [](const RunOptions& run) { return name_of(run.dtype); },
         .set = [](RunOptions& run, const std::string& word) { run.dtype_choice = parse_dtype(word); }}, .meaning = "data type of tensors: f64, f32, bf16, f16"},
    {.name = "backward", .field = &RunOptions::backward, .meaning = "measure and predict gradients too"},
    {.name = "paired", .field = &RunOptions::paired, .meaning = "same random numbers for all stacks (twins), in simulation and prediction; false: independent random numbers, determined by the label and the input kind of each stack (propagate, theory, power)"},
    {.name = "weights", .field = word_field<&RunOptions::weights, weights_choice_names>(), .meaning = "how random matrices are sampled: dense; matrix-free: only their products, exact in distribution (T21; propagate, ladder, gradients); auto: matrix-free for large stacks if it at least halves the cost"},
    {.name = "out", .field = &RunOptions::out, .meaning = "folder for result files", .effect = Effect::none},
};

constexpr Key<TheoryOptions> theory_keys[] = {
    {.name = "tolerance", .field = &TheoryOptions::tolerance, .range = between(0, 1), .meaning = "requested standard error of the prediction due to the sampling of attention patterns; an explicit value is met at any cost", .default_text = "0.01"},
    {.name = "gradient_tolerance", .field = &TheoryOptions::gradient_tolerance, .range = between(0, 100), .unit = "nat", .meaning = "requested standard error of the logarithm of every predicted squared gradient; an explicit value is met at any cost", .default_text = "0.03"},
    {.name = "fault", .field = word_field<&TheoryOptions::fault, theory::fault_names>(), .meaning = "deliberate error in the theory: beta0, no-score-path, query-gradient, depth-constant"},
    {.name = "finite_width", .field = &TheoryOptions::finite_width, .meaning = "predict forward statistics at the stack's own widths (T25; default of propagate) instead of in the infinite-width limit (default of theory)", .default_text = "by command"},
    {.name = "replicates", .field = &TheoryOptions::replicates, .range = {.low = 2, .high = 1'000'000, .or_zero = true}, .meaning = "number of replicates of the finite-width chain (T25); 0: 4 to 16 per seed, if they cost no more than the measurement or a few seconds"},
};

constexpr Key<AgreementOptions> agreement_keys[] = {
    {.name = "familywise_error", .field = &AgreementOptions::familywise_error, .range = between(0, 1), .meaning = "probability that a run rejects at least one test if the theory is right"},
    {.name = "finite_width", .field = &AgreementOptions::finite_width, .range = from_to(0, 1e3), .meaning = "constant c of the relative tolerated bias c*w of moments; w: finite-width factor (T19)"},
    {.name = "finite_width_cosine", .field = &AgreementOptions::finite_width_cosine, .range = from_to(0, 1e3), .meaning = "constant c of the tolerated bias c*w: absolute for cosines, relative for the size of attention's output; w: finite-width factor (T19)"},
    {.name = "finite_width_gradient", .field = &AgreementOptions::finite_width_gradient, .range = from_to(0, 1e3), .meaning = "constant c of the tolerated finite-width bias of the logarithms of gradients (T19); measured, see docs/theory/finite_width.md"},
};

constexpr Range limit = between(0, 1e3);
constexpr Key<PowerLimits> power_limit_keys[] = {
    {.name = "second_moment", .field = &PowerLimits::second_moment, .range = limit, .meaning = "relative limit on the detectable error of the second moment; above it, a verdict is inconclusive (T22)"},
    {.name = "variance", .field = &PowerLimits::variance, .range = limit, .meaning = "relative limit on the detectable error of the variance; see second_moment"},
    {.name = "token_cosine", .field = &PowerLimits::token_cosine, .range = limit, .meaning = "absolute limit on the detectable error of the token cosine; see second_moment"},
    {.name = "log_grad_sq", .field = &PowerLimits::log_grad_sq, .range = limit, .unit = "nat", .meaning = "limit on the detectable error of a squared gradient's logarithm; see second_moment"},
    {.name = "score_share", .field = &PowerLimits::score_share, .range = limit, .meaning = "absolute limit on the detectable error of the score path's share; see second_moment"},
};
// clang-format on

}  // namespace

const Section<RunOptions> run_section{"run", run_keys};
const Section<TheoryOptions> theory_section{"theory", theory_keys};
const Section<AgreementOptions> agreement_section{"agreement", agreement_keys};
const Section<PowerLimits> power_limit_section{"agreement.power_limit", power_limit_keys};

DType parse_dtype(const std::string& word) {
  for (const DType one : all_dtypes) {
    if (name_of(one) == word) return one;
  }
  throw ConfigError(fmt::format("run.dtype = \"{}\": expected one of f64, f32, bf16, f16", shortened(word)));
}

NumberFormat parse_format(const std::string& word, std::string_view flag) {
  std::vector<std::string_view> names;
  for (const NumberFormat& format : number_formats) {
    if (format.name == word) return format;
    names.push_back(format.name);
  }
  throw ConfigError(fmt::format("{} {}: expected one of {}", flag, shortened(word), fmt::join(names, ", ")));
}

TextFile read_text_file(const std::string& path, const std::string& name) {
  constexpr std::size_t most = 64U << 20U;
  try {
    const MappedFile file(path);
    const auto* bytes = reinterpret_cast<const char*>(file.bytes().data());
    TextFile read{.head = std::string(bytes, std::min(file.bytes().size(), most)),
                  .size = file.bytes().size(),
                  .sha256 = sha256_of(file)};
    file.check_unchanged();  // so that `head` and `sha256` belong to the same version
    return read;
  } catch (const InputError& error) {
    if (name.empty()) throw;
    throw InputError(fmt::format("{} {}", name, error.what()));
  }
}

const TextFile& text_of(const InputSpec& input) {
  if (input.text == nullptr) throw std::logic_error("input.path: the text was not read");
  return *input.text;
}

StackSpec Config::with_placement(const Placement& placement) const {
  StackSpec spec = base;
  spec.model.placement = placement;
  take_defaults(placement, spec.model);
  const auto keep = [&](const char* key, auto ModelSpec::*field, bool of_recipe) {
    if (is_set(key) || (of_recipe && !base.recipe.empty())) spec.model.*field = base.model.*field;
  };
  // The final norm of a recipe applies only with the recipe's placement.
  keep("model.final_norm", &ModelSpec::final_norm, !is_set("model.placement"));
  keep("model.embedding_norm", &ModelSpec::embedding_norm, true);
  keep("model.qk_norm", &ModelSpec::qk_norm, true);
  keep("model.norm", &ModelSpec::norm, true);
  keep("model.v_norm", &ModelSpec::v_norm, base.model.v_norm);
  keep("model.inner_norm", &ModelSpec::inner_norm, false);
  return spec;
}

std::vector<StackSpec> Config::stacks() const {
  std::vector<StackSpec> all;
  for (const InputKind kind : inputs) {
    for (std::size_t i = 0; i < stacks_per_input(); ++i) {
      all.push_back(variants.empty() ? base : variants[i]);
      all.back().input.kind = kind;
    }
  }
  note_differences(all);
  return all;
}

Json resolved_json(const StackSpec& spec, bool for_hash) {
  InputSpec input = spec.input;
  if (for_hash) input.path = input.kind == InputKind::text ? text_of(input).sha256 : "";
  Json model = section_json(model_section, spec.model);
  const Json layers = layer_placements_json(spec.model);
  if (!layers.empty()) model["layer_placement"] = layers;
  // Left out of the hash, as the keys that the recipe sets are hashed.
  if (!for_hash && !spec.recipe.empty()) model["recipe"] = spec.recipe;
  if (!for_hash && spec.model.placement.is_named_custom()) model["placement"]["name"] = spec.model.placement.name;
  return {
      {"model", model}, {"init", section_json(init_section, spec.init)}, {"input", section_json(input_section, input)}};
}

std::string placement_label(const StackSpec& spec) {
  if (!spec.label.empty()) return spec.label;
  if (spec.model.placement.is_named_custom()) {
    return std::string(spec.model.placement.name);
  }
  const auto json = placement_json(spec.model.placement);
  return json.is_string() ? json.get<std::string>() : json.dump();
}

std::string short_label(const StackSpec& spec) {
  return spec.label.empty() ? std::string(spec.model.placement.name) : spec.label;
}

}  // namespace periscope::config
