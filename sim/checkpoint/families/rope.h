#pragma once

#include <vector>

#include "sim/checkpoint/config_reader.h"

namespace periscope {

/// RoPE's frequencies for a head of `head_dim`, from rope_parameters (files since transformers 5), or rope_theta and
/// rope_scaling (older ones): types default, linear (all divided by factor) and llama3 (long waves divided by factor,
/// short ones not, those between interpolated). Refuses other types, and two spellings that differ.
/// `context`: max_position_embeddings, llama3's original length if nothing else says it.
std::vector<double> read_rope(ConfigReader& config, int head_dim, double fallback_theta, int context);

/// The same from the object that holds rope_type and its numbers, with the theta to use if it has none.
std::vector<double> read_rope_object(ConfigReader& rope, int head_dim, double fallback_theta, int context);

/// base^(−2i/head_dim)/divisor.
std::vector<double> scaled_frequencies(int head_dim, double base, double divisor = 1.0);

}  // namespace periscope
