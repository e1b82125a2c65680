#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numbers>

#include "experiments/app/tools/info.h"
#include "experiments/engine/result/text_table.h"
#include "sim/base/printable.h"

namespace periscope::app {
namespace {

using Json = nlohmann::ordered_json;

/// Returns one line for every norm, or for every other matrix, of a layer: its parameter, its tensor, and how it lies
/// in it where that is not the whole tensor as stored.
std::string names_text(const Json& names, bool norms) {
  std::string text;
  for (const Json& row : names) {
    const auto parameter = row.at("parameter").get<std::string>();
    if ((parameter.find("norm") != std::string::npos) != norms) continue;
    text += fmt::format("  {:<35} {}", parameter, printable(row.at("tensor").get<std::string>()));
    if (const double plus = row.at("plus"); plus != 0.0) text += fmt::format("  {:g} + stored", plus);
    if (row.at("transposed").get<bool>()) text += "  transposed";
    if (const int first = row.at("first"); first != 0) text += fmt::format("  from output feature {}", first);
    text += "\n";
  }
  return text;
}

std::string attention_line(const Json& rule, const ModelSpec& m) {
  std::string text = fmt::format("scores q·k × {:.4g}", rule.at("scale").get<double>());
  if (const double cap = rule.at("soft_cap"); cap > 0.0) text += fmt::format(", capped at {:g}", cap);
  const int window = rule.at("window");
  text += window > 0 ? fmt::format(", window of {} tokens", window) : m.causal ? ", all tokens before" : ", all tokens";
  if (const std::vector<double> frequencies = rule.at("rope_frequencies"); !frequencies.empty()) {
    const double turn = 2.0 * std::numbers::pi;
    text +=
        fmt::format(", RoPE periods {:.3g} to {:.3g} tokens", turn / frequencies.front(), turn / frequencies.back());
  }
  const std::vector<int> layers = rule.at("layers");
  return std::ssize(layers) < m.layers ? fmt::format("{}  (layers {})", text, fmt::join(layers, " ")) : text;
}

std::string input_line(const ModelSpec& m) {
  std::string text = fmt::format("{} tokens", m.vocab);
  if (m.projects_embedding()) text += fmt::format(" of width {}, projected", m.embedding_width());
  if (m.embedding.scale != 1.0) text += fmt::format(", × {:g}", m.embedding.scale);
  if (m.embedding.positions > 0) {
    text += fmt::format(", {} learned positions", m.embedding.positions - m.embedding.position_offset);
  }
  if (m.embedding.position_offset > 0) text += fmt::format(" from row {}", m.embedding.position_offset);
  if (m.embedding.token_types > 0) text += ", token type 0";
  return text + (m.embedding_norm ? ", norm" : "");
}

std::string head_line(const Checkpoint& c) {
  const ModelSpec& m = c.model();
  if (!m.unembedding) return "none: no logits";
  std::string text = c.tied() ? "the embedding's table" : "a matrix of its own";
  if (m.head.transform) text = "dense, activation, norm, then " + text;
  if (m.head.soft_cap > 0.0) text += fmt::format(", logits capped at {:g}", m.head.soft_cap);
  return text;
}

/// Norms and gates inside the modules of the first layer.
std::string inside_of(const ModelSpec& m) {
  std::string text;
  if (m.qk_norm_at(0) == QkNorm::head) text += ", QK-norm per head";
  if (m.qk_norm_at(0) == QkNorm::full) text += ", QK-norm of the whole projection";
  if (m.v_norm_at(0)) text += ", V-norm";
  if (m.gates_at(0) > 0) {
    text +=
        fmt::format(", attention gated per {}", attention_gate_names[static_cast<std::size_t>(m.attention_gate_at(0))]);
  }
  if (m.inner_norm_at(0)) text += ", norm before W_o";
  if (m.inner_norm_at(1)) text += ", norm before W_down";
  return text;
}

/// Returns true if all sublayers are like the first, and follow each other on one stream.
bool is_everywhere_alike(const ModelSpec& m) {
  for (int l = 0; l < m.sublayers(); ++l) {
    const SublayerRule rule = m.rule(l);
    const SublayerRule first = m.rule(0);
    if (rule.norm_a != first.norm_a || rule.norm_b != first.norm_b || rule.norm_c != first.norm_c) return false;
  }
  const auto has_inside = [](const LayerPlacement& range) {
    return range.qk_norm || range.v_norm || range.inner_norm || range.attention_gate;
  };
  const bool in_line = m.placement.wiring == Wiring::sequential || m.placement.wiring == Wiring::dual;
  return in_line && std::ranges::none_of(m.layer_placements, has_inside);
}

}  // namespace

std::string info_text(const Checkpoint& c, const Json& info) {
  const ModelSpec& m = c.model();
  const Json& placement = info.at("placement");
  std::string text;
  const auto line = [&](std::string_view key, const std::string& value) {
    text += fmt::format("{:<12}{}\n", key, value);
  };
  line("family", fmt::format("{} ({})", c.family().name, printable(info.at("architecture").get<std::string>())));
  line("placement",
       fmt::format("{}: {}, x⁺ = {}{}{}{}", m.placement.name, placement.at("letters").get<std::string>(),
                   placement.at("formula").get<std::string>(), m.final_norm ? ", final norm" : ", no final norm",
                   inside_of(m), is_everywhere_alike(m) ? "" : " in the first sublayer; others differ"));
  line("shape", fmt::format("{} layers, width {}, {} heads of {}{}, {} of {}", m.layers, m.width, m.heads, m.head_dim,
                            m.kv_heads == m.heads ? "" : fmt::format(" ({} for keys and values)", m.kv_heads),
                            mlp_kind_names[static_cast<std::size_t>(m.mlp)], m.mlp_width));
  line("norms", is_pointwise(m.norm)
                    ? fmt::format("{}, alpha {:g} at initialisation", facts_of(m.norm).title, m.norm_alpha)
                    : fmt::format("{}, eps {:g}", facts_of(m.norm).title, m.norm_eps));
  line("input", input_line(m));
  line("attention", m.causal ? "causal" : "both ways");
  for (const Json& rule : info.at("attention")) line("", attention_line(rule, m));
  line("head", head_line(c));
  std::vector<std::string> types;
  for (const auto& [type, count] : info.at("types").items()) types.push_back(fmt::format("{} {}", count.dump(), type));
  line("parameters", fmt::format("{:L} in {} tensors ({})", info.at("parameters").get<std::uint64_t>(), c.uses().size(),
                                 fmt::join(types, ", ")));
  text += "\nnorms\n" + names_text(info.at("names"), true) + "\nmatrices\n" + names_text(info.at("names"), false);
  if (!c.unused().empty()) {
    text += fmt::format("\nnot used: {} tensors, such as {}\n", c.unused().size(), printable(c.unused().front()));
  }
  if (!c.defaults().empty()) {
    text += "\nnot in config.json:";
    for (const auto& [key, value] : c.defaults()) text += fmt::format(" {} = {};", printable(key), printable(value));
    text.back() = '\n';
  }
  for (const Json& warning : info.at("warnings")) {
    text += "\nwarning: " + printable(warning.get<std::string>()) + "\n";
  }
  return dataset::within_table_width(text);
}

}  // namespace periscope::app
