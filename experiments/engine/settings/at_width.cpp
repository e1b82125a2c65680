#include "experiments/engine/settings/at_width.h"

#include <fmt/format.h>

#include "sim/base/error.h"

namespace periscope::config {
namespace {

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

StackSpec at_width(StackSpec spec, int width, std::string_view key) {
  ModelSpec& m = spec.model;
  m.heads = in_proportion("model.heads", key, m.heads, width, m.width);
  m.kv_heads = in_proportion("model.kv_heads", key, m.kv_heads, width, m.width);
  m.mlp_width = in_proportion("model.mlp_width", key, m.mlp_width, width, m.width);
  m.width = width;
  validate(spec);
  return spec;
}

}  // namespace periscope::config
