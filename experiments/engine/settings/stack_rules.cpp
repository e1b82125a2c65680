#include "experiments/engine/settings/stack_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "sim/base/error.h"
#include "sim/base/printable.h"
#include "sim/model/parameters.h"

namespace periscope::config {
namespace {

constexpr double largest_draw = 6.34;  // of unit_normal, sim/random/unit_normal.h

/// Returns the key that makes an initial matrix large, and its value: the largest factor of its standard deviation.
std::pair<std::string, std::string> largest_key(const StackSpec& spec, const ParameterId& id) {
  const InitSpec& init = spec.init;
  const bool writes = id.weight == Weight::o || id.weight == Weight::down;
  const bool scores = id.weight == Weight::q || id.weight == Weight::k;
  const double residual = init.residual.at(spec.model.step_with(id.sublayer), spec.model.layers);
  if (id.weight == Weight::unembedding && init.head_std) return {"init.head_std", fmt::format("{:g}", *init.head_std)};
  std::vector<std::pair<double, std::string>> keys;
  if (init.scheme == InitScheme::normal) keys.emplace_back(init.std, "init.std");
  if (init.scheme == InitScheme::scaled) keys.emplace_back(init.factor, "init.factor");
  if (scores) keys.emplace_back(init.qk_factor, "init.qk_factor");
  if (id.weight == Weight::o) keys.emplace_back(init.o_factor, "init.o_factor");
  if (id.weight == Weight::down) keys.emplace_back(init.down_factor, "init.down_factor");
  if (writes) keys.emplace_back(residual, "init.residual");
  const auto [value, key] = *std::ranges::max_element(keys);
  const std::string& text = init.residual.text();
  return {key, key == "init.residual" && !text.empty() ? fmt::format("\"{}\"", shortened(text))
                                                       : fmt::format("{:g}", value)};
}

int in_proportion(std::string_view key, std::string_view list, int value, int width, int base_width) {
  const long scaled = static_cast<long>(value) * width;
  if (scaled % base_width != 0) {
    throw ConfigError(fmt::format("{}: at width {} {} would be {}/{}; expected a whole number", list, width, key,
                                  scaled, base_width));
  }
  constexpr long most = 1 << 20;
  if (scaled / base_width > most) {
    throw ConfigError(fmt::format("{}: at width {} {} would be {}; expected at most {}", list, width, key,
                                  scaled / base_width, most));
  }
  return static_cast<int>(scaled / base_width);
}

}  // namespace

void require_dividing_norms(const std::vector<StackSpec>& stacks, std::string_view why) {
  for (const StackSpec& spec : stacks) {
    const NormKind kind = spec.model.norm;
    if (!is_pointwise(kind)) continue;
    std::string expected;
    for (std::size_t i = 0; i < norm_kind_names.size(); ++i) {
      if (is_pointwise(static_cast<NormKind>(i))) continue;
      expected += fmt::format("{}\"{}\"", expected.empty() ? "" : ", ", norm_kind_names[i]);
    }
    throw ConfigError(fmt::format("model.norm = \"{}\": expected one of {}: {}", facts_of(kind).name, expected, why));
  }
}

bool has_single_additions(const ModelSpec& model) {
  for (int s = 0; s < model.steps(); ++s) {
    if (!model.step(s).is_one_addition()) return false;
  }
  return model.ends().parts_of_stream() == 1;
}

void require_single_additions(const std::vector<StackSpec>& stacks, std::string_view why) {
  for (const StackSpec& spec : stacks) {
    if (has_single_additions(spec.model)) continue;
    throw ConfigError(fmt::format(
        "model.placement = \"{}\": expected a placement of one module at a time on one stream, as \"pre\": {}",
        spec.model.placement.name, why));
  }
}

StackSpec at_width(StackSpec spec, int width, std::string_view key) {
  ModelSpec& m = spec.model;
  m.heads = in_proportion("model.heads", key, m.heads, width, m.width);
  m.kv_heads = in_proportion("model.kv_heads", key, m.kv_heads, width, m.width);
  m.mlp_width = in_proportion("model.mlp_width", key, m.mlp_width, width, m.width);
  m.width = width;
  validate(spec);
  return spec;
}

void require_finite_weights(const StackSpec& spec, DType dtype) {
  const double largest = format_of(dtype).largest;
  const auto fail = [&](std::string_view key, const std::string& value, const std::string& what, double found,
                        double most) {
    throw ConfigError(fmt::format("{} = {}: expected initial weights that {} can hold; {} = {:.3g}, at most {:.2g}",
                                  key, value, name_of(dtype), what, found, most));
  };
  const double most = largest / largest_draw;
  for (const ParameterId& id : matrices_of(spec)) {
    if (is_table(id.weight)) continue;
    const double stddev = stddev_of(spec, id.layer(), id.weight);
    if (stddev <= most) continue;
    const auto [key, value] = largest_key(spec, id);
    fail(key, value, "the standard deviation of " + name_of(id), stddev, most);
  }
  const auto require_table = [&](std::string_view key, double value, double stddev) {
    if (!(stddev <= most)) fail(key, fmt::format("{:g}", value), "the standard deviation", stddev, most);
  };
  const InitSpec& init = spec.init;
  if (init.embedding_std) require_table("init.embedding_std", *init.embedding_std, *init.embedding_std);
  if (init.position_std) require_table("init.position_std", *init.position_std, *init.position_std);
  const double moment = spec.input.second_moment;
  require_table("input.second_moment", moment, std::sqrt(moment));
  const double gamma = spec.model.gamma;
  if (!(std::abs(gamma) <= largest)) {
    fail("model.gamma", fmt::format("{:g}", gamma), "its size", std::abs(gamma), largest);
  }
}

}  // namespace periscope::config
