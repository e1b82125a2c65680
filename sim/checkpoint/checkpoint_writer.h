#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "sim/checkpoint/checkpoint.h"
#include "sim/core/backend.h"

namespace periscope {

/// config.json of a stack, and the tensors of its parameters.
struct CheckpointLayout {
  nlohmann::json config;
  ModelSpec model;
  ParameterMap map;
  std::vector<std::string> layer_scales =
      {};  ///< names of the layers' factors; written as 1 if model.layer_scales is empty
};

/// Returns a family's layout for a stack. The family's embedding scale, learned positions (1024), token types, head
/// transform and scale of attention scores replace default values of `wanted`. Embedding and unembedding are separate
/// tensors. Throws ConfigError, which names the key, if the family does not support the stack: config.json is written,
/// read back and compared.
[[nodiscard]] CheckpointLayout layout_for(const Family& family, const ModelSpec& wanted);

/// Writes config.json and model.safetensors into `folder`, one tensor at a time. `type` is f64 or f32; missing biases
/// are written as 0. Gains g that are stored as g − 1 are rounded by the subtraction; all other values are exact if
/// `type` can represent the weights' dtype. Throws like OutputFolder; also throws Error (run-time failure) if
/// parameters that share a tensor have different values.
void write_checkpoint(const std::string& folder, const CheckpointLayout& layout, const Backend& backend,
                      const WeightSource& weights, SafetensorsType type, bool overwrite = false);

}  // namespace periscope
