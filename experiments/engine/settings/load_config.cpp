#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <optional>

#include "experiments/engine/settings/config.h"
#include "experiments/engine/settings/sweep.h"
#include "experiments/engine/settings/toml_reader.h"
#include "sim/base/error.h"
#include "sim/base/mapped.h"
#include "sim/base/printable.h"
#include "sim/checkpoint/recipe.h"
#include "sim/spec/stack_keys.h"
#include "sim/spec/weight.h"

namespace periscope::config {
namespace {

/// Sets the keys that model.recipe determines, except those that depend on the shape, which is not known yet.
const Family* apply_recipe(TomlReader& reader, StackSpec& spec) {
  if (!reader.read("recipe", spec.recipe)) return nullptr;
  const Family& family = family_table()[index_of(reader, "recipe", spec.recipe, family_table(), &Family::name)];
  const Recipe recipe = recipe_of(family, ModelSpec{}.width);
  const auto take = [&](auto... field) { ((spec.model.*field = recipe.model.*field), ...); };
  take(&ModelSpec::placement, &ModelSpec::final_norm, &ModelSpec::embedding_norm, &ModelSpec::norm,
       &ModelSpec::norm_eps, &ModelSpec::qk_norm, &ModelSpec::v_norm, &ModelSpec::mlp, &ModelSpec::rope,
       &ModelSpec::causal);
  spec.init = {.scheme = InitScheme::normal, .std = recipe.init_std, .residual = recipe.init_residual};
  return &family;
}

/// Derives model.kv_heads, model.head_dim and model.mlp_width, unless they are set, from the other keys. Throws
/// ConfigError if model.heads does not divide model.width.
void derive_shape(const Config& config, bool preset, ModelSpec& m) {
  const bool width = config.is_set("model.width");
  const bool heads = config.is_set("model.heads");
  if (!config.is_set("model.kv_heads") && (heads || !preset)) m.kv_heads = m.heads;
  if (!config.is_set("model.head_dim") && !preset) {
    if (m.heads >= 1 && m.width % m.heads != 0) {
      throw ConfigError(fmt::format("model.heads = {}: expected a divisor of model.width = {}; or set model.head_dim",
                                    m.heads, m.width));
    }
    m.head_dim = m.heads >= 1 ? m.width / m.heads : 1;
  }
  // Larger widths could overflow here; validate() rejects them later.
  if (!config.is_set("model.mlp_width") && (width || !preset) && m.width <= 1 << 20) m.mlp_width = 4 * m.width;
}

/// Derives input.second_moment from init.embedding_std, or else from the recipe. If only init.position_std is set, the
/// recipe provides init.embedding_std. Returns true if init.embedding_std determines the second moment.
bool derive_second_moment(const Config& config, const Family* family, StackSpec& base) {
  const std::optional<Recipe> recipe =
      family == nullptr ? std::nullopt : std::optional(recipe_of(*family, base.model.width));
  InitSpec& init = base.init;
  const double truncated = truncation_factor(init);
  // Recipes use the same standard deviation for embeddings and matrices.
  const bool has_own_std = recipe && init.scheme == InitScheme::normal;
  if (init.position_std && !init.embedding_std) {
    if (!recipe) {
      throw ConfigError(fmt::format("init.position_std = {:g}: expected init.embedding_std or model.recipe to be set",
                                    *init.position_std));
    }
    init.embedding_std = has_own_std ? init.std : recipe->init_std;
  }
  if (init.embedding_std) {
    const auto positions = init.position_std ? std::optional(*init.position_std * truncated) : std::nullopt;
    base.input.second_moment =
        input_second_moment(recipe ? recipe->model : base.model, *init.embedding_std * truncated, positions);
    if (!std::isnormal(base.input.second_moment)) {
      throw ConfigError(fmt::format(
          "init.embedding_std = {:g}: expected a value that gives a second moment of at least 2.23e-308, found {:g}",
          *init.embedding_std, base.input.second_moment));
    }
    return true;
  }
  if (!recipe) return false;
  const double times = (has_own_std ? init.std / recipe->init_std : 1.0) * truncated;
  const double moment = recipe->second_moment * times * times;
  if (times >= 0.0 && !(moment > 0.0 && std::isfinite(moment)) && !config.is_set("input.second_moment")) {
    throw ConfigError(
        fmt::format("init.std = {:g}: expected a value that gives embeddings of model.recipe a finite, positive second "
                    "moment, found {:g}; or set input.second_moment",
                    init.std, moment));
  }
  base.input.second_moment = moment;
  return false;
}

/// Throws ConfigError if input.second_moment contradicts init.embedding_std and init.position_std.
void require_second_moment(const InitSpec& init, double derived, double given) {
  constexpr double rounding = 1e-12;
  if (std::abs(given - derived) <= rounding * derived) return;
  throw ConfigError(
      fmt::format("input.second_moment = {:g}: expected {:g}, which follows from init.embedding_std = {:g}{}{}; set "
                  "only one of them",
                  given, derived, *init.embedding_std, init.position_std ? " and init.position_std" : "",
                  truncation_factor(init) == 1.0 ? "" : " (truncated normal)"));
}

void read_kinds(TomlReader& reader, std::vector<InputKind>& kinds) {
  const Json* value = reader.find("kind");
  if (value == nullptr) return;
  std::vector<std::string> words(1);
  const std::string expected = value->is_string() ? take(*value, words.front()) : take(*value, words);
  if (!expected.empty() || words.empty()) reader.fail("kind", "gaussian, tokens, text, or a list of these");
  kinds.clear();
  for (const std::string& word : words) {
    kinds.push_back(static_cast<InputKind>(index_of(reader, "kind", word, input_kind_names)));
  }
}

std::vector<std::string> names_of(const std::vector<InputKind>& kinds) {
  return mapped(kinds, [](InputKind kind) { return std::string(input_kind_names[static_cast<std::size_t>(kind)]); });
}

using Known = std::span<const AnySection>;

/// Returns the keys shown by `periscope list`, and the keys of a model.placement table.
std::vector<std::string> known_keys(Known known) {
  std::vector<std::string> keys;
  for (const AnySection& section : known) {
    for (const Json& key : section.keys) keys.push_back(key["name"]);
  }
  for (const Key<SublayerRule>& key : placement_section.keys)
    keys.push_back("model.placement." + std::string(key.name));
  for (const char* key : {"name", "attention", "mlp"}) keys.push_back(fmt::format("model.placement.{}", key));
  return keys;
}

/// Returns the end of an error message that suggests a similar known key, or "". `key` may lack its table's name.
std::string key_suggestion(const std::string& key, const std::vector<std::string>& keys) {
  std::vector<std::string> words = keys;
  if (key.find('.') == std::string::npos) {
    for (std::string& word : words) word = word.substr(word.rfind('.') + 1);
  }
  const auto found = std::ranges::find(words, similar_name(key, words));
  return found == words.end() ? "" : "; nearest is " + keys[static_cast<std::size_t>(found - words.begin())];
}

/// A flag whose arguments are settings: valid prefixes of keys, and their description for messages.
struct SettingFlag {
  std::string_view name;
  std::vector<std::string_view> prefixes;
  std::string_view expected;
};

/// Throws ConfigError unless each setting has a known key with a valid prefix.
void require_known(Known known, const std::vector<std::string>& settings, const SettingFlag& flag) {
  const auto is_other = [&](const std::string& name) {
    return std::ranges::none_of(flag.prefixes, [&](std::string_view prefix) { return name.starts_with(prefix); });
  };
  for (const std::string& setting : settings) {
    const std::string key = key_of_setting(setting, flag.name);
    std::vector<std::string> keys = known_keys(known);
    const bool is_known = std::ranges::find(keys, key) != keys.end();
    if (is_known && !is_other(key)) continue;
    std::erase_if(keys, is_other);
    throw ConfigError(fmt::format("{} {}: {}{}: expected {}{}", flag.name, shortened(setting),
                                  is_known ? "" : "unknown key ", shortened(key), flag.expected,
                                  is_known ? "" : key_suggestion(key, keys)));
  }
}

/// Throws ConfigError for unknown keys and invalid values anywhere in the tree.
void check_sections(Known known, TomlReader root) {
  for (const AnySection& section : known) {
    TomlReader reader = root.table(section.name);
    section.check(reader);
    const std::string prefix = section.name + ".";
    for (const AnySection& other : known) {
      if (other.name.starts_with(prefix)) reader.find(other.name.substr(prefix.size()));
    }
    reader.finish();
  }
  root.finish();
}

/// Reads a configuration without a sweep; only input.kind may be a list.
Config read_single(Known known, const Tree& tree) {
  Config config;
  config.tree = tree;
  for (const auto& [table, keys] : tree.values.items()) {
    if (!keys.is_object()) continue;
    for (const auto& [key, value] : keys.items()) config.given.insert(fmt::format("{}.{}", table, key));
  }
  TomlReader root(tree);
  check_sections(known, root);
  StackSpec& base = config.base;
  TomlReader model = root.table("model");
  std::string preset_name;
  const bool preset = model.read("preset", preset_name);
  if (preset) presets[index_of(model, "preset", preset_name, presets, &Preset::name)].set_shape(base.model);
  const Family* recipe = apply_recipe(model, base);
  read_keys(model, model_section, base.model);
  if (model.find("placement") != nullptr) base.model.placement = read_placement(model);
  base.model.layer_placements = read_layer_placements(model);
  derive_shape(config, preset, base.model);
  base = config.with_placement(base.model.placement);
  read_section(root, init_section, base.init);
  TomlReader input = root.table("input");
  const bool has_width = base.model.width >= 1 && base.model.width <= 1 << 20;
  const bool is_derived = has_width && derive_second_moment(config, recipe, base);
  const double derived = base.input.second_moment;
  read_keys(input, input_section, base.input);
  if (is_derived) require_second_moment(base.init, derived, base.input.second_moment);
  read_kinds(input, config.inputs);
  input.resolve_path("path", base.input.path);
  read_section(root, run_section, config.run);
  read_section(root, agreement_section, config.agreement);
  read_section(root, power_limit_section, config.agreement.power_limits);
  read_section(root, theory_section, config.theory);
  for (const StackSpec& spec : config.stacks()) validate(spec);
  require_different("input.kind", names_of(config.inputs));
  base.input.kind = config.inputs.front();
  return config;
}

template <class T>
void require_same(std::string_view key, const T& measured, const T& overridden) {
  if (measured == overridden) return;
  throw ConfigError(
      fmt::format("--theory-set {} = {}: expected the measured value {}; otherwise nothing could be compared", key,
                  overridden, measured));
}

/// Merges configurations that differ in their stacks, whose labels are set. `what` names the source of differences.
Config merged(const std::vector<Config>& each, const std::string& what) {
  Config config = each.front();
  if (each.size() == 1) return config;
  for (const Config& one : each) config.variants.push_back(one.base);
  read_texts(config);  // stacks may differ only in their texts
  require_comparable(config.stacks(), what);
  return config;
}

/// Reads the stacks of a comparison, each from `tree` and its own settings. Throws ConfigError for lists of values.
Config read_candidates(Known known, const Tree& tree, const std::vector<Candidate>& candidates) {
  std::vector<Config> each;
  for (const Candidate& candidate : candidates) {
    require_known(known, candidate.settings, {"stack", {"model.", "init.", "input."}, "a key of model, init or input"});
    Tree own = tree;
    for (const std::string& setting : candidate.settings) {
      if (key_of_setting(setting, "stack") == "input.kind") {
        throw ConfigError(
            fmt::format("stack {}: expected --set input.kind, as all stacks have the same inputs", shortened(setting)));
      }
      own.set(setting, "stack");
    }
    const Sweep sweep(own);
    if (sweep.combinations() > 1) {
      throw ConfigError(
          fmt::format("{}: expected one value, as the stacks to compare are given by name", sweep.names()));
    }
    each.push_back(read_single(known, sweep.combination(0, own)));
    each.back().base.label = candidate.label;
  }
  return merged(each, "compare");
}

/// Adds to `config` the stacks with --theory-set applied, and sets config.theory.
void override_theory(Known known, const Sweep& sweep, Tree tree, const std::vector<std::string>& theory_settings,
                     Config& config) {
  for (const std::string& setting : theory_settings) tree.set(setting, "--theory-set");
  std::vector<Config> overridden;
  for (std::size_t i = 0; i < sweep.combinations(); ++i) {
    overridden.push_back(read_single(known, sweep.combination(i, tree)));
    require_same("input.kind", fmt::format("{}", fmt::join(names_of(config.inputs), " ")),
                 fmt::format("{}", fmt::join(names_of(overridden.back().inputs), " ")));
  }
  for (std::size_t input = 0; input < config.inputs.size(); ++input) {
    for (const Config& one : overridden) config.overridden.push_back(one.stacks()[input]);
  }
  constexpr std::string_view of_input[] = {"input.second_moment", "model.recipe", "init.embedding_std",
                                           "init.position_std"};
  const bool overrides_input = std::ranges::any_of(theory_settings, [&](const std::string& setting) {
    return std::ranges::count(of_input, key_of_setting(setting, "--theory-set")) > 0;
  });
  const std::vector<StackSpec> measured = config.stacks();
  for (std::size_t i = 0; i < measured.size(); ++i) {
    const StackSpec& stack = measured[i];
    StackSpec& assumed = config.overridden[i];
    // input.second_moment may depend on init.std and init.truncation. Overrides of these keys apply to matrices only.
    if (!overrides_input) assumed.input.second_moment = stack.input.second_moment;
    require_same("model.layers", stack.model.layers, assumed.model.layers);
    require_same("input.tokens", stack.input.tokens, assumed.input.tokens);
    require_same("input.path", stack.input.path, assumed.input.path);
    if (stack.input.kind != InputKind::gaussian) require_same("model.vocab", stack.model.vocab, assumed.model.vocab);
    assumed.input.text = stack.input.text;
    assumed.label = stack.label;
    assumed.settings = stack.settings;
  }
  config.theory = overridden.front().theory;
  config.theory_settings = theory_settings;
}

}  // namespace

void read_texts(Config& config, TextFiles* texts) {
  if (std::ranges::find(config.inputs, InputKind::text) == config.inputs.end()) return;
  TextFiles own;
  TextFiles& known = texts != nullptr ? *texts : own;
  const std::scoped_lock lock(known.mutex);
  const auto read = [&](StackSpec& spec) {
    InputSpec& input = spec.input;
    if (input.text != nullptr) return;
    std::shared_ptr<const TextFile>& text = known.files[input.path];
    if (text == nullptr) text = std::make_shared<const TextFile>(read_text_file(input.path, "input.path"));
    input.text = text;
  };
  read(config.base);
  for (auto* specs : {&config.variants, &config.overridden}) std::ranges::for_each(*specs, read);
}

void require_different(std::string_view key, std::vector<std::string> entries) {
  std::ranges::sort(entries);
  const auto twice = std::ranges::adjacent_find(entries);
  if (twice == entries.end()) return;
  throw ConfigError(fmt::format("{}: expected distinct entries, found {} twice", key, shortened(*twice)));
}

void require_variations(Known known, const std::vector<std::string>& variations) {
  require_known(
      known, variations,
      {"--vary",
       {"model.", "init.", "input.", "train.lr"},
       "a key of model, init or input, or train.lr in first-steps; the stacks of a run share all other keys"});
  std::vector<std::string> keys;
  for (const std::string& variation : variations) {
    Tree tree;
    tree.set(variation, "--vary");
    keys.push_back(key_of_setting(variation, "--vary"));
    if (!tree.find(keys.back())->is_array()) {
      throw ConfigError(fmt::format("--vary {}: expected a list, as in --vary 'model.qk_norm=[\"none\",\"full\"]'",
                                    shortened(variation)));
    }
  }
  require_different("--vary", keys);
}

Config load_config(Known known, const std::string& file, const std::vector<std::string>& settings,
                   const std::vector<std::string>& theory_settings, const std::vector<Candidate>& candidates) {
  require_known(known, settings, {"--set", {""}, "one of the keys that `periscope list` shows"});
  return load_config(known, read_tree(file, settings), theory_settings, candidates);
}

Config load_config(Known known, const Tree& tree, const std::vector<std::string>& theory_settings,
                   const std::vector<Candidate>& candidates) {
  if (!candidates.empty()) return read_candidates(known, tree, candidates);
  const Sweep sweep(tree);
  std::vector<Config> each;
  for (std::size_t i = 0; i < sweep.combinations(); ++i) {
    each.push_back(read_single(known, sweep.combination(i, tree)));
    if (sweep.combinations() > 1) each.back().base.label = sweep.label(i, each.back().base);
  }
  Config config = merged(each, sweep.names());
  require_known(known, theory_settings,
                {"--theory-set", {"model.", "init.", "input.", "theory."}, "a key of model, init, input or theory"});
  if (!theory_settings.empty()) override_theory(known, sweep, tree, theory_settings, config);
  return config;
}

}  // namespace periscope::config
