#include "sim/checkpoint/recipe.h"

#include <fmt/format.h>

#include <algorithm>

namespace periscope {
namespace {

/// Returns only the sizes (integer keys) of a written config.json and the keys that identify the kind of model.
nlohmann::json sizes_of(const nlohmann::ordered_json& written) {
  nlohmann::json sizes = nlohmann::json::object();
  for (const auto& [key, value] : written.items()) {
    const bool is_name = key == "model_type" || key == "architectures";
    if (is_name || value.is_number_integer()) sizes[key] = value;
  }
  return sizes;
}

/// Returns the second moment of the stack's input if every table has second moment 1.
double input_share(const ModelSpec& m) {
  const EmbeddingSpec& e = m.embedding;
  return e.scale * e.scale + (e.positions > 0 ? 1.0 : 0.0) + (e.token_types > 0 ? 1.0 : 0.0);
}

std::vector<std::string> extras_of(const FamilyStack& stack) {
  const ModelSpec& m = stack.model;
  std::vector<std::string> all;
  const auto has_window = [](const AttentionRule& r) { return r.scores.window > 0; };
  const auto has_cap = [](const AttentionRule& r) { return r.scores.soft_cap > 0; };
  const auto has_scale = [](const AttentionRule& r) { return r.scores.scale != 0.0; };
  const auto has_plain = [](const AttentionRule& r) { return std::ranges::count(r.rope_frequencies, 0.0) > 0; };
  const auto has_frequencies = [](const AttentionRule& r) { return !r.rope_frequencies.empty(); };
  if (const auto it = std::ranges::find_if(m.attention, has_window); it != m.attention.end()) {
    const bool every = std::ranges::all_of(m.attention, has_window);
    all.push_back(fmt::format("attention window {} in {} layers", it->scores.window, every ? "all" : "some"));
  }
  if (const auto it = std::ranges::find_if(m.attention, has_cap); it != m.attention.end()) {
    all.push_back(fmt::format("soft cap {:g} of scores", it->scores.soft_cap));
  }
  if (const auto it = std::ranges::find_if(m.attention, has_scale); it != m.attention.end()) {
    all.push_back(fmt::format("scores multiplied by {:g}", it->scores.scale));
  }
  if (std::ranges::any_of(m.attention, has_plain)) {
    all.emplace_back("features without RoPE");
  }
  if (std::ranges::any_of(m.attention, has_frequencies)) {
    const bool every = std::ranges::all_of(m.attention, has_frequencies);
    all.push_back(fmt::format("other RoPE frequencies in {} layers", every ? "all" : "some"));
  }
  if (m.head.scale != 1.0) all.push_back(fmt::format("logits multiplied by {:g}", m.head.scale));
  if (m.head.soft_cap > 0.0) all.push_back(fmt::format("soft cap {:g} of logits", m.head.soft_cap));
  if (m.head.transform) all.emplace_back("a transform before the unembedding");
  if (m.embedding.positions > 0) all.emplace_back("learned positions, included only in input.second_moment");
  if (stack.map.find(bias_of(matrix_id(0, Weight::q))) != nullptr) all.emplace_back("biases, which start at 0");
  if (stack.tied) all.emplace_back("an unembedding tied to the embedding");
  return all;
}

}  // namespace

Recipe recipe_of(const Family& family, int width) {
  ModelSpec sizes;
  sizes.width = width;
  sizes.heads = sizes.kv_heads = 1;
  ConfigReader reader(sizes_of(family.write(sizes)), "config.json");
  FamilyStack stack;
  try {
    stack = family.read(reader, written_names(family, true));
  } catch (const InputError& error) {
    throw ConfigError(fmt::format("model.recipe = \"{}\": the family does not support model.width = {}: {}",
                                  family.name, width, error.what()));
  }
  return {
      .model = stack.model,
      .init_std = family.init_std,
      .init_residual = family.init_residual == "1" ? 1.0 : *DepthExpression::parse(std::string(family.init_residual)),
      .second_moment = family.init_std * family.init_std * input_share(stack.model),
      .extras = extras_of(stack)};
}

double input_second_moment(const ModelSpec& model, double std, std::optional<double> position_std) {
  if (!position_std) return std * std * input_share(model);
  const double positions = model.embedding.positions > 0 ? 1.0 : 0.0;
  return std * std * (input_share(model) - positions) + *position_std * *position_std;
}

double table_second_moment(const ModelSpec& model, double second_moment) { return second_moment / input_share(model); }

}  // namespace periscope
