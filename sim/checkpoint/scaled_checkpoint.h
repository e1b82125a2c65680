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
  int tensors = 0;  ///< that were multiplied
  /// A tensor written in f32 or f64 because its own type cannot hold some number.
  struct Widened {
    std::string tensor;
    SafetensorsType from, to;
  };
  std::vector<Widened> widened;
  std::uint64_t rounded = 0;  ///< inexact numbers: gains that are stored as w of 1 + w
};

/// The factor of a parameter; a power of two.
using FactorOfParameter = std::function<double(const ParameterId&)>;

/// Writes a checkpoint, every parameter times its factor, into `folder`, with `config` as config.json. Tensors with the
/// factor 1 or without parameters keep their bytes; only ScaledTensors::rounded numbers are rounded. Memory holds one
/// tensor in double. Throws ConfigError for a factor of a gain that is not stored, and as OutputFolder and TensorFiles.
ScaledTensors write_scaled(const std::string& folder, const Checkpoint& checkpoint, const nlohmann::json& config,
                           const FactorOfParameter& factor, bool overwrite);

/// config.json with another ε of the norms, if the family has a key for it.
std::optional<nlohmann::json> config_with_eps(const Checkpoint& checkpoint, double eps);

}  // namespace periscope
