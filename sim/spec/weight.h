#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "sim/spec/model_spec.h"

namespace periscope {

/// The matrices of a stack. The numbers key the random streams: never renumber.
enum class Weight : std::uint32_t { q, k, v, o, gate, up, down, embedding, unembedding };

inline constexpr std::array<std::string_view, 9> weight_names{"q",  "k",    "v",         "o",          "gate",
                                                              "up", "down", "embedding", "unembedding"};

/// A matrix maps fan_in features to fan_out: y = x Wᵀ with W [fan_out, fan_in].
struct WeightShape {
  int fan_out;
  int fan_in;
};

WeightShape shape_of(const ModelSpec& model, Weight weight);

/// Standard deviation of the entries of `weight` as `init` and the placement (DeepNorm) set it.
/// The embedding table is an input, not a map: its standard deviation is √input.second_moment.
double stddev_of(const StackSpec& spec, Weight weight);

}  // namespace periscope
