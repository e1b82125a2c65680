#include "experiments/engine/study/request.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <omp.h>

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "experiments/engine/settings/stack_rules.h"
#include "experiments/engine/settings/toml_reader.h"
#include "sim/backends.h"
#include "sim/base/error.h"
#include "sim/base/printable.h"

namespace periscope::study {
namespace {

void choose_dtype(config::RunOptions& run) {
  if (run.device == "cuda-tf32" && run.dtype_choice.value_or(DType::f32) != DType::f32) {
    throw ConfigError(
        fmt::format("run.dtype = \"{}\": run.device \"cuda-tf32\" computes in f32 only, TF32 being a way "
                    "to multiply such matrices; expected run.device \"cuda\"",
                    name_of(*run.dtype_choice)));
  }
  const auto backend = make_backend(run.device);
  run.dtype = run.dtype_choice.value_or(backend->supports(DType::f32) ? DType::f32 : DType::f64);
  if (backend->supports(run.dtype)) return;
  std::vector<std::string_view> known;
  for (const DType one : config::all_dtypes) {
    if (backend->supports(one)) known.push_back(name_of(one));
  }
  throw ConfigError(fmt::format("run.dtype = \"{}\": run.device \"{}\" computes in {} only", name_of(run.dtype),
                                run.device, fmt::join(known, " and ")));
}

bool acts_here(const Request& request, std::string_view key) {
  return request.acting.empty() || std::ranges::any_of(request.acting, [&](const std::string& name) {
           return name.ends_with('.') ? key.starts_with(name) : key == name;
         });
}

/// A key of stacks that has an effect only with certain values of another key.
struct ConditionalKey {
  std::string_view key;
  std::string_view condition;
  bool (*acts)(const StackSpec&);
};

constexpr ConditionalKey conditional_keys[] = {
    {"init.std", "init.scheme = \"normal\"",
     [](const StackSpec& spec) { return spec.init.scheme == InitScheme::normal; }},
    {"init.factor", "init.scheme = \"scaled\"",
     [](const StackSpec& spec) { return spec.init.scheme == InitScheme::scaled; }},
    {"init.head_std", "model.unembedding = true", [](const StackSpec& spec) { return spec.model.unembedding; }},
    {"input.correlation", "input.kind = \"gaussian\"",
     [](const StackSpec& spec) { return spec.input.kind == InputKind::gaussian; }},
    {"input.path", "input.kind = \"text\"", [](const StackSpec& spec) { return spec.input.kind == InputKind::text; }},
};

/// Throws ConfigError if the key of `setting` has no effect in the request's command, or in any stack of the run.
void require_acts(const Request& request, const config::Config& config, const std::string& setting) {
  const std::string key = config::key_of_setting(setting, "--set");
  if (!acts_here(request, key)) {
    std::vector<std::string> shown;
    for (const std::string& name : request.acting) shown.push_back(name.ends_with('.') ? name + "*" : name);
    throw ConfigError(fmt::format("--set {}: {} does nothing in {}; expected a key among {}", shortened(setting), key,
                                  request.command, fmt::join(shown, ", ")));
  }
  const auto* const found = std::ranges::find(conditional_keys, key, &ConditionalKey::key);
  if (found == std::end(conditional_keys) || std::ranges::any_of(config.stacks(), found->acts)) return;
  throw ConfigError(
      fmt::format("--set {}: {} acts only with {}; expected that too", shortened(setting), key, found->condition));
}

}  // namespace

std::vector<std::string> keys_of(const CommonFlags& flags) {
  std::vector<std::string> keys;
  for (const auto& [acts, key] : {std::pair{flags.seed, "run.seed"},
                                  {flags.seeds, "run.seeds"},
                                  {flags.threads, "run.threads"},
                                  {flags.device, "run.device"},
                                  {flags.dtype, "run.dtype"},
                                  {flags.out, "run.out"}}) {
    if (acts) keys.emplace_back(key);
  }
  return keys;
}

std::vector<std::string> Request::all_settings() const {
  std::vector<std::string> all = entries;
  all.insert(all.end(), settings.begin(), settings.end());
  return all;
}

config::Config Request::load(Matrices matrices) const {
  config::Config c = config::load_config(known, file, all_settings(), theory_settings);
  for (const std::string& setting : settings) require_acts(*this, c, setting);
  c.run.seed = seed.value_or(c.run.seed);
  c.run.seeds = seeds.value_or(c.run.seeds);
  c.run.threads = threads.value_or(c.run.threads);
  c.run.device = device.value_or(c.run.device);
  if (dtype) c.run.dtype_choice = config::parse_dtype(*dtype);
  c.run.out = out.value_or(c.run.out);
  c.run.memory = memory.value_or(c.run.memory);
  require_ranges(config::run_section, c.run);
  choose_dtype(c.run);
  const DType stored = acts_here(*this, "run.dtype") ? c.run.dtype : DType::f64;
  for (const StackSpec& spec : c.stacks()) config::require_finite_weights(spec, stored);
  if (matrices == Matrices::dense) {
    if (c.run.weights == config::WeightsChoice::matrix_free) {
      throw ConfigError(
          "run.weights = \"matrix-free\": expected \"dense\" or \"auto\": this command reads matrices more than once, "
          "or by their entries");
    }
    c.run.weights = config::WeightsChoice::dense;
  }
  if (reads_texts && acts_here(*this, "input.path")) config::read_texts(c);
  return c;
}

int threads_of(const config::RunOptions& run) {
  return run.threads > 0 ? run.threads : std::min(omp_get_max_threads(), config::most_threads);
}

}  // namespace periscope::study
