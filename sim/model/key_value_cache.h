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

/// The keys and values of a sequence that grows: in a causal model those of a token do not depend on later tokens, so
/// that a pass over the new ones alone gives what a pass over all would give for them. A row of a matrix product does
/// not depend on the other rows, and attention sums over the same tokens.
class KeyValueCache {
 public:
  /// Room for so many tokens.
  KeyValueCache(int layers, Tensor::Index capacity) : layers_(static_cast<std::size_t>(layers)), capacity_(capacity) {}

  /// Tokens whose keys and values every layer has: the position of the next pass's first token.
  [[nodiscard]] Tensor::Index tokens() const { return tokens_; }
  /// The pass's own keys and values are put behind those of the tokens so far; what an earlier pass put there that did
  /// not come to its end is overwritten. Throws std::length_error if there is no room.
  const KeysAndValues& extend(const Backend& ops, int layer, const Tensor& k, const Tensor& v);
  /// A pass over so many tokens has ended.
  void advance(Tensor::Index tokens) { tokens_ += tokens; }

 private:
  std::vector<KeysAndValues> layers_;
  Tensor::Index capacity_;
  Tensor::Index tokens_ = 0;
};

/// Logits [1, V] after the last of `ids`, which follow the tokens of the cache, and from then on belong to it. They
/// are those of a pass over all tokens. Throws std::invalid_argument for no token, for a model that is not causal, and
/// for several sequences.
Tensor next_logits(const StackContext& context, KeyValueCache& cache, std::span<const int> ids);

}  // namespace periscope
