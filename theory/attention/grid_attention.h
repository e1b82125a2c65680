#pragma once

#include <vector>

#include "theory/attention/attention_head.h"
#include "theory/attention/token_grid.h"

namespace periscope::theory {

/// Pattern averages (T4) for sequences too long for T×T matrices. Queries and results cover the p tokens of a grid;
/// keys and values cover all T tokens, with kernel W O Wᵀ + V C Vᵀ + D (TokenGrid). A pattern costs p rows of A
/// and p²T operations, without storage of size T²:
///   A K Aᵀ = (A W) O (A W)ᵀ + (A V) C (A V)ᵀ + A D Aᵀ.
/// Supports a single sequence without a window and without variance profiles (T29).
class GridAttention {
 public:
  /// The grid must outlive this object.
  GridAttention(const PatternLaw& law, const TokenGrid& grid);

  /// Returns E_A[A K Aᵀ] [p, p] over `samples` patterns, in antithetic pairs (HeadSample). Exact if A is uniform.
  [[nodiscard]] Matrix head_output_kernel(const Matrix& of_query_and_key, const Matrix& of_value, int samples,
                                          PatternStream stream) const;

  /// Returns the approximate number of floating-point operations per pattern.
  static double operations(const TokenGrid& grid, bool causal, int head_dim);

 private:
  struct Values;
  class Sum;
  void add_pattern(const Sample& logits, float sign, const Values& values, Sum& sum) const;
  [[nodiscard]] Index end_seen(Index count) const {
    return law_.end_seen(grid_.positions()[static_cast<std::size_t>(count)], grid_.tokens());
  }

  const PatternLaw law_;
  const TokenGrid& grid_;
  AttentionHead query_head_, key_head_;
};

}  // namespace periscope::theory
