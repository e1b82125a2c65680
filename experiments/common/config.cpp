#include "experiments/common/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "experiments/common/toml_reader.h"
#include "sim/spec/error.h"

namespace periscope {
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
  TomlReader reader(table, "model.placement", file);
  SublayerRule rule;
  reader.read("A", rule.norm_a);
  reader.read("B", rule.norm_b);
  reader.read("C", rule.norm_c);
  reader.read("alpha", rule.alpha);
  reader.read("beta", rule.beta);
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

void apply_preset(TomlReader& reader, ModelSpec& m) {
  std::string name;
  if (!reader.read("preset", name)) return;
  std::vector<std::string_view> names;
  for (const Preset& p : presets) names.push_back(p.name);
  const Preset& p = presets[reader.index_of("preset", name, names)];
  m.layers = p.layers;
  m.width = p.width;
  m.heads = p.heads;
  m.kv_heads = p.kv_heads;
  m.head_dim = p.head_dim;
  m.mlp_width = p.mlp_width;
}

void read_model(TomlReader reader, const std::string& file, Config& config) {
  ModelSpec& m = config.base.model;
  apply_preset(reader, m);
  const bool preset = reader.find("preset") != nullptr;
  reader.read("layers", m.layers);
  const bool width = reader.read("width", m.width);
  const bool heads = reader.read("heads", m.heads);
  if (!reader.read("kv_heads", m.kv_heads) && (heads || !preset)) m.kv_heads = m.heads;
  if (!reader.read("head_dim", m.head_dim) && !preset) {
    if (m.heads >= 1 && m.width % m.heads != 0) {
      throw ConfigError(
          fmt::format("model.heads = {}: expected a divisor of model.width = {}, or model.head_dim", m.heads, m.width));
    }
    m.head_dim = m.heads >= 1 ? m.width / m.heads : 1;
  }
  if (!reader.read("mlp_width", m.mlp_width) && (width || !preset)) {
    if (m.width <= 1 << 20) m.mlp_width = 4 * m.width;
  }
  reader.read_enum("mlp", mlp_kind_names, m.mlp);
  reader.read_enum("norm", norm_kind_names, m.norm);
  reader.read("norm_eps", m.norm_eps);
  reader.read("gamma", m.gamma);
  read_placements(reader, file, config.placements);
  reader.read("embedding_norm", m.embedding_norm);
  if (bool value = false; reader.read("final_norm", value)) config.final_norm = value;
  reader.read_enum("qk_norm", qk_norm_names, m.qk_norm);
  reader.read("rope", m.rope);
  reader.read("causal", m.causal);
  reader.read("vocab", m.vocab);
  reader.read("unembedding", m.unembedding);
  reader.finish();
}

void read_init(TomlReader reader, InitSpec& init) {
  reader.read_enum("scheme", init_scheme_names, init.scheme);
  reader.read("std", init.std);
  reader.read("factor", init.factor);
  reader.read("qk_factor", init.qk_factor);
  reader.read("down_factor", init.down_factor);
  reader.finish();
}

void read_input(TomlReader reader, const std::string& file, Config& config) {
  InputSpec& input = config.base.input;
  if (const toml::node* node = reader.find("kind")) {
    config.inputs.clear();
    const toml::array single{node->is_string() ? *node->value<std::string>() : std::string()};
    const toml::array* list = node->is_string() ? &single : node->as_array();
    if (list == nullptr || list->empty()) reader.fail("kind", *node, "gaussian, tokens, text, or a list of these");
    for (const toml::node& item : *list) {
      if (!item.is_string()) reader.fail("kind", *node, "gaussian, tokens, text, or a list of these");
      config.inputs.push_back(
          static_cast<InputKind>(reader.index_of("kind", *item.value<std::string>(), input_kind_names)));
    }
  }
  reader.read("tokens", input.tokens);
  reader.read("second_moment", input.second_moment);
  reader.read("correlation", input.correlation);
  const toml::node* path = reader.find("path");
  if (reader.read("path", input.path) && path->source().path && std::filesystem::path(input.path).is_relative()) {
    input.path = (std::filesystem::path(file).parent_path() / input.path).lexically_normal().string();
  }
  reader.finish();
}

void read_run(TomlReader reader, RunOptions& run) {
  reader.read("seed", run.seed);
  reader.read("seeds", run.seeds);
  reader.read("threads", run.threads);
  reader.read("device", run.device);
  if (std::string dtype; reader.read("dtype", dtype)) run.dtype_choice = parse_dtype(dtype);
  reader.read("backward", run.backward);
  reader.read("out", run.out);
  reader.finish();
}

void require_range(std::string_view key, double value, double low, double high) {
  if (value > low && value < high) return;
  throw ConfigError(fmt::format("{} = {:g}: expected a number between {:g} and {:g}", key, value, low, high));
}

void read_power_limits(TomlReader reader, PowerLimits& limits) {
  const auto read = [&](std::string_view key, double& limit) {
    reader.read(key, limit);
    require_range(fmt::format("agreement.power_limit.{}", key), limit, 0.0, 1e3);
  };
  read("second_moment", limits.second_moment);
  read("variance", limits.variance);
  read("token_cosine", limits.token_cosine);
  read("log_grad_sq", limits.log_grad_sq);
  read("score_share", limits.score_share);
  reader.finish();
}

toml::table parse_file(const std::string& file) {
  if (file.empty()) return {};
  if (!std::filesystem::is_regular_file(file)) throw ConfigError(fmt::format("--config {}: no such file", file));
  try {
    return toml::parse_file(file);
  } catch (const toml::parse_error& error) {
    throw ConfigError(fmt::format("{}:{}: not TOML: {}", file, error.source().begin.line, error.description()));
  }
}

}  // namespace

