#pragma once

#include <cstdint>
#include <vector>

#include "sim/spec/model_spec.h"

namespace periscope::stacks {

/// Returns the T token ids that seed `seed` reads: none for Gaussian input, uniform random ids for "tokens", the first
/// T bytes of the text for "text". Throws InputError for a text of fewer than T + 1 bytes (the last byte is the last
/// label).
std::vector<int> token_ids(const StackSpec& spec, std::uint64_t seed);

/// Returns the T labels of seed `seed`: the next bytes for "text", else uniform random ids below model.vocab, or below
/// model.width without an unembedding. Throws as token_ids does, and ConfigError for a byte that is no label.
std::vector<int> label_ids(const StackSpec& spec, std::uint64_t seed);

/// Returns the distinct sequences of a run's seeds, over which predictions average.
std::vector<std::vector<int>> distinct_token_ids(const StackSpec& spec, std::uint64_t seed, int seeds);
std::vector<std::vector<int>> distinct_label_ids(const StackSpec& spec, std::uint64_t seed, int seeds);

}  // namespace periscope::stacks
