#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <optional>

#include "experiments/engine/settings/config.h"
#include "experiments/engine/settings/toml_reader.h"
#include "experiments/engine/settings/variants.h"
#include "sim/base/error.h"
#include "sim/base/printable.h"
#include "sim/checkpoint/recipe.h"
#include "sim/spec/stack_keys.h"
#include "sim/spec/weight.h"

namespace periscope::config {
namespace {

bool apply_preset(TomlReader& reader, ModelSpec& m) {
  std::string name;
  if (!reader.read("preset", name)) return false;
  presets[reader.index_of("preset", name, presets, &Preset::name)].set_shape(m);
  return true;
}

/// Sets the keys that model.recipe, if given, determines, except those that depend on sizes, which are not known yet.
const Family* apply_recipe(TomlReader& reader, StackSpec& spec) {
  if (!reader.read("recipe", spec.recipe)) return nullptr;
  const Family& family = family_table()[reader.index_of("recipe", spec.recipe, family_table(), &Family::name)];
  const Recipe recipe = recipe_of(family, ModelSpec{}.width);
  const auto take = [&](auto... field) { ((spec.model.*field = recipe.model.*field), ...); };
  take(&ModelSpec::placement, &ModelSpec::final_norm, &ModelSpec::embedding_norm, &ModelSpec::norm,
       &ModelSpec::norm_eps, &ModelSpec::qk_norm, &ModelSpec::mlp, &ModelSpec::rope, &ModelSpec::causal);
  spec.init = {.scheme = InitScheme::normal, .std = recipe.init_std, .residual = recipe.init_residual};
  return &family;
}

/// Sets the keys of the shape that were not given (model.kv_heads, model.head_dim, model.mlp_width) to the values that
/// follow from the other keys. Throws ConfigError if model.heads does not divide model.width.
void derive_shape(const Config& config, bool preset, ModelSpec& m) {
  const bool width = config.was_given("model.width");
  const bool heads = config.was_given("model.heads");
  if (!config.was_given("model.kv_heads") && (heads || !preset)) m.kv_heads = m.heads;
  if (!config.was_given("model.head_dim") && !preset) {
    if (m.heads >= 1 && m.width % m.heads != 0) {
      throw ConfigError(
          fmt::format("model.heads = {}: expected a divisor of model.width = {}, or model.head_dim", m.heads, m.width));
    }
    m.head_dim = m.heads >= 1 ? m.width / m.heads : 1;
  }
  // The width is checked later, with everything else of the stack.
  if (!config.was_given("model.mlp_width") && (width || !preset) && m.width <= 1 << 20) m.mlp_width = 4 * m.width;
}

/// Derives input.second_moment from init.embedding_std, or else from the recipe. If only init.position_std is given,
/// init.embedding_std becomes the recipe's. Returns whether init determines the second moment.
bool derive_second_moment(const Config& config, const Family* family, StackSpec& base) {
  const std::optional<Recipe> recipe =
      family == nullptr ? std::nullopt : std::optional(recipe_of(*family, base.model.width));
  InitSpec& init = base.init;
  const double truncated = truncation_factor(init);
  // The families draw embeddings with the std of their matrices.
  const bool has_own_std = recipe && init.scheme == InitScheme::normal;
  if (init.position_std && !init.embedding_std) {
    if (!recipe) {
      throw ConfigError(fmt::format("init.position_std = {:g}: expected init.embedding_std or model.recipe, too",
                                    *init.position_std));
    }
    init.embedding_std = has_own_std ? init.std : recipe->init_std;
  }
  if (init.embedding_std) {
    const auto positions = init.position_std ? std::optional(*init.position_std * truncated) : std::nullopt;
    base.input.second_moment =
        input_second_moment(recipe ? recipe->model : base.model, *init.embedding_std * truncated, positions);
    if (!std::isnormal(base.input.second_moment)) {
      throw ConfigError(
          fmt::format("init.embedding_std = {:g}: the input would have the second moment {:g}; expected "
                      "another standard deviation",
                      *init.embedding_std, base.input.second_moment));
    }
    return true;
  }
  if (!recipe) return false;
  const double times = (has_own_std ? init.std / recipe->init_std : 1.0) * truncated;
  const double moment = recipe->second_moment * times * times;
  if (times >= 0.0 && !(moment > 0.0 && std::isfinite(moment)) && !config.was_given("input.second_moment")) {
    throw ConfigError(
        fmt::format("init.std = {:g}: the embeddings of model.recipe would have the second moment {:g}; expected "
                    "another std, or input.second_moment",
                    init.std, moment));
  }
  base.input.second_moment = moment;
  return false;
}

/// Throws ConfigError if input.second_moment contradicts init.embedding_std and init.position_std, both truncated.
void require_second_moment(const InitSpec& init, double derived, double given) {
  constexpr double rounding = 1e-12;
  if (std::abs(given - derived) <= rounding * derived) return;
  throw ConfigError(
      fmt::format("input.second_moment = {:g}: expected {:g} as init.embedding_std = {:g}{}{} has it; give "
                  "one of them",
                  given, derived, *init.embedding_std,
                  init.position_std ? fmt::format(" with init.position_std = {:g}", *init.position_std) : "",
                  truncation_factor(init) == 1.0 ? ""
                  : init.truncation > 0.0        ? fmt::format(", init.truncation = {:g}", init.truncation)
                                                 : ", init.scheme = \"mitchell\" (init.truncation = 3)"));
}

void read_kinds(TomlReader& reader, std::vector<InputKind>& kinds) {
  const toml::node* node = reader.find("kind");
  if (node == nullptr) return;
  std::vector<std::string> words(1);
  const std::string expected = node->is_string() ? take(*node, words.front()) : take(*node, words);
  if (!expected.empty() || words.empty()) reader.fail("kind", *node, "gaussian, tokens, text, or a list of these");
  kinds.clear();
  for (const std::string& word : words) {
    kinds.push_back(static_cast<InputKind>(reader.index_of("kind", word, input_kind_names)));
  }
}

std::vector<std::string> words_of(const std::vector<InputKind>& kinds) {
  std::vector<std::string> words;
  for (const InputKind kind : kinds) words.emplace_back(input_kind_names[static_cast<std::size_t>(kind)]);
  return words;
}

using Known = std::span<const AnySection>;

/// Returns the keys of `periscope list` and of model.placement's table.
std::vector<std::string> known_keys(Known known) {
  std::vector<std::string> keys;
  for (const AnySection& section : known) {
    for (const KeyText& key : section.keys) keys.push_back(key.name);
  }
  for (const Key<SublayerRule>& key : placement_section.keys)
    keys.push_back("model.placement." + std::string(key.name));
  for (const char* key : {"name", "attention", "mlp"}) keys.push_back(fmt::format("model.placement.{}", key));
  return keys;
}

/// Returns the known key nearest to `key`, which may lack its table.
std::string nearest_key(const std::string& key, const std::vector<std::string>& keys) {
  std::vector<std::string> words = keys;
  if (key.find('.') == std::string::npos) {
    for (std::string& word : words) word = word.substr(word.rfind('.') + 1);
  }
  return keys[static_cast<std::size_t>(std::ranges::find(words, nearest(key, words)) - words.begin())];
}

/// Throws ConfigError unless the setting is of a known key, of the tables `meant` if given.
void require_known(Known known, const std::string& setting, std::string_view flag, std::string_view expected,
                   std::span<const std::string_view> meant = {}) {
  const std::string key = key_of_setting(setting, flag);
  const auto is_meant = [&](const std::string& name) {
    const auto within = [&](std::string_view table) { return name.starts_with(table); };
    return meant.empty() || std::ranges::any_of(meant, within);
  };
  std::vector<std::string> keys = known_keys(known);
  const bool is_known = std::ranges::find(keys, key) != keys.end();  // perhaps of another table than is meant
  if (is_known && is_meant(key)) return;
  std::erase_if(keys, std::not_fn(is_meant));
  throw ConfigError(fmt::format("{} {}: {}{}: expected {}{}", flag, shortened(setting), is_known ? "" : "unknown key ",
                                shortened(key), expected, is_known ? "" : "; nearest is " + nearest_key(key, keys)));
}

/// Throws ConfigError for anything below `root` that no section knows or takes.
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

/// Reads the configuration of `tree` with one entry of every list except input.kind.
Config read_single(Known known, const std::shared_ptr<const Tree>& tree, const Choice& choice) {
  Config config;
  config.tree = tree;
  for (const auto& [name, node] : tree->values) {
    if (!node.is_table()) continue;
    for (const auto& [key, value] : *node.as_table()) config.given.insert(fmt::format("{}.{}", name.str(), key.str()));
  }
  TomlReader root(*tree, &choice);
  check_sections(known, root);
  StackSpec& base = config.base;
  TomlReader model = root.table("model");
  const bool preset = apply_preset(model, base.model);
  const Family* recipe = apply_recipe(model, base);
  const toml::node* placement = model.find("placement");
  read_keys(model, model_section, base.model);
  if (placement != nullptr) base.model.placement = read_placement(model);
  base.model.layer_placements = read_layer_placements(model, tree->file);
  derive_shape(config, preset, base.model);
  base = config.with_placement(base.model.placement);
  read_section(root, init_section, base.init);
  TomlReader input = root.table("input");
  const bool has_width = base.model.width >= 1 && base.model.width <= 1 << 20;
  const bool init_says = has_width && derive_second_moment(config, recipe, base);
  const double derived = base.input.second_moment;
  read_keys(input, input_section, base.input);
  if (init_says) require_second_moment(base.init, derived, base.input.second_moment);
  read_kinds(input, config.inputs);
  input.resolve_path("path", base.input.path);
  read_section(root, run_section, config.run);
  read_section(root, agreement_section, config.agreement);
  read_section(root, power_limit_section, config.agreement.power_limits);
  read_section(root, theory_section, config.theory);
  for (const StackSpec& spec : config.stacks()) validate(spec);
  require_different("input.kind", words_of(config.inputs));
  base.input.kind = config.inputs.front();
  return config;
}

template <class T>
void require_same(std::string_view key, const T& measured, const T& overridden) {
  if (measured == overridden) return;
  throw ConfigError(fmt::format("--theory-set {} = {}: expected {} as measured; nothing could be compared else", key,
                                overridden, measured));
}

/// Merges the configurations of all combinations into one.
Config merged(const std::vector<Config>& each, const Lists& lists) {
  Config config = each.front();
  if (each.size() == 1) return config;
  for (std::size_t i = 0; i < each.size(); ++i) {
    config.variants.push_back(each[i].base);
    if (lists.vary_more_than_placement()) config.variants.back().label = lists.label(i, each[i].base);
  }
  read_texts(config);  // stacks may differ in their texts alone
  lists.require_comparable(config.stacks());
  return config;
}

/// Adds the stacks with --theory-set applied to `config`, and sets theory's precision and fault.
void override_theory(Known known, const Lists& lists, const std::vector<std::string>& theory_settings, Config& config) {
  const std::shared_ptr<const Tree> tree = overridden_tree(*config.tree, theory_settings);
  std::vector<Config> overridden;
  for (std::size_t i = 0; i < lists.combinations(); ++i) {
    overridden.push_back(read_single(known, tree, lists.choice(i, *tree)));
    require_same("input.kind", fmt::format("{}", fmt::join(words_of(config.inputs), " ")),
                 fmt::format("{}", fmt::join(words_of(overridden.back().inputs), " ")));
  }
  for (std::size_t input = 0; input < config.inputs.size(); ++input) {
    for (const Config& one : overridden) config.overridden.push_back(one.stacks()[input]);
  }
  const bool overrides_input = std::ranges::any_of(theory_settings, [](const std::string& setting) {
    const std::string key = key_of_setting(setting, "--theory-set");
    return key == "input.second_moment" || key == "model.recipe" || key == "init.embedding_std" ||
           key == "init.position_std";
  });
  const std::vector<StackSpec> measured = config.stacks();
  for (std::size_t i = 0; i < measured.size(); ++i) {
    const StackSpec& stack = measured[i];
    StackSpec& told = config.overridden[i];
    // It may follow from init.std and init.truncation, which may be overridden for the matrices alone.
    if (!overrides_input) told.input.second_moment = stack.input.second_moment;
    require_same("model.layers", stack.model.layers, told.model.layers);
    require_same("input.tokens", stack.input.tokens, told.input.tokens);
    require_same("input.path", stack.input.path, told.input.path);
    if (stack.input.kind != InputKind::gaussian) require_same("model.vocab", stack.model.vocab, told.model.vocab);
    told.input.text = stack.input.text;
    told.label = stack.label;
    told.settings = stack.settings;
  }
  config.theory = overridden.front().theory;
  config.theory_settings = theory_settings;
}

}  // namespace

void read_texts(Config& config) {
  if (std::ranges::find(config.inputs, InputKind::text) == config.inputs.end()) return;
  std::map<std::string, std::shared_ptr<const TextFile>> texts;
  const auto read = [&](StackSpec& spec) {
    InputSpec& input = spec.input;
    if (input.text != nullptr) return;
    std::shared_ptr<const TextFile>& text = texts[input.path];
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
  throw ConfigError(fmt::format("{}: {} is in the list twice: expected different entries", key, shortened(*twice)));
}

void require_variations(Known known, const std::vector<std::string>& variations) {
  constexpr std::string_view of_stacks[] = {"model.", "init.", "input.", "train.lr"};
  for (const std::string& variation : variations) {
    require_known(known, variation, "--vary",
                  "a key of model, init or input, as the stacks of a run share all others, or train.lr in first-steps",
                  of_stacks);
    toml::table table;
    apply_setting(table, variation, "--vary");
    if (!table.at_path(key_of_setting(variation, "--vary")).is_array()) {
      throw ConfigError(fmt::format("--vary {}: expected a list, as in --vary 'model.qk_norm=[\"none\",\"full\"]'",
                                    shortened(variation)));
    }
  }
}

Config load_config(Known known, const std::string& file, const std::vector<std::string>& settings,
                   const std::vector<std::string>& theory_settings) {
  for (const std::string& setting : settings) {
    require_known(known, setting, "--set", "one of the keys that `periscope list` shows");
  }
  const std::shared_ptr<const Tree> tree = read_tree(file, settings);
  const Lists lists(*tree);
  std::vector<Config> each;
  for (std::size_t i = 0; i < lists.combinations(); ++i) each.push_back(read_single(known, tree, lists.choice(i)));
  Config config = merged(each, lists);
  constexpr std::string_view of_theory[] = {"model.", "init.", "input.", "theory."};
  for (const std::string& setting : theory_settings) {
    require_known(known, setting, "--theory-set", "a key of model, init, input or theory", of_theory);
  }
  if (!theory_settings.empty()) override_theory(known, lists, theory_settings, config);
  return config;
}

}  // namespace periscope::config
