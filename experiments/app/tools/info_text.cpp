#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

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

/// "layers 4, width 16": the fields of an object, of a flag its name, of a list its ends; without what is 0 or none.
std::string fields_of(const Json& object) {
  std::vector<std::string> words;
  for (const auto& [name, value] : object.items()) {
    if (value.empty() || value == 0 || value == false || value == "" || (value == "none" && name != "name")) continue;
    const Json& first = value.is_array() ? value.front() : value;
    words.push_back(name);
    if (first.is_string()) words.back() += " " + first.get<std::string>();
    if (first.is_number()) words.back() += fmt::format(" {:.6g}", first.get<double>());
    if (value.is_array()) words.back() += fmt::format(" to {:.6g}", value.back().get<double>());
  }
  return fmt::format("{}", fmt::join(words, ", "));
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
  std::string text;
  const auto line = [&](std::string_view key, const std::string& value) {
    text += fmt::format("{:<12}{}\n", key, value);
  };
  line("family", fmt::format("{} ({})", c.family().name, printable(info.at("architecture").get<std::string>())));
  line("placement",
       fields_of(info.at("placement")) + (is_everywhere_alike(m) ? "" : ", in the first sublayer; others differ"));
  line("shape", fields_of(info.at("shape")));
  line("mlp", info.at("mlp"));
  line("norms", is_pointwise(m.norm)
                    ? fmt::format("{}, alpha {:g} at initialisation", facts_of(m.norm).title, m.norm_alpha)
                    : fmt::format("{}, eps {:g}", facts_of(m.norm).title, m.norm_eps));
  line("embedding", fields_of(info.at("embedding")));
  line("attention", m.causal ? "causal" : "both ways");
  for (Json rule : info.at("attention")) {
    const std::vector<int> layers = rule.at("layers");
    rule.erase("layers");
    line("",
         fields_of(rule) + (std::ssize(layers) < m.layers ? fmt::format("  (layers {})", fmt::join(layers, " ")) : ""));
  }
  line("head", !m.unembedding ? "none: no logits"
                              : fmt::format("{} {}", c.tied() ? "the embedding's table" : "a matrix of its own",
                                            fields_of(info.at("head"))));
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
