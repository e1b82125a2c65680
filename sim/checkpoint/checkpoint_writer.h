#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "sim/checkpoint/checkpoint.h"
#include "sim/core/backend.h"

namespace periscope {

/// A stack's config.json, and the tensors of its parameters.
struct CheckpointLayout {
  nlohmann::json config;
  ModelSpec model;
  ParameterMap map;
};

/// A family's layout for a stack, with the family's embedding scale, learned positions (1024), token types and head
/// transform where `wanted` has the plain stack's values. Embedding and unembedding are two tensors. Throws ConfigError
/// naming the key that the family cannot express: config.json is written, read again, and compared.
[[nodiscard]] CheckpointLayout layout_for(const Family& family, const ModelSpec& wanted);

/// Writes config.json and model.safetensors into `folder`, one tensor at a time. `type` is f64 or f32; a bias that the
/// weights lack is 0. Gains stored as w of 1 + w lose the bits that 1 + w rounds away; all else is exact if `type`
/// holds the weights' dtype. Throws as OutputFolder, and Error (run-time failure) if one tensor is two different
/// matrices.
void write_checkpoint(const std::string& folder, const CheckpointLayout& layout, const Backend& backend,
                      const WeightSource& weights, SafetensorsType type, bool overwrite = false);

}  // namespace periscope
