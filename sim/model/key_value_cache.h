#pragma once

#include <span>
#include <vector>

#include "sim/model/context.h"

namespace periscope {

/// Keys and values of one layer; the first KeyValueCache::tokens() rows are in use.
struct KeysAndValues {
  Tensor k;  ///< keys after QK-norm and RoPE [capacity, kv_heads·head_dim]
  Tensor v;
};

/// Keys and values of a growing sequence. In a causal model they do not depend on later tokens. Rows of a matrix
/// product are independent, so a pass over new tokens gives the same bits as a pass over all tokens.
class KeyValueCache {
 public:
  KeyValueCache(int layers, Tensor::Index capacity) : layers_(static_cast<std::size_t>(layers)), capacity_(capacity) {}

  /// Number of tokens whose keys and values are cached in every layer; the position of the next pass's first token.
  [[nodiscard]] Tensor::Index tokens() const { return tokens_; }
  /// Appends keys and values, overwriting the rows of an unfinished pass. Throws std::length_error if full.
  const KeysAndValues& extend(const Backend& ops, int layer, const Tensor& k, const Tensor& v);
  /// Ends a pass over `tokens` tokens, whose rows are then in use.
  void advance(Tensor::Index tokens) { tokens_ += tokens; }

 private:
  std::vector<KeysAndValues> layers_;
  Tensor::Index capacity_;
  Tensor::Index tokens_ = 0;
};

/// Appends `ids` to the cached tokens and returns the logits [1, V] after the last one. Throws std::invalid_argument if
/// `ids` is empty, the model is not causal, or there are several sequences.
Tensor next_logits(const StackContext& context, KeyValueCache& cache, std::span<const int> ids);

}  // namespace periscope
