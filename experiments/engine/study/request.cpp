#include "experiments/engine/study/request.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <omp.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <string_view>

#include "experiments/engine/settings/stack_rules.h"
#include "experiments/engine/settings/toml_reader.h"
#include "sim/backends.h"
#include "sim/base/error.h"
#include "sim/base/printable.h"

namespace periscope::study {
namespace {

/// Parses a number of bytes, such as "8G", "500M" or "1073741824". Throws ConfigError.
double bytes_of(const std::string& word) {
  constexpr std::string_view units = "KMG";
  double bytes = 0.0;
  const char* const end = word.data() + word.size();
  auto [rest, error] = std::from_chars(word.data(), end, bytes);
  const std::size_t unit = rest == end ? std::string_view::npos : units.find(*rest);
  if (unit != std::string_view::npos) {
    bytes *= std::pow(1024.0, static_cast<double>(unit) + 1.0);
    ++rest;
  }
  if (error != std::errc() || rest != end || !(bytes > 0.0) || !std::isfinite(bytes)) {
    throw ConfigError(fmt::format(
        "--memory {}: expected a positive number of bytes, optionally with K, M or G, such as 8G", shortened(word)));
  }
  return bytes;
}

void choose_dtype(config::RunOptions& run) {
  if (run.device == "cuda-tf32" && run.dtype_choice.value_or(DType::f32) != DType::f32) {
    throw ConfigError(fmt::format(
        "run.dtype = \"{}\": expected f32, the only dtype of run.device \"cuda-tf32\"; or set run.device to \"cuda\"",
        name_of(*run.dtype_choice)));
  }
  const auto backend = make_backend(run.device);
  run.dtype = run.dtype_choice.value_or(backend->supports(DType::f32) ? DType::f32 : DType::f64);
  if (backend->supports(run.dtype)) return;
  std::vector<std::string_view> supported;
  for (const DType one : config::all_dtypes) {
    if (backend->supports(one)) supported.push_back(name_of(one));
  }
  throw ConfigError(fmt::format("run.dtype = \"{}\": expected a dtype that run.device \"{}\" supports: {}",
                                name_of(run.dtype), run.device, fmt::join(supported, ", ")));
}

bool has_effect(const Request& request, std::string_view key) {
  return request.effective_keys.empty() || std::ranges::any_of(request.effective_keys, [&](const std::string& name) {
           return name.ends_with('.') ? key.starts_with(name) : key == name;
         });
}

/// A key that has an effect only with certain values of another key.
struct ConditionalKey {
  std::string_view key;
  std::string_view condition;
  bool (*applies)(const StackSpec&);
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

/// Throws ConfigError if the key of `setting` has no effect in the request's command or in any stack of the run.
void require_effect(const Request& request, const config::Config& config, const std::string& setting) {
  const std::string key = config::key_of_setting(setting, "--set");
  if (!has_effect(request, key)) {
    std::vector<std::string> shown;
    for (const std::string& name : request.effective_keys) shown.push_back(name.ends_with('.') ? name + "*" : name);
    throw ConfigError(fmt::format("--set {}: {} has no effect in {}; expected one of {}", shortened(setting), key,
                                  request.command, fmt::join(shown, ", ")));
  }
  const auto* const found = std::ranges::find(conditional_keys, key, &ConditionalKey::key);
  if (found == std::end(conditional_keys) || std::ranges::any_of(config.stacks(), found->applies)) return;
  throw ConfigError(
      fmt::format("--set {}: expected {}; {} has no effect otherwise", shortened(setting), found->condition, key));
}

}  // namespace

std::vector<Flag<config::RunOptions>> run_flags(const FlagNames& without) {
  using config::RunOptions;
  std::vector<Flag<RunOptions>> flags{
      {"seed", &RunOptions::seed, "First random seed", at_least(0)},
      {"seeds", &RunOptions::seeds, "Number of seeds", config::seeds_from(1)},
      {"threads", &RunOptions::threads, "Threads (0: OMP_NUM_THREADS, else all cores); does not change results",
       from_to(0, config::max_threads)},
      {"device", &RunOptions::device, "Compute device: cpu, reference, cuda or cuda-tf32"},
      {"dtype", "Data type of tensors: f64 or f32; on cuda also bf16 or f16",
       [](RunOptions& run, const auto& words) { run.dtype_choice = config::parse_dtype(words.back()); }},
      {"memory",
       "Memory for signals that gradients need, or for converted weights, such as 8G (K, M, G: powers of 1024). More "
       "memory avoids recomputation and does not change results. Default: at most half of the available memory, and "
       "for gradients with dense weights at most 2.8 GB",
       [](RunOptions& run, const auto& words) { run.memory = bytes_of(words.back()); }},
      {"out", &RunOptions::out, "Folder for result files; FOLDER/cache holds finished tasks of an incomplete run"}};
  std::erase_if(flags, [&](const auto& flag) { return without.contains(flag.name); });
  for (auto& flag : flags) flag.default_text.clear();  // the configuration may set a different value
  return flags;
}

std::vector<std::string> keys_of_flags(const FlagNames& without) {
  std::vector<std::string> keys;
  for (const auto& flag : run_flags(without)) {
    if (flag.name != "memory") keys.push_back("run." + flag.name);
  }
  return keys;
}

std::vector<std::string> Request::all_settings() const {
  std::vector<std::string> all = entries;
  all.insert(all.end(), settings.begin(), settings.end());
  return all;
}

config::Tree Request::tree() const {
  if (parsed == nullptr) return config::read_tree(file, all_settings());
  config::Tree tree = *parsed;
  for (const std::string& setting : all_settings()) tree.set(setting, "--set");
  return tree;
}

config::Config Request::load(Matrices matrices) const {
  config::Config c = parsed != nullptr ? config::load_config(known, tree(), theory_settings, candidates)
                                       : config::load_config(known, file, all_settings(), theory_settings, candidates);
  for (const std::string& setting : settings) require_effect(*this, c, setting);
  c.run = read_flags(run_flags(), run, c.run);
  require_ranges(config::run_section, c.run);
  choose_dtype(c.run);
  const DType stored = has_effect(*this, "run.dtype") ? c.run.dtype : DType::f64;
  for (const StackSpec& spec : c.stacks()) config::require_finite_weights(spec, stored);
  if (matrices == Matrices::dense) {
    if (c.run.weights == config::WeightsChoice::matrix_free) {
      throw ConfigError(
          "run.weights = \"matrix-free\": expected \"dense\" or \"auto\", as this command reads matrices repeatedly or "
          "entry by entry");
    }
    c.run.weights = config::WeightsChoice::dense;
  }
  if (reads_texts && has_effect(*this, "input.path")) config::read_texts(c, texts.get());
  return c;
}

int threads_of(const config::RunOptions& run) {
  return run.threads > 0 ? run.threads : std::min(omp_get_max_threads(), config::max_threads);
}

}  // namespace periscope::study
