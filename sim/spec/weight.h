#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "sim/spec/model_spec.h"

namespace periscope {

/// The matrices of a stack. The numbers key the random streams: never renumber.
enum class Weight : std::uint32_t {
  q,
  k,
  v,
  o,
  gate,
  up,
  down,
  embedding,
  unembedding,
  positions,    ///< learned position table
  token_types,  ///< token-type table
  project_in,   ///< from the embedding table's width to the stack's
  project_out,  ///< from the stack's width to the unembedding's
  head_dense,   ///< of BERT's head transform
};

inline constexpr std::array<std::string_view, 14> weight_names{
    "q",         "k",           "v",         "o",           "gate",       "up",          "down",
    "embedding", "unembedding", "positions", "token_types", "project_in", "project_out", "head_dense"};

/// The matrices that every layer has: q … down.
[[nodiscard]] constexpr bool is_of_layer(Weight weight) { return weight <= Weight::down; }
/// Tables, of which rows are looked up.
[[nodiscard]] constexpr bool is_table(Weight weight) {
  return weight == Weight::embedding || weight == Weight::positions || weight == Weight::token_types;
}

/// The norms of a stack: A, B, C of a sublayer, QK-norms of an attention sublayer, the stack's own, and that of
/// BERT's head transform.
enum class NormSite { a, b, c, q, k, embedding, final, head };

/// A matrix maps fan_in features to fan_out: y = x Wᵀ with W [fan_out, fan_in].
struct WeightShape {
  int fan_out;
  int fan_in;
};

WeightShape shape_of(const ModelSpec& model, Weight weight);

/// Standard deviation of the entries of `weight` as `init` and the placement (DeepNorm) set it.
/// Tables are inputs, not maps: their standard deviation is √input.second_moment.
double stddev_of(const StackSpec& spec, Weight weight);

}  // namespace periscope
