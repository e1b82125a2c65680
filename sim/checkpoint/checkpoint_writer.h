#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "sim/checkpoint/checkpoint.h"
#include "sim/core/backend.h"

namespace periscope {

/// Describes how a folder holds a stack: its config.json, and the tensors of the parameters.
struct CheckpointLayout {
  nlohmann::json config;
  ModelSpec model;
  ParameterMap map;
};

/// The layout of a family for a stack of these sizes, norms and modules. The family adds to `wanted` what it always
/// has and `wanted` leaves at the plain stack's values: an embedding scale, learned positions (1024), token types,
/// a head transform, a default RoPE. Embedding and unembedding are two tensors. Throws ConfigError that names the key
/// for what the family cannot express: config.json is written, read again, and compared.
[[nodiscard]] CheckpointLayout layout_for(const Family& family, const ModelSpec& wanted);

/// The layout of a checkpoint that exists, to write other weights in it.
[[nodiscard]] CheckpointLayout layout_of(const Checkpoint& checkpoint);

/// Writes config.json and model.safetensors into `folder`, one tensor at a time. `type` is f64 or f32; a bias that the
/// layout has and the weights do not is 0. Gains that are stored as w of 1 + w lose the bits that 1 + w rounds away;
/// all else comes back to the bit if `type` holds what the weights are computed in. Throws as OutputFolder does, for a
/// model that is there without `overwrite` among others, and Error (run-time failure) for one tensor that is two
/// different matrices.
void write_checkpoint(const std::string& folder, const CheckpointLayout& layout, const Backend& backend,
                      const WeightSource& weights, SafetensorsType type, bool overwrite = false);

}  // namespace periscope
