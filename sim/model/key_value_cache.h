#pragma once

#include <span>
#include <vector>

#include "sim/model/context.h"

namespace periscope {

/// The keys and values of one layer: rows 0 … of the tokens so far.
struct KeysAndValues {
  Tensor k;  ///< after QK-norm and RoPE [capacity, kv_heads·head_dim]
  Tensor v;
};

/// The keys and values of a growing sequence. In a causal model those of a token do not depend on later tokens, so that
/// a pass over new tokens gives the bits of a pass over all: rows of a matrix product are independent.
class KeyValueCache {
 public:
  KeyValueCache(int layers, Tensor::Index capacity) : layers_(static_cast<std::size_t>(layers)), capacity_(capacity) {}

  /// Tokens whose keys and values every layer has: the position of the next pass's first token.
  [[nodiscard]] Tensor::Index tokens() const { return tokens_; }
  /// Appends the pass's keys and values, overwriting those of an unfinished pass. Throws std::length_error if full.
  const KeysAndValues& extend(const Backend& ops, int layer, const Tensor& k, const Tensor& v);
  /// Ends a pass over `tokens` tokens.
  void advance(Tensor::Index tokens) { tokens_ += tokens; }

 private:
  std::vector<KeysAndValues> layers_;
  Tensor::Index capacity_;
  Tensor::Index tokens_ = 0;
};

/// Logits [1, V] after the last of `ids`, which are appended to the tokens of the cache. Throws std::invalid_argument
/// for no token, a model that is not causal, and several sequences.
Tensor next_logits(const StackContext& context, KeyValueCache& cache, std::span<const int> ids);

}  // namespace periscope
