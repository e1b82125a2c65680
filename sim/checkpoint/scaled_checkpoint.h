#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "sim/checkpoint/checkpoint.h"

namespace periscope {

/// What was done to a checkpoint's tensors.
struct ScaledTensors {
  int tensors = 0;  ///< that were multiplied
  /// A tensor with a number that its type does not hold was written in the next of f32 and f64 that holds all.
  struct Widened {
    std::string tensor;
    SafetensorsType from, to;
  };
  std::vector<Widened> widened;
  std::uint64_t rounded = 0;  ///< numbers that are no double: of gains that are stored as w of 1 + w
};

/// The factor of a parameter; a power of two.
using FactorOfParameter = std::function<double(const ParameterId&)>;

/// Writes a checkpoint's tensors, every parameter times its factor, into `folder`, as model.safetensors beside
/// `config`. What has the factor 1, and what is no parameter, keeps its bytes; nothing is rounded but what
/// ScaledTensors counts. Memory holds one tensor in double. Throws ConfigError for a factor of a gain that is not
/// stored, and as OutputFolder does; InputError as TensorFiles does.
ScaledTensors write_scaled(const std::string& folder, const Checkpoint& checkpoint, const nlohmann::json& config,
                           const FactorOfParameter& factor, bool overwrite);

/// config.json with another ε of the norms, if the family has a key for it.
std::optional<nlohmann::json> config_with_eps(const Checkpoint& checkpoint, double eps);

}  // namespace periscope