DType parse_dtype(const std::string& word) {
  if (word == "f64") return DType::f64;
  if (word == "f32") return DType::f32;
  if (word == "bf16" || word == "f16") {
    throw ConfigError(fmt::format("dtype = \"{}\": no backend of this build has it; use f64 or f32", word));
  }
  throw ConfigError(fmt::format("dtype = \"{}\": expected one of f64, f32, bf16, f16", word));
}

std::vector<StackSpec> Config::stacks() const {
  std::vector<StackSpec> all;
  for (const InputKind kind : inputs) {
    for (const Placement& placement : placements) {
      StackSpec spec = base;
      spec.input.kind = kind;
      spec.model.placement = placement;
      spec.model.final_norm = final_norm.value_or(placement.final_norm);
      all.push_back(spec);
    }
  }
  return all;
}

namespace {

/// The configuration in `table`, which was read from `file`.
Config read_config(const toml::table& table, const std::string& file) {
  Config config;
  config.inputs = {InputKind::gaussian};
  config.placements = {config.base.model.placement};
  for (const auto& [name, node] : table) {
    if (!node.is_table()) continue;
    for (const auto& [key, value] : *node.as_table()) config.given.insert(fmt::format("{}.{}", name.str(), key.str()));
  }
  TomlReader root(&table, "", file);
  read_model(root.table("model"), file, config);
  read_init(root.table("init"), config.base.init);
  read_input(root.table("input"), file, config);
  read_run(root.table("run"), config.run);
  TomlReader agreement = root.table("agreement");
  agreement.read("familywise_error", config.agreement.familywise_error);
  agreement.read("finite_width", config.agreement.finite_width);
  agreement.read("finite_width_cosine", config.agreement.finite_width_cosine);
  agreement.read("finite_width_gradient", config.agreement.finite_width_gradient);
  read_power_limits(agreement.table("power_limit"), config.agreement.power_limits);
  agreement.finish();
  TomlReader theory = root.table("theory");
  theory.read("tolerance", config.theory.tolerance);
  theory.read("gradient_tolerance", config.theory.gradient_tolerance);
  theory.read_enum("fault", theory::fault_names, config.theory.fault);
  if (bool value = false; theory.read("finite_width", value)) config.theory.finite_width = value;
  theory.read("replicates", config.theory.replicates);
  theory.finish();
  TomlReader converge = root.table("converge");
  converge.read("widths", config.converge.widths);
  converge.read("seeds", config.converge.seeds);
  converge.finish();
  TomlReader ladder = root.table("ladder");
  ladder.read("widths", config.ladder.widths);
  ladder.read("seeds", config.ladder.seeds);
  ladder.finish();
  TomlReader gradients = root.table("gradients");
  gradients.read("layers", config.gradients.layers);
  gradients.read("qk_factors", config.gradients.qk_factors);
  gradients.read("down_factors", config.gradients.down_factors);
  gradients.finish();
  root.finish();
  require_range("agreement.familywise_error", config.agreement.familywise_error, 0.0, 1.0);
  require_range("agreement.finite_width", config.agreement.finite_width, -1e-300, 1e3);
  require_range("agreement.finite_width_cosine", config.agreement.finite_width_cosine, -1e-300, 1e3);
  require_range("agreement.finite_width_gradient", config.agreement.finite_width_gradient, -1e-300, 1e3);
  require_range("theory.tolerance", config.theory.tolerance, 0.0, 1.0);
  require_range("theory.gradient_tolerance", config.theory.gradient_tolerance, 0.0, 100.0);
  if (const int n = config.theory.replicates; n != 0 && (n < 2 || n > 1'000'000)) {
    throw ConfigError(
        fmt::format("theory.replicates = {}: expected 0 (automatic) or a whole number from 2 to 1000000", n));
  }
  for (const StackSpec& spec : config.stacks()) validate(spec);
  config.base = config.stacks().front();
  return config;
}

void require_told(const std::string& setting) {
  for (const std::string_view table : {"model.", "init.", "input.", "theory."}) {
    if (setting.starts_with(table)) return;
  }
  throw ConfigError(
      fmt::format("--theory-set {}: expected a key of model, init, input or theory, as theory is told", setting));
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

Config load_config(const std::string& file, const std::vector<std::string>& settings,
                   const std::vector<std::string>& theory_settings) {
  toml::table table = parse_file(file);
  for (const std::string& setting : settings) apply_setting(table, setting);
  Config config = read_config(table, file);
  if (theory_settings.empty()) return config;
  for (const std::string& setting : theory_settings) {
    require_told(setting);
    apply_setting(table, setting, "--theory-set");
  }
  tell_theory(config, read_config(table, file));
  config.theory_settings = theory_settings;
  return config;
}

nlohmann::ordered_json resolved_json(const StackSpec& spec) {
  const ModelSpec& m = spec.model;
  nlohmann::ordered_json placement = m.placement.name;
  if (m.placement.is_custom()) {
    const SublayerRule& r = m.placement.custom;
    placement = {{"A", r.norm_a}, {"B", r.norm_b}, {"C", r.norm_c}, {"alpha", r.alpha}, {"beta", r.beta}};
  }
  const auto name = [](const auto& names, auto value) { return names[static_cast<std::size_t>(value)]; };
  return {{"model",
           {{"layers", m.layers},
            {"width", m.width},
            {"heads", m.heads},
            {"kv_heads", m.kv_heads},
            {"head_dim", m.head_dim},
            {"mlp", name(mlp_kind_names, m.mlp)},
            {"mlp_width", m.mlp_width},
            {"norm", name(norm_kind_names, m.norm)},
            {"norm_eps", m.norm_eps},
            {"gamma", m.gamma},
            {"placement", placement},
            {"embedding_norm", m.embedding_norm},
            {"final_norm", m.final_norm},
            {"qk_norm", name(qk_norm_names, m.qk_norm)},
            {"rope", m.rope},
            {"causal", m.causal},
            {"vocab", m.vocab},
            {"unembedding", m.unembedding}}},
          {"init",
           {{"scheme", name(init_scheme_names, spec.init.scheme)},
            {"std", spec.init.std},
            {"factor", spec.init.factor},
            {"qk_factor", spec.init.qk_factor},
            {"down_factor", spec.init.down_factor}}},
          {"input",
           {{"kind", name(input_kind_names, spec.input.kind)},
            {"tokens", spec.input.tokens},
            {"second_moment", spec.input.second_moment},
            {"correlation", spec.input.correlation},
            {"path", spec.input.path}}}};
}

std::string placement_label(const StackSpec& spec) {
  const auto json = resolved_json(spec)["model"]["placement"];
  return json.is_string() ? json.get<std::string>() : json.dump();
}

}  // namespace periscope
