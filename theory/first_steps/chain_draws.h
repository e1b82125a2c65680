#pragma once

#include <algorithm>
#include <cstdint>

#include "sim/spec/model_spec.h"
#include "sim/spec/weight.h"
#include "theory/kernels/normal_stream.h"

namespace periscope::theory {

/// Random numbers of one chain, and how many hidden channels of a module it draws.
struct ChainDraws {
  int neurons = 1024;  ///< most drawn rows of one matrix
  std::uint64_t seed = 0;
  std::uint64_t replicate = 0;

  enum class Use : std::uint64_t { table, module, forward, remainder, backward, last, other };
  /// Returns the random numbers of one use of one matrix of a sublayer, the same at every call; the table and the
  /// unembedding have sublayer 2L.
  [[nodiscard]] NormalStream numbers(int sublayer, Use use, int matrix = 0) const {
    const auto name = (static_cast<std::uint64_t>(use) << 8U) + static_cast<std::uint64_t>(matrix);
    return NormalStream({seed, replicate, (1ULL << 60U) + (static_cast<std::uint64_t>(sublayer) << 32U) + name});
  }
  /// Number of hidden channels drawn of an MLP.
  [[nodiscard]] int hidden(const ModelSpec& m) const { return std::min(neurons, m.mlp_width); }
  /// Number of key/value groups drawn of an attention.
  [[nodiscard]] int groups(const ModelSpec& m) const {
    return std::min(m.kv_heads, std::max(1, neurons * m.kv_heads / m.query_width()));
  }
};

}  // namespace periscope::theory
