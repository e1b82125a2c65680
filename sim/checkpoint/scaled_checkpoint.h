#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "sim/checkpoint/checkpoint.h"

namespace periscope {

struct ScaledTensors {
  int tensors = 0;  ///< number of scaled tensors
  /// A tensor written as f32 or f64 because its original type cannot represent every scaled number.
  struct Widened {
    std::string tensor;
    SafetensorsType from, to;
  };
  std::vector<Widened> widened;
  std::uint64_t rounded = 0;  ///< number of inexact results; only gains stored as gain − 1 can be inexact
};

/// Returns the factor of a parameter, a power of two.
using FactorOfParameter = std::function<double(const ParameterId&)>;

/// Writes a checkpoint into `folder` with every parameter multiplied by its factor and `config` as config.json. Tensors
/// with factor 1 or without parameters are copied unchanged. Results are exact, except for the gains counted in
/// ScaledTensors::rounded. Needs memory for one tensor in double precision. Throws ConfigError for a factor of an
/// implicit gain; otherwise throws like OutputFolder and TensorFiles.
ScaledTensors write_scaled(const std::string& folder, const Checkpoint& checkpoint, const nlohmann::json& config,
                           const FactorOfParameter& factor, bool overwrite);

/// Returns config.json with a different norm ε; nullopt if the family has no key for it.
std::optional<nlohmann::json> config_with_eps(const Checkpoint& checkpoint, double eps);

}  // namespace periscope
