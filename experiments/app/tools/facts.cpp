#include "experiments/app/tools/facts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "sim/checkpoint/finite_weights.h"
#include "sim/model/parameters.h"

namespace periscope::app {
namespace {

/// "model.layers.{i}.mlp" from "model.layers.0.mlp".
std::string pattern(std::string name) {
  const std::size_t at = name.find(".0.");
  if (at != std::string::npos) {
    name.replace(at, 3, ".{i}.");
  } else if (name.starts_with("h.0.") || name.starts_with("layers.0.")) {
    name.replace(name.find(".0.") + 1, 1, "{i}");
  }
  return name;
}

}  // namespace

std::string letters_of(const SublayerRule& rule) {
  std::vector<std::string_view> letters;
  if (rule.norm_a) letters.emplace_back("A");
  if (rule.norm_b) letters.emplace_back("B");
  if (rule.norm_c) letters.emplace_back("C");
  return fmt::format("{}", fmt::join(letters, " "));
}

std::string formula_of(const SublayerRule& rule) {
  std::string branch = rule.norm_a ? "f(A(x))" : "f(x)";
  if (rule.norm_b) branch = "B(" + branch + ")";
  return rule.norm_c ? "C(x + " + branch + ")" : "x + " + branch;
}

std::vector<RuleGroup> rules_of(const ModelSpec& m) {
  std::vector<RuleGroup> groups;
  const double plain = 1.0 / std::sqrt(static_cast<double>(m.head_dim));
  for (int layer = 0; layer < m.layers; ++layer) {
    ScoreRule scores = m.scores_at(layer);
    if (scores.scale == 0.0) scores.scale = plain;
    std::vector<double> frequencies = m.rope_frequencies_at(layer);
    const auto same = [&](const RuleGroup& g) {
      return g.scores.scale == scores.scale && g.scores.soft_cap == scores.soft_cap &&
             g.scores.window == scores.window && g.frequencies == frequencies;
    };
    const auto found = std::ranges::find_if(groups, same);
    if (found == groups.end()) {
      groups.push_back({scores, std::move(frequencies), {layer}});
    } else {
      found->layers.push_back(layer);
    }
  }
  return groups;
}

std::map<std::string, int> types_of(const Checkpoint& c) {
  std::map<std::string, int> types;
  for (const auto& [tensor, uses] : c.uses()) ++types[name_of(c.files().find(tensor).type)];
  return types;
}

std::uint64_t parameters_of(const Checkpoint& c) {
  std::uint64_t count = 0;
  for (const auto& [tensor, uses] : c.uses()) count += count_of(c.files().find(tensor));
  return count;
}

std::string architecture_of(const Checkpoint& c) {
  const auto it = c.config().find("architectures");
  return it == c.config().end() || it->is_null() ? "not said" : it->at(0).get<std::string>();
}

std::vector<std::string> warnings_of(const Checkpoint& c, stacks::Progress& progress) {
  constexpr std::uint64_t many = 1 << 26;  // numbers, about half a second
  std::vector<std::string> all = c.warnings();
  const std::uint64_t count = parameters_of(c);
  if (count < many) {
    if (const std::optional<std::string> bad = find_non_finite_weight(c)) all.push_back(*bad);
    return all;
  }
  constexpr std::uint64_t million = 1'000'000;
  progress.begin("reading weights (million numbers)", static_cast<std::int64_t>(count / million));
  std::uint64_t read = 0;
  const auto after_block = [&](std::uint64_t numbers) {
    const auto before = read / million;
    read += numbers;
    progress.step("", static_cast<int>(read / million - before));
  };
  if (const auto bad = find_non_finite_weight(c, {}, after_block)) all.push_back(*bad);
  return all;
}

std::vector<NameRow> name_map_of(const Checkpoint& c) {
  std::map<std::string, StoredPart> by_parameter;
  for (const auto& [tensor, uses] : c.uses()) {
    for (const ParameterMap::Use& use : uses) by_parameter[name_of(use.parameter)] = use.part;
  }
  std::vector<NameRow> rows;
  const auto add = [&](const std::string& parameter) {
    const auto it = by_parameter.find(parameter);
    if (it == by_parameter.end()) return;
    StoredPart part = it->second;
    const bool of_layer = parameter.starts_with("layers.");
    if (of_layer) part.tensor = pattern(part.tensor);
    rows.push_back({of_layer ? pattern(parameter) : parameter, std::move(part)});
  };
  for (const ParameterId& gain : gains_of(c.model())) {
    if (gain.sublayer > 1) continue;
    add(name_of(gain));
    add(name_of(bias_of(gain)));
    add(name_of(alpha_of(gain)));
  }
  for (const ParameterId& matrix : matrices_of(token_stack(c.model()))) {
    if (matrix.layer() > 0) continue;
    add(name_of(matrix));
    add(name_of(bias_of(matrix)));
  }
  return rows;
}

}  // namespace periscope::app
