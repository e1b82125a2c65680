#include <algorithm>

#include "sim/cuda/elementwise.h"
#include "sim/cuda/ops.h"
#include "sim/cuda/softmax.h"

namespace periscope::cuda {
inline namespace PERISCOPE_CUDA_TARGET {
namespace {

/// Operands of tiled attention. Only one tile of scores is in memory at a time: a matrix product computes the scores, a
/// kernel their softmax, and a second product the result. Products are batched over key/value heads.
template <class T>
struct AttentionOperands {
  using C = Computed<T>;
  const T* q;
  const T* k;
  const T* v;
  AttentionShape shape;
  Index tokens;    ///< queries per sequence
  Index all_keys;  ///< keys per sequence

  [[nodiscard]] Index e() const { return shape.head_dim; }
  [[nodiscard]] Index group() const { return shape.heads / shape.kv_heads; }
  [[nodiscard]] Index query_width() const { return shape.heads * e(); }
  [[nodiscard]] Index key_width() const { return shape.kv_heads * e(); }
  [[nodiscard]] Score<C> score() const {
    return {static_cast<C>(shape.scale()), static_cast<C>(shape.scores.soft_cap)};
  }
  /// Returns the rows of x (shaped like q) for the tile's queries, batched over key/value heads.
  template <class Pointer>
  [[nodiscard]] auto queries(Pointer x, Index sequence, const ScoreTile& tile) const {
    return MatrixAt<decltype(erased(x))>{x + (sequence * tokens + tile.first_query) * query_width() + tile.member * e(),
                                         query_width(), group() * e()};
  }
  /// Returns the rows of x (shaped like k) for the tile's keys, batched over key/value heads.
  template <class Pointer>
  [[nodiscard]] auto keys(Pointer x, Index sequence, const ScoreTile& tile) const {
    return MatrixAt<decltype(erased(x))>{x + (sequence * all_keys + tile.first_key) * key_width(), key_width(), e()};
  }
  /// Returns x as the tile's matrices [queries, keys], batched over key/value heads.
  template <class Pointer>
  [[nodiscard]] auto scores(Pointer x, const ScoreTile& tile) const {
    return MatrixAt<decltype(erased(x))>{x, tile.keys, tile.queries * tile.keys};
  }

 private:
  static const void* erased(const void* pointer) { return pointer; }
  static void* erased(void* pointer) { return pointer; }
};

/// Returns a number of queries such that a tile has about `scores_at_once` scores. Depends only on the shapes.
Index queries_at_once(const AttentionShape& shape, Index tokens, Index all_keys, Index scores_at_once) {
  const Index keys = shape.scores.window > 0 ? std::min<Index>(all_keys, 2 * Index{shape.scores.window}) : all_keys;
  return std::clamp<Index>(scores_at_once / std::max<Index>(1, shape.kv_heads * keys), 1, std::max<Index>(1, tokens));
}

/// Calls body(sequence, tile) for every tile, in order.
template <class Body>
void for_tiles(const AttentionShape& shape, Index tokens, Index all_keys, Index scores_at_once, const Body& body) {
  const Index step = queries_at_once(shape, tokens, all_keys, scores_at_once);
  for (Index sequence = 0; sequence < shape.sequences; ++sequence) {
    for (Index member = 0; member < shape.heads / shape.kv_heads; ++member) {
      for (Index first = 0; first < tokens; first += step) {
        const Index end = std::min(first + step, tokens);
        const Index first_key = shape.first_seen(first);
        body(sequence, ScoreTile{.shape = shape,
                                 .all_keys = all_keys,
                                 .member = member,
                                 .first_query = first,
                                 .queries = end - first,
                                 .first_key = first_key,
                                 .keys = shape.end_seen(end - 1, all_keys) - first_key});
      }
    }
  }
}

/// Returns the number of scores of the largest tile.
Index max_tile_scores(const AttentionShape& shape, Index tokens, Index all_keys, Index scores_at_once) {
  Index most = 0;
  for_tiles(shape, tokens, all_keys, scores_at_once,
            [&](Index, const ScoreTile& tile) { most = std::max(most, shape.kv_heads * tile.queries * tile.keys); });
  return most;
}

/// Matrix products of a tile, batched over key/value heads.
template <class T>
class TileProducts {
 public:
  TileProducts(const Execution& execution, Index heads, Index head_dim)
      : execution_(execution), heads_(heads), e_(head_dim) {}

  /// dots = x yᵀ [queries, keys].
  void dots(const MatrixAt<const void*>& x, const MatrixAt<const void*>& y, const MatrixAt<void*>& dots,
            const ScoreTile& tile) const {
    run(false, true, tile.queries, tile.keys, e_, x, y, dots, dtype_of<Computed<T>>, 0.0);
  }
  /// out = weights·values, summed over keys.
  void over_keys(const MatrixAt<const void*>& weights, const MatrixAt<const void*>& values, const MatrixAt<void*>& out,
                 const ScoreTile& tile) const {
    run(false, false, tile.queries, e_, tile.keys, weights, values, out, dtype_of<T>, 0.0);
  }
  /// sums += weightsᵀ·values, summed over queries.
  void over_queries(const MatrixAt<const void*>& weights, const MatrixAt<const void*>& values,
                    const MatrixAt<void*>& sums, const ScoreTile& tile) const {
    run(true, false, tile.keys, e_, tile.queries, weights, values, sums, dtype_of<Computed<T>>, 1.0);
  }

 private:
  void run(bool transpose_a, bool transpose_b, Index m, Index n, Index k, const MatrixAt<const void*>& a,
           const MatrixAt<const void*>& b, const MatrixAt<void*>& c, DType result, double beta) const {
    execution_.product({dtype_of<T>, result, transpose_a, transpose_b, m, n, k, a, b, c, heads_, 1.0, beta});
  }

  const Execution& execution_;
  Index heads_, e_;
};

template <class T>
void run_attention(const Execution& execution, const AttentionOperands<T>& in, T* mixed, T* scores) {
  using C = Computed<T>;
  const Index at_once = execution.options().scores_at_once;
  const Index size = max_tile_scores(in.shape, in.tokens, in.all_keys, at_once);
  const std::shared_ptr<C> dots = execution.take_array<C>(size);
  const std::shared_ptr<T> pattern = execution.take_array<T>(size);
  const TileProducts<T> products(execution, in.shape.kv_heads, in.e());
  for_tiles(in.shape, in.tokens, in.all_keys, at_once, [&](Index sequence, const ScoreTile& tile) {
    products.dots(in.queries(in.q, sequence, tile), in.keys(in.k, sequence, tile), in.scores(dots.get(), tile), tile);
    for_blocks(execution, in.shape.kv_heads * tile.queries,
               Softmax<T>{tile, in.score(), dots.get(), pattern.get(), scores + sequence * in.tokens * in.shape.heads});
    const T* weights = pattern.get();
    products.over_keys(in.scores(weights, tile), in.keys(in.v, sequence, tile), in.queries(mixed, sequence, tile),
                       tile);
  });
}

/// dk and dv are summed over tiles in the compute dtype and rounded at the end.
template <class T>
void run_attention_backward(const Execution& execution, const AttentionOperands<T>& in, const T* dy, Index rows, T* dq,
                            T* dk, T* dv) {
  using C = Computed<T>;
  const Index at_once = execution.options().scores_at_once;
  const Index size = max_tile_scores(in.shape, in.tokens, in.all_keys, at_once);
  const std::shared_ptr<C> dots = execution.take_array<C>(size);
  const std::shared_ptr<C> dpattern = execution.take_array<C>(size);
  const std::shared_ptr<T> pattern = execution.take_array<T>(size);
  const std::shared_ptr<T> ddots = execution.take_array<T>(size);
  const Index key_size = rows * in.key_width();
  const std::shared_ptr<C> dk_sums = execution.take_array<C>(2 * key_size);
  C* const dv_sums = dk_sums.get() + key_size;
  execution.fill_zero(dk_sums.get(), static_cast<std::size_t>(2 * key_size) * sizeof(C));
  const TileProducts<T> products(execution, in.shape.kv_heads, in.e());
  for_tiles(in.shape, in.tokens, in.all_keys, at_once, [&](Index sequence, const ScoreTile& tile) {
    const auto query = in.queries(in.q, sequence, tile);
    const auto slope = in.queries(dy, sequence, tile);
    const auto key = in.keys(in.k, sequence, tile);
    products.dots(query, key, in.scores(dots.get(), tile), tile);
    products.dots(slope, in.keys(in.v, sequence, tile), in.scores(dpattern.get(), tile), tile);
    for_blocks(execution, in.shape.kv_heads * tile.queries,
               SoftmaxBackward<T>{tile, in.score(), dots.get(), dpattern.get(), pattern.get(), ddots.get()});
    const T* weights = pattern.get();
    const T* dscores = ddots.get();
    products.over_keys(in.scores(dscores, tile), key, in.queries(dq, sequence, tile), tile);
    products.over_queries(in.scores(dscores, tile), query, in.keys(dk_sums.get(), sequence, tile), tile);
    products.over_queries(in.scores(weights, tile), slope, in.keys(dv_sums, sequence, tile), tile);
  });
  for_each(execution, key_size, Convert<C, T>{dk_sums.get(), dk});
  for_each(execution, key_size, Convert<C, T>{dv_sums, dv});
}

template <class T>
AttentionOperands<T> operands(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionShape& shape) {
  return {data<T>(q), data<T>(k), data<T>(v), shape, q.rows() / shape.sequences, k.rows() / shape.sequences};
}

}  // namespace

void CudaBackend::run(const op::Attention& o) const {
  with_type(o.q.dtype(), [&]<class T>(T) {
    run_attention(execution_, operands<T>(o.q, o.k, o.v, o.shape), data<T>(o.a.mixed), data<T>(o.a.scores));
  });
}

void CudaBackend::run(const op::AttentionBackward& o) const {
  with_type(o.q.dtype(), [&]<class T>(T) {
    run_attention_backward(execution_, operands<T>(o.q, o.k, o.v, o.shape), data<T>(o.dy), o.q.rows(), data<T>(o.g.dq),
                           data<T>(o.g.dk), data<T>(o.g.dv));
  });
}

}  // namespace PERISCOPE_CUDA_TARGET
}  // namespace periscope::cuda
