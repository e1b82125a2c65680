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

constexpr double largest_draw = 6.34;  // largest value of unit_normal (sim/random/unit_normal.h)

/// Returns the key with the largest effect on the standard deviation of an initial matrix, and its value.
std::pair<std::string_view, std::string> largest_key(const StackSpec& spec, const ParameterId& id) {
  const InitSpec& init = spec.init;
  if (id.weight == Weight::unembedding && init.head_std) return {"init.head_std", fmt::format("{:g}", *init.head_std)};
  const bool qk = id.weight == Weight::q || id.weight == Weight::k;
  const bool o = id.weight == Weight::o, down = id.weight == Weight::down;
  const double residual = o || down ? init.residual.at(spec.model.step_with(id.sublayer), spec.model.layers) : 0.0;
  const std::pair<double, std::string_view> keys[] = {
      {init.scheme == InitScheme::normal ? init.std : 0.0, "init.std"},
      {init.scheme == InitScheme::scaled ? init.factor : 0.0, "init.factor"},
      {qk ? init.qk_factor : 0.0, "init.qk_factor"},
      {o ? init.o_factor : 0.0, "init.o_factor"},
      {down ? init.down_factor : 0.0, "init.down_factor"},
      {residual, "init.residual"}};
  const auto [value, key] = *std::ranges::max_element(keys);
  const bool is_expression = key == "init.residual" && !init.residual.number();
  return {key, is_expression ? fmt::format("\"{}\"", shortened(init.residual.text())) : fmt::format("{:g}", value)};
}

int in_proportion(std::string_view key, int value, int width, int base_width) {
  constexpr long most = 1 << 20;
  const long scaled = static_cast<long>(value) * width;
  if (scaled % base_width != 0 || scaled / base_width > most) {
    throw ConfigError(fmt::format("ladder.widths: width {} makes {} = {}/{}; expected a whole number of at most {}",
                                  width, key, scaled, base_width, most));
  }
  return static_cast<int>(scaled / base_width);
}

}  // namespace

void require_dividing_norms(const std::vector<StackSpec>& stacks, std::string_view why) {
  for (const StackSpec& spec : stacks) {
    if (!is_pointwise(spec.model.norm)) continue;
    throw ConfigError(fmt::format("model.norm = \"{}\": expected a norm that is not pointwise, such as \"rms\": {}",
                                  facts_of(spec.model.norm).name, why));
  }
}

bool has_single_additions(const ModelSpec& model) {
  int step = 0;
  while (step < model.steps() && model.step(step).is_one_addition()) ++step;
  return step == model.steps() && model.ends().parts_of_stream() == 1;
}

void require_single_additions(const std::vector<StackSpec>& stacks, std::string_view why) {
  for (const StackSpec& spec : stacks) {
    if (has_single_additions(spec.model)) continue;
    throw ConfigError(fmt::format(
        "model.placement = \"{}\": expected a placement with one module per step and one stream, such as \"pre\": {}",
        spec.model.placement.name, why));
  }
}

StackSpec at_width(StackSpec spec, int width) {
  ModelSpec& m = spec.model;
  m.heads = in_proportion("model.heads", m.heads, width, m.width);
  m.kv_heads = in_proportion("model.kv_heads", m.kv_heads, width, m.width);
  m.mlp_width = in_proportion("model.mlp_width", m.mlp_width, width, m.width);
  m.width = width;
  validate(spec);
  return spec;
}

void require_finite_weights(const StackSpec& spec, DType dtype) {
  const double largest = format_of(dtype).largest;
  const double most_std = largest / largest_draw;
  const auto require = [&](std::string_view key, const std::string& value, const std::string& what, double found,
                           double most) {
    if (found <= most) return;
    throw ConfigError(
        fmt::format("{} = {}: expected initial weights in the range of {}: {} at most {:.2g}, found {:.3g}", key, value,
                    name_of(dtype), what, most, found));
  };
  for (const ParameterId& id : matrices_of(spec)) {
    if (is_table(id.weight)) continue;
    const double stddev = stddev_of(spec, id.layer(), id.weight);
    if (stddev <= most_std) continue;
    const auto [key, value] = largest_key(spec, id);
    require(key, value, "standard deviation of " + name_of(id), stddev, most_std);
  }
  const auto require_table = [&](std::string_view key, double value, double stddev) {
    require(key, fmt::format("{:g}", value), "standard deviation", stddev, most_std);
  };
  const double embedding = spec.init.embedding_std.value_or(0.0), positions = spec.init.position_std.value_or(0.0);
  const double moment = spec.input.second_moment;
  require_table("init.embedding_std", embedding, embedding);
  require_table("init.position_std", positions, positions);
  require_table("input.second_moment", moment, std::sqrt(moment));
  require("model.gamma", fmt::format("{:g}", spec.model.gamma), "absolute value", std::abs(spec.model.gamma), largest);
}

}  // namespace periscope::config
