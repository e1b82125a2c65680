#pragma once

#include <vector>

#include "experiments/studies/formats/formats.h"
#include "sim/backends.h"

/// Small stacks in number formats.
namespace periscope::testing {

inline const Backend& quick() {
  static const std::unique_ptr<Backend> backend = make_backend("cpu");
  return *backend;
}

/// Returns a configuration with two layers of width 32, SwiGLU, RoPE and gradients.
inline formats::FormatsConfig small_config(std::string_view placement, const std::vector<std::string>& format) {
  formats::FormatsConfig config;
  ModelSpec& m = config.base.model;
  m.layers = 2;
  m.width = 32;
  m.heads = m.kv_heads = 2;
  m.head_dim = 16;
  m.mlp_width = 64;
  m.vocab = 16;
  m.placement = *find_placement(placement);
  m.final_norm = m.placement.defaults.final_norm;
  config.base.init.scheme = InitScheme::lecun;
  config.base.input.tokens = 12;
  config.run.backward = true;
  config.format = format;
  return config;
}

/// Runs one seed of the configured stack and returns its measures.
inline formats::SeedReading reading_of(const formats::FormatsConfig& config, std::uint64_t seed = 0) {
  return formats::read_seed(config, formats::checked_formats(config), quick(), config.base, seed);
}

/// Returns a measured value; `sublayer` is -1 for the input.
inline double number_of(const formats::PassReading& pass, formats::Site site, formats::Measure measure, int sublayer) {
  return pass.numbers.at({site, measure}).at(static_cast<std::size_t>(sublayer + 1));
}

}  // namespace periscope::testing
