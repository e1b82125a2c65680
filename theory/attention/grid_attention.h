#pragma once

#include <vector>

#include "theory/attention/attention_head.h"
#include "theory/attention/token_grid.h"

namespace periscope::theory {

/// T4's average over sampled patterns for sequences too long for T×T matrices: kernels and queries are those of a
/// grid's kept tokens [p, p], keys and values those of all T tokens, of kernel W O Wᵀ + V C Vᵀ + D (TokenGrid). A
/// pattern costs p rows of A and p²T operations, and nothing of size T² is stored:
///   A K Aᵀ = (A W) O (A W)ᵀ + (A V) C (A V)ᵀ + A D Aᵀ.
/// For the laws of one sequence without a window and without profiles (T29).
class GridAttention {
 public:
  /// The grid must outlive this.
  GridAttention(const PatternLaw& law, const TokenGrid& grid);

  /// E_A[A K Aᵀ] [p, p] over `samples` patterns, which come in pairs (HeadSample); over the one pattern that there is
  /// where it is uniform.
  [[nodiscard]] Matrix head_output_kernel(const Matrix& of_query_and_key, const Matrix& of_value, int samples,
                                          PatternStream stream) const;

  /// Floating-point operations of one pattern, about.
  static double operations(const TokenGrid& grid, bool causal, int head_dim);

 private:
  struct Values;
  struct Keys;
  class Sum;
  [[nodiscard]] Projection draw_keys(const Keys& keys, NormalStream& numbers) const;
  void add_pattern(const Sample& logits, float sign, const Values& values, Sum& sum) const;
  [[nodiscard]] Index end_seen(Index kept) const {
    return law_.end_seen(grid_.kept()[static_cast<std::size_t>(kept)], grid_.tokens());
  }

  const PatternLaw law_;
  const TokenGrid& grid_;
  AttentionHead query_head_, key_head_;
};

}  // namespace periscope::theory
