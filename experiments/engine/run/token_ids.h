#pragma once

#include <cstdint>
#include <vector>

#include "sim/spec/model_spec.h"

namespace periscope::stacks {

/// Returns the T token ids of a seed: empty for Gaussian input, uniform random ids for "tokens", the first T bytes of
/// the text for "text". Throws InputError for a text of fewer than T + 1 bytes, as the last byte is a label.
std::vector<int> token_ids(const StackSpec& spec, std::uint64_t seed);

/// Returns the T labels of a seed: the next bytes for "text", else uniform random ids below model.vocab, or below
/// model.width without an unembedding. Throws as token_ids does, and ConfigError for a byte that is not a valid label.
std::vector<int> label_ids(const StackSpec& spec, std::uint64_t seed);

// Return the distinct sequences of a run's seeds. Predictions average over them.
std::vector<std::vector<int>> distinct_token_ids(const StackSpec& spec, std::uint64_t seed, int seeds);
std::vector<std::vector<int>> distinct_label_ids(const StackSpec& spec, std::uint64_t seed, int seeds);

}  // namespace periscope::stacks
