#pragma once

#include "sim/checkpoint/families/llama_like.h"

namespace periscope {

/// What Gemma 2 and 3 have in common: Peri-LN with gains 1 + w, a gated MLP with tanh's GELU, embeddings times √D in
/// f32, scores times query_pre_attn_scalar^(−1/2). Reads all but what layers and heads differ in.
void read_gemma(ConfigReader& config, ModelSpec& model);
/// Names and head, which is the embedding's table.
void map_gemma(ConfigReader& config, const TensorNames& names, FamilyStack& stack);

/// query_pre_attn_scalar^(−1/2), or 0 (the plain scale) if that is the same.
double read_score_scale(ConfigReader& config, int head_dim);

nlohmann::ordered_json gemma_config(const ModelSpec& model, std::string_view model_type, std::string_view class_stem);

}  // namespace periscope
