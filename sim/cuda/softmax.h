#pragma once

#include <cmath>

#include "sim/core/backend.h"
#include "sim/cuda/launch.h"

/// Softmax kernels for rows of attention scores, with one block of threads per row.
namespace periscope::cuda {
inline namespace PERISCOPE_CUDA_TARGET {

/// A tile of scores [kv_heads, queries, keys] starting at first_query, first_key; one query head per key/value head.
struct ScoreTile {
  AttentionShape shape;
  Index all_keys;  ///< keys per sequence
  Index member;    ///< index of the query head among those that share a key/value head
  Index first_query, queries;
  Index first_key, keys;

  /// Indices of the query and the query head of a row of scores.
  PERISCOPE_HOST_DEVICE Index query(Index row) const { return first_query + row % queries; }
  PERISCOPE_HOST_DEVICE Index head(Index row) const { return row / queries * (shape.heads / shape.kv_heads) + member; }
  /// The query of a row sees columns seen_begin … seen_end − 1.
  PERISCOPE_HOST_DEVICE Index seen_begin(Index row) const {
    const Index t = shape.offset + query(row);
    const Index first = shape.scores.window > 0 && t - shape.scores.window + 1 > 0 ? t - shape.scores.window + 1 : 0;
    return first - first_key;
  }
  PERISCOPE_HOST_DEVICE Index seen_end(Index row) const {
    return (shape.causal ? shape.offset + query(row) + 1 : all_keys) - first_key;
  }
};

/// Applies a ScoreRule to q·k.
template <class C>
struct Score {
  C scale;
  C cap;  ///< the soft cap; 0 means no cap
  PERISCOPE_HOST_DEVICE C operator()(C dot) const {
    const C z = scale * dot;
    return cap > C(0) ? cap * std::tanh(z / cap) : z;
  }
  PERISCOPE_HOST_DEVICE C derivative(C dot) const {
    if (!(cap > C(0))) return scale;
    const C t = std::tanh(scale * dot / cap);
    return scale * (C(1) - t * t);
  }
};

/// The largest score of a row, and the largest magnitude, which is NaN if a score is NaN.
template <class C>
struct ScoreMaxima {
  C largest;
  C magnitude;
};

template <class C>
struct SoftmaxShared {
  ScoreMaxima<C> maxima[Block::size];
  double sums[Block::size];
};

template <class C>
PERISCOPE_HOST_DEVICE ScoreMaxima<C> score_maxima(const Block& block, SoftmaxShared<C>& shared, const In<C>& dots,
                                                  Index count, const Score<C>& score) {
  const auto join = [](ScoreMaxima<C>& a, const ScoreMaxima<C>& b) {
    a.largest = a.largest < b.largest ? b.largest : a.largest;
    a.magnitude = std::isnan(a.magnitude) || a.magnitude > b.magnitude ? a.magnitude : b.magnitude;
  };
  return block.reduce(
      shared.maxima, count, ScoreMaxima<C>{-static_cast<C>(HUGE_VAL), C(0)},
      [&](ScoreMaxima<C>& a, Index s) {
        const C z = score(dots[s]);
        join(a, {z, std::abs(z)});
      },
      join);
}

/// For each row: pattern = softmax(score(dots)) over the visible keys and 0 elsewhere. Writes the largest |score| to
/// `scores` [tokens, heads] of the sequence.
template <class T>
struct Softmax {
  using C = Computed<T>;
  using Shared = SoftmaxShared<C>;
  ScoreTile tile;
  Score<C> score;
  In<C> dots;
  Out<T> pattern;
  Out<T> scores;
  PERISCOPE_HOST_DEVICE void operator()(const Block& block, Shared& shared, Index row) const {
    const Index begin = tile.seen_begin(row);
    const Index end = tile.seen_end(row);
    const In<C> in = dots + row * tile.keys;
    const Out<T> out = pattern + row * tile.keys;
    const ScoreMaxima<C> m = score_maxima(block, shared, in + begin, end - begin, score);
    const C total = static_cast<C>(block.sum(shared.sums, end - begin, [&](Index s) {
      return static_cast<double>(std::exp(score(in[begin + s]) - m.largest));
    }));
    block.threads([&](int t) {
      if (t == 0) scores[tile.query(row) * tile.shape.heads + tile.head(row)] = narrow<T>(m.magnitude);
      for (Index s = t; s < tile.keys; s += Block::size) {
        const bool seen = s >= begin && s < end;
        out[s] = narrow<T>(seen ? std::exp(score(in[s]) - m.largest) / total : C(0));
      }
    });
  }
};

/// For each row: recomputes the pattern A; writes ddots = A∘(dA − Σ A∘dA)·∂z/∂dot with dA = dy vᵀ and z = score(dot).
template <class T>
struct SoftmaxBackward {
  using C = Computed<T>;
  using Shared = SoftmaxShared<C>;
  ScoreTile tile;
  Score<C> score;
  In<C> dots;
  In<C> dpattern;
  Out<T> pattern;
  Out<T> ddots;
  PERISCOPE_HOST_DEVICE void operator()(const Block& block, Shared& shared, Index row) const {
    const Index begin = tile.seen_begin(row);
    const Index end = tile.seen_end(row);
    const In<C> in = dots + row * tile.keys;
    const In<C> slope = dpattern + row * tile.keys;
    const ScoreMaxima<C> m = score_maxima(block, shared, in + begin, end - begin, score);
    const auto weight = [&](Index s) { return std::exp(score(in[s]) - m.largest); };
    const C total = static_cast<C>(
        block.sum(shared.sums, end - begin, [&](Index s) { return static_cast<double>(weight(begin + s)); }));
    const C mean = static_cast<C>(block.sum(shared.sums, end - begin, [&](Index s) {
      return static_cast<double>(weight(begin + s) / total) * static_cast<double>(slope[begin + s]);
    }));
    block.threads([&](int t) {
      for (Index s = t; s < tile.keys; s += Block::size) {
        const bool seen = s >= begin && s < end;
        const C a = seen ? weight(s) / total : C(0);
        pattern[row * tile.keys + s] = narrow<T>(a);
        ddots[row * tile.keys + s] = narrow<T>(seen ? a * (slope[s] - mean) * score.derivative(in[s]) : C(0));
      }
    });
  }
};

}  // namespace PERISCOPE_CUDA_TARGET
}  // namespace periscope::cuda
