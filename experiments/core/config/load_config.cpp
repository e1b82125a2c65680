#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "experiments/core/config/config.h"
#include "experiments/core/config/setting.h"
#include "experiments/core/config/toml_reader.h"
#include "sim/base/error.h"
#include "sim/base/printable.h"
#include "sim/spec/stack_keys.h"

namespace periscope::config {
namespace {

std::vector<std::string_view> placement_names() {
  std::vector<std::string_view> names;
  for (const Placement& p : placement_table()) names.push_back(p.name);
  return names;
}

Placement read_placement(TomlReader& model, const toml::node& node, const std::string& file) {
  if (const auto* word = node.as_string()) {
    if (const std::optional<Placement> known = find_placement(word->get())) return *known;
    return placement_table()[model.index_of("placement", word->get(), placement_names())];
  }
  const toml::table* table = node.as_table();
  if (table == nullptr) model.fail("placement", node, "a name, a table {A, B, C, alpha, beta}, or a list of these");
  TomlReader reader(table, std::string(placement_section.name), file);
  SublayerRule rule;
  read_keys(reader, placement_section, rule);
  reader.finish();
  return custom_placement(rule);
}

void read_placements(TomlReader& model, const std::string& file, std::vector<Placement>& placements) {
  const toml::node* node = model.find("placement");
  if (node == nullptr) return;
  placements.clear();
  if (const toml::array* list = node->as_array()) {
    for (const toml::node& item : *list) placements.push_back(read_placement(model, item, file));
    if (placements.empty()) model.fail("placement", *node, "at least one placement");
  } else {
    placements.push_back(read_placement(model, *node, file));
  }
}

bool apply_preset(TomlReader& reader, ModelSpec& m) {
  std::string name;
  if (!reader.read("preset", name)) return false;
  std::vector<std::string_view> names;
  for (const Preset& p : presets) names.push_back(p.name);
  const Preset& p = presets[reader.index_of("preset", name, names)];
  m.layers = p.layers;
  m.width = p.width;
  m.heads = p.heads;
  m.kv_heads = p.kv_heads;
  m.head_dim = p.head_dim;
  m.mlp_width = p.mlp_width;
  return true;
}

/// What follows from other keys where it is not given.
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

void read_kinds(TomlReader& reader, std::vector<InputKind>& kinds) {
  const toml::node* node = reader.find("kind");
  if (node == nullptr) return;
  kinds.clear();
  const toml::array single{node->is_string() ? *node->value<std::string>() : std::string()};
  const toml::array* list = node->is_string() ? &single : node->as_array();
  if (list == nullptr || list->empty()) reader.fail("kind", *node, "gaussian, tokens, text, or a list of these");
  for (const toml::node& item : *list) {
    if (!item.is_string()) reader.fail("kind", *node, "gaussian, tokens, text, or a list of these");
    kinds.push_back(static_cast<InputKind>(reader.index_of("kind", *item.value<std::string>(), input_kind_names)));
  }
}

using Known = std::span<const AnySection>;

/// The keys of `periscope list`, and those of model.placement's table, in the tables `meant`; of all tables if empty.
std::vector<std::string> known_keys(Known known, std::span<const std::string_view> meant) {
  std::vector<std::string> keys;
  const auto add = [&](const std::string& name) {
    const auto within = [&](std::string_view table) { return name.starts_with(table); };
    if (meant.empty() || std::ranges::any_of(meant, within)) keys.push_back(name);
  };
  for (const AnySection& section : known) {
    for (const KeyText& key : section.keys) add(key.name);
  }
  for (const Key<SublayerRule>& key : placement_section.keys) {
    add(fmt::format("{}.{}", placement_section.name, key.name));
  }
  return keys;
}

/// The known key that `key` may have meant: who leaves its table away means one by its last part.
std::string nearest_key(const std::string& key, const std::vector<std::string>& keys) {
  std::vector<std::string> words = keys;
  if (key.find('.') == std::string::npos) {
    for (std::string& word : words) word = word.substr(word.rfind('.') + 1);
  }
  return keys[static_cast<std::size_t>(std::ranges::find(words, nearest(key, words)) - words.begin())];
}

/// Throws ConfigError unless the setting is of a known key, or of a known key of the tables `meant`.
void require_known(Known known, const std::string& setting, std::string_view flag, std::string_view expected,
                   std::span<const std::string_view> meant = {}) {
  const std::string key = key_of_setting(setting, flag);
  const std::vector<std::string> keys = known_keys(known, meant);
  if (std::ranges::find(keys, key) != keys.end()) return;
  const std::vector<std::string> all = known_keys(known, {});
  const bool is_known = std::ranges::find(all, key) != all.end();  // of another table than is meant
  throw ConfigError(fmt::format("{} {}: {}{}: expected {}; nearest is {}", flag, shortened(setting),
                                is_known ? "" : "unknown key ", shortened(key), expected, nearest_key(key, keys)));
}

/// Throws ConfigError for anything in `table` that no section knows or takes.
void check_sections(Known known, const toml::table& table, const std::string& file) {
  if (table.contains("converge")) {
    throw ConfigError(fmt::format("{}[converge] is [ladder] now: expected ladder.widths and ladder.seeds",
                                  file.empty() ? "" : printable(file) + ": "));
  }
  std::map<std::string, TomlReader> readers{{"", TomlReader(&table, "", file)}};
  for (const AnySection& section : known) {
    const std::size_t dot = section.name.rfind('.');
    const std::string parent = dot == std::string::npos ? "" : section.name.substr(0, dot);
    readers.emplace(section.name, readers.at(parent).table(section.name.substr(dot + 1)));
  }
  for (const AnySection& section : known) section.check(readers.at(section.name));
  for (const AnySection& section : known) readers.at(section.name).finish();
  readers.at("").finish();
}

/// The configuration in `table`, which was read from `file`.
Config read_config(Known known, const toml::table& table, const std::string& file) {
  Config config;
  config.inputs = {InputKind::gaussian};
  config.placements = {config.base.model.placement};
  for (const auto& [name, node] : table) {
    if (!node.is_table()) continue;
    for (const auto& [key, value] : *node.as_table()) config.given.insert(fmt::format("{}.{}", name.str(), key.str()));
  }
  check_sections(known, table, file);
  TomlReader root(&table, "", file);
  StackSpec& base = config.base;
  TomlReader model = root.table("model");
  const bool preset = apply_preset(model, base.model);
  read_keys(model, model_section, base.model);
  read_placements(model, file, config.placements);
  derive_shape(config, preset, base.model);
  if (config.was_given("model.final_norm")) config.final_norm = base.model.final_norm;
  TomlReader init = root.table("init");
  read_keys(init, init_section, base.init);
  TomlReader input = root.table("input");
  read_keys(input, input_section, base.input);
  read_kinds(input, config.inputs);
  const toml::node* path = input.find("path");
  if (path != nullptr && path->source().path && std::filesystem::path(base.input.path).is_relative()) {
    base.input.path = (std::filesystem::path(file).parent_path() / base.input.path).lexically_normal().string();
  }
  TomlReader run = root.table("run");
  read_keys(run, run_section, config.run);
  TomlReader agreement = root.table("agreement");
  read_keys(agreement, agreement_section, config.agreement);
  TomlReader power_limit = agreement.table("power_limit");
  read_keys(power_limit, power_limit_section, config.agreement.power_limits);
  TomlReader theory = root.table("theory");
  read_keys(theory, theory_section, config.theory);
  for (const StackSpec& spec : config.stacks()) validate(spec);
  std::vector<std::string> labels;
  for (StackSpec spec{.model = base.model, .init = {}, .input = {}}; const Placement& placement : config.placements) {
    spec.model.placement = placement;
    labels.push_back(placement_label(spec));
  }
  require_different("model.placement", labels);
  std::vector<std::string> kinds;
  for (const InputKind kind : config.inputs) kinds.emplace_back(input_kind_names[static_cast<std::size_t>(kind)]);
  require_different("input.kind", kinds);
  config.base = config.stacks().front();
  return config;
}

template <class T>
void require_same(std::string_view key, const T& measured, const T& told) {
  if (measured == told) return;
  throw ConfigError(fmt::format("--theory-set {} = {}: expected {} as measured; nothing could be compared else", key,
                                told, measured));
}

/// Makes `told` what theory hears of the stacks of `config`.
void tell_theory(Config& config, Config told) {
  if (told.placements.size() == 1) told.placements.assign(config.placements.size(), told.placements.front());
  if (told.placements.size() != config.placements.size()) {
    throw ConfigError(fmt::format("--theory-set model.placement: {} placements, expected one, or {} as measured",
                                  told.placements.size(), config.placements.size()));
  }
  const auto words = [](const std::vector<InputKind>& kinds) {
    std::string all;
    for (const InputKind kind : kinds) all += fmt::format("{} ", input_kind_names[static_cast<std::size_t>(kind)]);
    return all.substr(0, all.size() - 1);
  };
  require_same("input.kind", words(config.inputs), words(told.inputs));
  const StackSpec& a = config.base;
  const StackSpec& b = told.base;
  require_same("model.layers", a.model.layers, b.model.layers);
  require_same("input.tokens", a.input.tokens, b.input.tokens);
  require_same("input.path", a.input.path, b.input.path);
  const bool ids = std::ranges::any_of(config.inputs, [](InputKind kind) { return kind != InputKind::gaussian; });
  if (ids) require_same("model.vocab", a.model.vocab, b.model.vocab);
  config.told = told.stacks();
  config.theory = told.theory;
}

}  // namespace

void require_different(std::string_view key, std::vector<std::string> entries) {
  std::ranges::sort(entries);
  const auto twice = std::ranges::adjacent_find(entries);
  if (twice == entries.end()) return;
  throw ConfigError(fmt::format("{}: {} is in the list twice: expected different entries", key, shortened(*twice)));
}

Config load_config(Known known, const std::string& file, const std::vector<std::string>& settings,
                   const std::vector<std::string>& theory_settings) {
  for (const std::string& setting : settings) {
    require_known(known, setting, "--set", "one of the keys that `periscope list` shows");
  }
  toml::table table = read_table(file, settings);
  Config config = read_config(known, table, file);
  if (theory_settings.empty()) return config;
  constexpr std::string_view of_theory[] = {"model.", "init.", "input.", "theory."};
  for (const std::string& setting : theory_settings) {
    require_known(known, setting, "--theory-set", "a key of model, init, input or theory, as theory is told",
                  of_theory);
    apply_setting(table, setting, "--theory-set");
  }
  tell_theory(config, read_config(known, table, file));
  config.theory_settings = theory_settings;
  return config;
}

}  // namespace periscope::config
