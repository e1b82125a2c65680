#include "experiments/app/tools/info.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <regex>

#include "experiments/engine/result/text_table.h"
#include "sim/base/printable.h"
#include "sim/checkpoint/finite_weights.h"
#include "sim/checkpoint/weight_check.h"
#include "sim/model/parameters.h"

namespace periscope::app {
namespace {

using Json = nlohmann::ordered_json;

/// Returns the norms of a sublayer, such as "A B".
std::string letters_of(const SublayerRule& rule) {
  std::vector<std::string_view> letters;
  if (rule.norm_a) letters.emplace_back("A");
  if (rule.norm_b) letters.emplace_back("B");
  if (rule.norm_c) letters.emplace_back("C");
  return fmt::format("{}", fmt::join(letters, " "));
}

/// Returns the sublayer's formula with its norms, such as "x + B(f(A(x)))".
std::string formula_of(const SublayerRule& rule) {
  std::string branch = rule.norm_a ? "f(A(x))" : "f(x)";
  if (rule.norm_b) branch = "B(" + branch + ")";
  if (rule.beta != 1.0) branch = fmt::format("{:g} {}", rule.beta, branch);
  const std::string stream = rule.alpha != 1.0 ? fmt::format("{:g} x", rule.alpha) : "x";
  const std::string sum = stream + " + " + branch;
  return rule.norm_c ? "C(" + sum + ")" : sum;
}

Json shape_of(const ModelSpec& m) {
  Json shape{{"layers", m.layers},     {"width", m.width},         {"heads", m.heads}, {"kv_heads", m.kv_heads},
             {"head_dim", m.head_dim}, {"mlp_width", m.mlp_width}, {"vocab", m.vocab}};
  if (const ExpertSpec& experts = m.experts; experts.count > 0) {
    shape.update({{"experts", experts.count},
                  {"experts_per_token", experts.per_token},
                  {"normalised_expert_weights", experts.normalised}});
  }
  return shape;
}

/// Returns the distinct attention rules, each with its layers.
Json attention_of(const ModelSpec& m) {
  std::vector<std::pair<Json, std::vector<int>>> rules;
  for (int layer = 0; layer < m.layers; ++layer) {
    const ScoreRule scores = m.scores_at(layer);
    Json rule{
        {"scale", scores.scale == 0.0 ? 1.0 / std::sqrt(static_cast<double>(m.head_dim_at(layer))) : scores.scale},
        {"soft_cap", scores.soft_cap},
        {"window", scores.window},
        {"rope_frequencies", m.rope_frequencies_at(layer)},
        {"rope_scale", m.attention.empty() ? 1.0 : m.attention[static_cast<std::size_t>(layer)].rope_scale}};
    if (m.head_dim_at(layer) != m.head_dim) rule["head_dim"] = m.head_dim_at(layer);
    if (m.kv_heads_at(layer) != m.kv_heads) rule["kv_heads"] = m.kv_heads_at(layer);
    const auto found = std::ranges::find(rules, rule, &std::pair<Json, std::vector<int>>::first);
    if (found == rules.end()) {
      rules.emplace_back(std::move(rule), std::vector{layer});
    } else {
      found->second.push_back(layer);
    }
  }
  Json all = Json::array();
  for (const auto& [rule, layers] : rules) all.emplace_back(Json{{"layers", layers}}).update(rule);
  return all;
}

/// Replaces the indices of layer and expert: "layers.0.mlp.experts.1.up" becomes "layers.{i}.mlp.experts.{e}.up".
std::string pattern(const std::string& name) {
  static const std::regex layer(R"((^|\.)[0-9]+\.)");
  static const std::regex expert(R"(\.experts\.[0-9]+\.)");
  const std::string in_layer = std::regex_replace(name, layer, "$1{i}.", std::regex_constants::format_first_only);
  return std::regex_replace(in_layer, expert, ".experts.{e}.");
}

/// Returns the tensor of every parameter; "layers.{i}" stands for every layer.
Json names_of(const Checkpoint& c) {
  std::map<std::string, StoredPart> by_parameter;
  for (const auto& [tensor, uses] : c.uses()) {
    for (const ParameterMap::Use& use : uses) by_parameter[name_of(use.parameter)] = use.part;
  }
  Json rows = Json::array();
  const auto add = [&](const std::string& parameter) {
    const auto found = by_parameter.find(parameter);
    if (found == by_parameter.end()) return;
    const StoredPart& part = found->second;
    const bool of_layer = parameter.starts_with("layers.");
    Json row{{"parameter", of_layer ? pattern(parameter) : parameter},
             {"tensor", of_layer ? pattern(part.tensor) : part.tensor},
             {"first", part.first},
             {"transposed", part.transposed},
             {"plus", part.plus}};
    if (!part.order.empty()) row.update({{"stride", part.stride}, {"order", part.order}});
    if (std::ranges::find(rows, row) == rows.end()) rows.push_back(row);  // once for all layers
  };
  for (const ParameterId& gain : gains_of(c.model())) {
    add(name_of(gain));
    add(name_of(bias_of(gain)));
    add(name_of(alpha_of(gain)));
  }
  for (const ParameterId& matrix : matrices_of(token_stack(c.model()))) {
    add(name_of(matrix));
    add(name_of(bias_of(matrix)));
  }
  return rows;
}

/// Returns a function that shows progress when it is called with the size of every block of weights.
std::function<void(std::uint64_t)> reading_progress(const Checkpoint& c, stacks::Progress& progress) {
  constexpr std::uint64_t shown_from = 1 << 26;  // reading fewer numbers takes less than about half a second
  constexpr std::uint64_t million = 1'000'000;
  std::uint64_t parameters = 0;
  for (const auto& [tensor, uses] : c.uses()) parameters += count_of(c.files().find(tensor));
  if (parameters < shown_from) return [](std::uint64_t /*numbers*/) {};
  progress.begin("reading weights (million numbers)", static_cast<std::int64_t>(parameters / million));
  return [&progress, read = std::uint64_t{0}](std::uint64_t numbers) mutable {
    const auto before = read / million;
    read += numbers;
    progress.step("", static_cast<int>(read / million - before));
  };
}

/// Returns the checkpoint's warnings, and one about the first weight that is not finite.
std::vector<std::string> warnings_of(const Checkpoint& c, stacks::Progress& progress) {
  std::vector<std::string> all = c.warnings();
  if (const auto bad = find_non_finite_weight(c, {}, reading_progress(c, progress))) all.push_back(*bad);
  return all;
}

/// Returns one line per norm or, for `norms` = false, per matrix of a layer: parameter, tensor, and the transformation
/// if the parameter is not the stored tensor itself.
std::string names_text(const Json& names, bool norms) {
  std::string text;
  std::size_t width = 35;
  for (const Json& row : names) width = std::max(width, row.at("parameter").get_ref<const std::string&>().size());
  for (const Json& row : names) {
    const auto parameter = row.at("parameter").get<std::string>();
    if ((parameter.find("norm") != std::string::npos) != norms) continue;
    text += fmt::format("  {:<{}} {}", parameter, width, printable(row.at("tensor").get<std::string>()));
    if (const double plus = row.at("plus"); plus != 0.0) text += fmt::format("  {:g} + stored", plus);
    if (row.at("transposed").get<bool>()) text += "  transposed";
    if (const int first = row.at("first"); first != 0) text += fmt::format("  from output feature {}", first);
    if (row.contains("stride")) {
      text += fmt::format("  in blocks of {}, every {}", row.at("order").size(), row.at("stride").get<int>());
      if (!std::ranges::is_sorted(row.at("order"))) text += ", reordered for RoPE";
    }
    text += "\n";
  }
  return text;
}

/// Formats fields as in "layers 4, causal, width 16 to 64". Omits 0, false, "none" and the inner values of lists.
std::string fields_of(const Json& object) {
  std::vector<std::string> words;
  for (const auto& [name, value] : object.items()) {
    const bool unnamed = value.is_string() && value.get_ref<const std::string&>().empty();
    if (value.empty() || value == 0 || value == false || unnamed || (value == "none" && name != "name")) continue;
    const Json& first = value.is_array() ? value.front() : value;
    words.push_back(name);
    if (first.is_string()) words.back() += " " + first.get<std::string>();
    if (first.is_number()) words.back() += fmt::format(" {:.6g}", first.get<double>());
    if (value.is_array()) words.back() += fmt::format(" to {:.6g}", value.back().get<double>());
  }
  return fmt::format("{}", fmt::join(words, ", "));
}

/// Returns true if all sublayers have the same norms and are applied in sequence.
bool is_uniform(const ModelSpec& m) {
  for (int l = 0; l < m.sublayers(); ++l) {
    const SublayerRule rule = m.rule(l);
    const SublayerRule first = m.rule(0);
    if (rule.norm_a != first.norm_a || rule.norm_b != first.norm_b || rule.norm_c != first.norm_c) return false;
  }
  const auto has_inside = [](const LayerPlacement& range) {
    return range.qk_norm || range.v_norm || range.inner_norm || range.attention_gate;
  };
  const bool is_sequential = m.placement.wiring == Wiring::sequential || m.placement.wiring == Wiring::dual;
  return is_sequential && std::ranges::none_of(m.layer_placements, has_inside);
}

}  // namespace

Json info_json(const Checkpoint& c, stacks::Progress& progress) {
  const ModelSpec& m = c.model();
  const SublayerRule rule = m.rule(0);
  const auto architectures = c.config().find("architectures");
  const bool has_architecture = architectures != c.config().end() && !architectures->is_null();
  Json tensors = Json::object();
  std::map<std::string, int> types;
  std::uint64_t parameters = 0;  // a tied matrix counts once
  for (const auto& [tensor, uses] : c.uses()) {
    const SafetensorsView& view = c.files().find(tensor);
    ++types[name_of(view.type)];
    parameters += count_of(view);
    Json& entry =
        tensors[tensor] = {{"type", name_of(view.type)}, {"shape", view.shape}, {"parameters", Json::array()}};
    for (const ParameterMap::Use& use : uses) entry["parameters"].push_back(name_of(use.parameter));
  }
  return {{"folder", c.folder()},
          {"family", c.family().name},
          {"model_type", c.config().at("model_type")},
          {"architecture", has_architecture ? architectures->at(0).get<std::string>() : "unspecified"},
          {"placement",
           {{"name", m.placement.name},
            {"letters", letters_of(rule)},
            {"formula", formula_of(rule)},
            {"final_norm", m.final_norm},
            {"embedding_norm", m.embedding_norm},
            {"qk_norm", qk_norm_names[static_cast<std::size_t>(m.qk_norm_at(0))]},
            {"v_norm", m.v_norm_at(0)},
            {"inner_norm", inner_norm_names[static_cast<std::size_t>(m.inner_norm_of(0))]},
            {"attention_gate", attention_gate_names[static_cast<std::size_t>(m.attention_gate_at(0))]}}},
          {"shape", shape_of(m)},
          {"mlp", mlp_kind_names[static_cast<std::size_t>(m.mlp)]},
          {"norm", norm_kind_names[static_cast<std::size_t>(m.norm)]},
          {"norm_eps", m.norm_eps},
          {"causal", m.causal},
          {"parameters", parameters},
          {"types", types},
          {"tied", c.tied()},
          {"logits", m.unembedding},
          {"embedding",
           {{"scale", m.embedding.scale},
            {"width", m.embedding_width()},
            {"positions", m.embedding.positions},
            {"position_offset", m.embedding.position_offset},
            {"token_types", m.embedding.token_types}}},
          {"layer_scales", m.layer_scales},
          {"head", {{"transform", m.head.transform}, {"scale", m.head.scale}, {"soft_cap", m.head.soft_cap}}},
          {"attention", attention_of(m)},
          {"names", names_of(c)},
          {"tensors", tensors},
          {"unused", c.unused()},
          {"defaults", c.defaults()},
          {"warnings", warnings_of(c, progress)},
          {"ignored_keys", c.ignored_keys()}};
}

std::string info_text(const Checkpoint& c, const Json& info) {
  const ModelSpec& m = c.model();
  std::string text;
  const auto line = [&](std::string_view key, const std::string& value) {
    text += fmt::format("{:<12}{}\n", key, value);
  };
  line("family", fmt::format("{} ({})", c.family().name, printable(info.at("architecture").get<std::string>())));
  line("placement", fields_of(info.at("placement")) + (is_uniform(m) ? "" : "; first sublayer only, others differ"));
  line("shape", fields_of(info.at("shape")));
  line("mlp", info.at("mlp"));
  line("norms", is_pointwise(m.norm)
                    ? fmt::format("{}, alpha {:g} at initialisation", facts_of(m.norm).title, m.norm_alpha)
                    : fmt::format("{}, eps {:g}", facts_of(m.norm).title, m.norm_eps));
  line("embedding", fields_of(info.at("embedding")));
  line("attention", m.causal ? "causal" : "bidirectional");
  for (Json rule : info.at("attention")) {
    const std::vector<int> layers = rule.at("layers");
    rule.erase("layers");
    line("",
         fields_of(rule) + (std::ssize(layers) < m.layers ? fmt::format("  (layers {})", fmt::join(layers, " ")) : ""));
  }
  if (!m.layer_scales.empty()) {
    const auto [low, high] = std::ranges::minmax(m.layer_scales);
    line("layer scale", fmt::format("{:.6g} to {:.6g}", low, high));
  }
  const std::string head = fields_of(info.at("head"));
  line("head", !m.unembedding ? "none: no logits"
                              : fmt::format("{}{}{}", c.tied() ? "tied to the embedding" : "untied",
                                            head.empty() ? "" : ", ", head));
  std::vector<std::string> types;
  for (const auto& [type, count] : info.at("types").items()) types.push_back(fmt::format("{} {}", count.dump(), type));
  line("parameters", fmt::format("{:L} in {} tensors ({})", info.at("parameters").get<std::uint64_t>(), c.uses().size(),
                                 fmt::join(types, ", ")));
  text += "\nnorms\n" + names_text(info.at("names"), true) + "\nmatrices\n" + names_text(info.at("names"), false);
  if (!c.unused().empty()) {
    text += fmt::format("\nunused: {} tensors, such as {}\n", c.unused().size(), printable(c.unused().front()));
  }
  if (!c.defaults().empty()) {
    text += "\ndefaults, not in config.json:";
    for (const auto& [key, value] : c.defaults()) text += fmt::format(" {} = {};", printable(key), printable(value));
    text.back() = '\n';
  }
  for (const Json& warning : info.at("warnings")) {
    text += "\nwarning: " + printable(warning.get<std::string>()) + "\n";
  }
  return dataset::wrap_to_table_width(text);
}

Json check_json(const Checkpoint& c, const std::vector<std::string>& ignored, stacks::Progress& progress) {
  Json findings = Json::array();
  for (const Finding& one : check_weights(c, ignored, reading_progress(c, progress))) findings.push_back(json_of(one));
  return {{"folder", c.folder()},
          {"family", c.family().name},
          {"tensors", c.uses().size()},
          {"findings", findings},
          {"ignored_keys", c.ignored_keys()}};
}

std::string check_text(const Json& check) {
  std::string text;
  for (const Json& finding : check.at("findings")) {
    const auto part = [&](const char* key) { return printable(finding.at(key).get<std::string>()); };
    text += fmt::format("{:<15}{}: {}; expected {}\n", part("kind"), part("tensor"), part("found"), part("expected"));
  }
  const std::size_t count = check.at("findings").size();
  text += fmt::format("{} finding{} in {} tensors\n", count, count == 1 ? "" : "s", check.at("tensors").dump());
  return dataset::wrap_to_table_width(text);
}

}  // namespace periscope::app
