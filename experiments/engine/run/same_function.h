#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/model/context.h"

/// How far two stacks are from one function, on tokens.
namespace periscope::stacks {

/// Random ids that a stack of token input can be run on: 32 of them, or as many as it has positions.
std::vector<int> ids_to_run(const ModelSpec& model, std::uint64_t seed);

/// The logits of every token, or the output of a stack without an unembedding.
std::vector<double> logits_of(const StackContext& context, std::span<const int> ids);

/// max |a − b| / max |a|; infinite where one of the differences is no number.
double relative_difference(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace periscope::stacks
