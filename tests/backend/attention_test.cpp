#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/support/compare.h"
#include "tests/support/doctest.h"
#include "tests/support/tolerances.h"
#include "tests/support/twin.h"

namespace periscope::testing {
namespace {

using Index = Tensor::Index;

TEST_CASE("rope: odd token counts, several heads and sequences") {
  for (const Target& target : targets()) {
    for (const Index tokens : odd_sizes) {
      for (const int head_dim : {2, 6, 64}) {
        for (const int heads : {1, 3}) {
          for (const int sequences : {1, 3}) {
            CAPTURE(tokens);
            CAPTURE(head_dim);
            CAPTURE(heads);
            CAPTURE(sequences);
            const Twin x = normal_twin(target, sequences * tokens, heads * head_dim, 20);
            // |a cos| + |b sin| ≤ 2·max(|a|, |b|) bounds the terms of a rotation.
            const std::vector<double> values = truth().to_host(magnitude(x.truth));
            const double size = 2.0 * *std::ranges::max_element(values);
            const std::vector<double> frequencies = rope_frequencies(static_cast<int>(x.here.cols()) / heads, 10000.0);
            check_close(target.name() + " rope",
                        target.backend->to_host(target.backend->rope(x.here, heads, sequences, frequencies)),
                        truth().to_host(truth().rope(x.truth, heads, sequences, frequencies)),
                        rope_error(static_cast<double>(tokens), target.dtype) * size);
          }
        }
      }
    }
  }
}

/// Upper bound of Σ|q||k|·scale over all pairs of queries and keys, heads and sequences.
double logit_magnitude(const Twin& q, const Twin& k, const AttentionShape& shape) {
  const auto largest_norm = [&](const Tensor& x, int heads) {
    const Tensor by_head = truth().from_host(x.rows() * heads, shape.head_dim, DType::f64, truth().to_host(x));
    return std::sqrt(std::ranges::max(truth().row_dots(by_head, by_head)));
  };
  return largest_norm(q.truth, shape.heads) * largest_norm(k.truth, shape.kv_heads) * shape.scale();
}

void check_attention(const Target& target, const AttentionShape& shape, Index tokens, double score_scale) {
  CAPTURE(shape.heads);
  CAPTURE(shape.kv_heads);
  CAPTURE(shape.head_dim);
  CAPTURE(shape.sequences);
  CAPTURE(shape.causal);
  CAPTURE(tokens);
  const Index rows = shape.sequences * tokens;
  const Twin q = normal_twin(target, rows, shape.heads * shape.head_dim, 21, score_scale);
  const Twin k = normal_twin(target, rows, shape.kv_heads * shape.head_dim, 22, score_scale);
  const Twin v = normal_twin(target, rows, shape.kv_heads * shape.head_dim, 23);
  const Tensor bound = truth().attention(q.truth, k.truth, magnitude(v.truth), shape).mixed;
  const double error =
      attention_error(shape.head_dim, static_cast<double>(tokens), logit_magnitude(q, k, shape), target.dtype);
  const AttentionOutput here = target.backend->attention(q.here, k.here, v.here, shape);
  const AttentionOutput there = truth().attention(q.truth, k.truth, v.truth, shape);
  check_close(target.name() + " attention", target.backend->to_host(here.mixed), truth().to_host(there.mixed),
              scaled(error, truth().to_host(bound)));
  CHECK(here.scores.cols() == shape.heads);
  // Roundings of the dot product, the scale and the soft cap (quotient, tanh, product).
  check_close(target.name() + " scores", target.backend->to_host(here.scores), truth().to_host(there.scores),
              (dot_error(shape.head_dim, target.dtype) + rounding_bound_of_both(14, target.dtype)) *
                  logit_magnitude(q, k, shape));
}

TEST_CASE("attention: causal and bidirectional, equal and grouped heads, several sequences, odd sizes") {
  constexpr std::pair<int, int> head_pairs[] = {{1, 1}, {3, 3}, {4, 2}, {3, 1}};
  for (const Target& target : targets()) {
    for (const auto& [heads, kv_heads] : head_pairs) {
      for (const int head_dim : {1, 2, 33}) {
        for (const int sequences : {1, 3}) {
          for (const bool causal : {true, false}) {
            for (const Index tokens : {Index{1}, Index{2}, Index{31}, Index{32}, Index{33}}) {
              check_attention(target, {heads, kv_heads, head_dim, sequences, causal}, tokens, 1.0);
            }
          }
        }
      }
    }
    check_attention(target, {4, 2, 32, 2, true}, 257, 1.0);
    check_attention(target, {4, 2, 32, 2, false}, 257, 1.0);
    // Several query blocks, and windows that start inside them.
    for (const int window : {0, 1, 90, 256, 300}) {
      check_attention(target, {2, 1, 5, 1, true, {.window = window}}, 601, 1.0);
      check_attention(target, {2, 1, 5, 1, false, {.soft_cap = 1.5, .window = window}}, 601, 1.0);
    }
  }
}

// The slope of a soft cap is at most 1, so it does not increase the error of a score.
TEST_CASE("attention: score scale, soft cap and window") {
  for (const Target& target : targets()) {
    for (const Index tokens : {Index{1}, Index{33}}) {
      check_attention(target, {4, 2, 33, 3, true, {.scale = 0.3}}, tokens, 1.0);
      check_attention(target, {4, 2, 33, 3, false, {.soft_cap = 0.8}}, tokens, 1.0);
      for (const int window : {1, 2, 32, 33, 50}) {
        check_attention(target, {4, 1, 33, 3, true, {.scale = 0.6, .soft_cap = 1.5, .window = window}}, tokens, 1.0);
      }
    }
  }
}

TEST_CASE("attention: logits in the hundreds do not overflow") {
  for (const Target& target : targets()) {
    for (const bool causal : {true, false}) check_attention(target, {2, 1, 16, 1, causal}, 33, 12.0);
  }
}

TEST_CASE("attention: equal logits of any magnitude average the values") {
  // All logits are exactly c, including values whose exponential overflows.
  for (const Target& target : targets()) {
    for (const double c : {0.0, 1e3, 1e4, -1e4}) {
      const Twin q = twin_of(target, 3, 1, std::vector<double>(3, c));
      const Twin k = twin_of(target, 3, 1, std::vector<double>(3, 1.0));
      const Twin v = twin_of(target, 3, 1, std::vector<double>{1.0, 2.0, 6.0});
      check_close(target.name(),
                  target.backend->to_host(target.backend->attention(q.here, k.here, v.here, {1, 1, 1, 1, true}).mixed),
                  std::vector<double>{1.0, 1.5, 3.0}, 6.0 * rounding_bound(8, target.dtype));
    }
  }
}

TEST_CASE("attention: with a causal mask a later token changes no bit of earlier outputs") {
  for (const Target& target : targets()) {
    const AttentionShape shape{2, 1, 8, 1, true};
    const Twin q = normal_twin(target, 33, 16, 21);
    const Twin k = normal_twin(target, 33, 8, 22);
    const Twin v = normal_twin(target, 33, 8, 23);
    std::vector<double> other_k = truth().to_host(k.truth);
    std::vector<double> other_v = truth().to_host(v.truth);
    for (std::size_t i = 32 * 8; i < 33 * 8; ++i) other_k[i] = other_v[i] = 7.0;
    const std::vector<double> before =
        target.backend->to_host(target.backend->attention(q.here, k.here, v.here, shape).mixed);
    const std::vector<double> after = target.backend->to_host(
        target.backend
            ->attention(q.here, twin_of(target, 33, 8, other_k).here, twin_of(target, 33, 8, other_v).here, shape)
            .mixed);
    CHECK(first_difference(after, before) == 32 * 16);
  }
}

/// Tokens `first` and later of every sequence of x.
Tensor tokens_from(const Backend& ops, const Tensor& x, int sequences, Index first) {
  std::vector<int> rows;
  const Index tokens = x.rows() / sequences;
  for (Index row = 0; row < x.rows(); ++row) {
    if (row % tokens >= first) rows.push_back(static_cast<int>(row));
  }
  return ops.gather(x, rows);
}

/// Compares attention of the queries from `offset` on with the same rows of attention of all queries. CPU and reference
/// give the same bits, since a query's summation order depends on its tokens only; other backends may tile differently.
void check_query_offset(const Target& target, AttentionShape shape, Index tokens, Index offset) {
  CAPTURE(target.name());
  CAPTURE(shape.kv_heads);
  CAPTURE(shape.causal);
  CAPTURE(shape.scores.window);
  CAPTURE(tokens);
  CAPTURE(offset);
  const Backend& ops = *target.backend;
  const Index rows = shape.sequences * tokens;
  const Twin q = normal_twin(target, rows, shape.heads * shape.head_dim, 21);
  const Twin k = normal_twin(target, rows, shape.kv_heads * shape.head_dim, 22);
  const Twin v = normal_twin(target, rows, shape.kv_heads * shape.head_dim, 23);
  const AttentionOutput all = ops.attention(q.here, k.here, v.here, shape);
  const auto later = [&](const Tensor& x) { return tokens_from(ops, x, shape.sequences, offset); };
  const AttentionShape whole = shape;
  shape.offset = offset;
  const AttentionOutput some = ops.attention(later(q.here), k.here, v.here, shape);
  const bool same_bits = ops.name() == "cpu" || ops.name() == "reference";
  const double size = logit_magnitude(q, k, shape);
  const double error =
      same_bits ? 0.0 : 2.0 * attention_error(shape.head_dim, static_cast<double>(tokens), size, target.dtype);
  const Tensor bound = tokens_from(truth(), truth().attention(q.truth, k.truth, magnitude(v.truth), whole).mixed,
                                   shape.sequences, offset);
  check_close(target.name() + " later queries", ops.to_host(some.mixed), ops.to_host(later(all.mixed)),
              scaled(error, truth().to_host(bound)));
  check_close(target.name() + " their scores", ops.to_host(some.scores), ops.to_host(later(all.scores)),
              same_bits
                  ? 0.0
                  : (2.0 * dot_error(shape.head_dim, target.dtype) + rounding_bound_of_both(14, target.dtype)) * size);
}

TEST_CASE("attention: queries with an offset match the same rows of attention over all queries") {
  std::vector<Target> all{truth_target()};
  all.insert(all.end(), targets().begin(), targets().end());
  for (const Target& target : all) {
    for (const Index offset : {0, 1, 17, 32}) {
      for (const int window : {0, 1, 5, 40}) {
        check_query_offset(target, {4, 2, 6, 3, true, {.soft_cap = 1.5, .window = window}}, 33, offset);
        check_query_offset(target, {3, 3, 5, 1, true, {.window = window}}, 33, offset);
      }
      check_query_offset(target, {4, 1, 6, 2, false}, 33, offset);
    }
    // Across query blocks.
    for (const Index offset : {1, 255, 256, 300, 599}) {
      for (const int window : {0, 70, 300}) {
        check_query_offset(target, {2, 1, 5, 1, true, {.window = window}}, 600, offset);
      }
    }
  }
}

TEST_CASE("attention: keys and values after the last query are not read") {
  for (const Target& target : targets()) {
    const Backend& ops = *target.backend;
    const AttentionShape shape{2, 1, 4, 1, true, {.window = 5}, 7};
    const Twin q = normal_twin(target, 3, 8, 21);
    const Twin k = normal_twin(target, 10, 4, 22);
    const Twin v = normal_twin(target, 10, 4, 23);
    const auto padded = [&](const Tensor& x) { return ops.replace_rows(ops.constant(16, 4, x.dtype(), NAN), 0, x); };
    const AttentionOutput exact = ops.attention(q.here, k.here, v.here, shape);
    const AttentionOutput with_padding = ops.attention(q.here, padded(k.here), padded(v.here), shape);
    check_same_bits(target.name(), ops.to_host(with_padding.mixed), ops.to_host(exact.mixed));
    check_same_bits(target.name(), ops.to_host(with_padding.scores), ops.to_host(exact.scores));
  }
}

TEST_CASE("rope: tokens with an offset have the bits of the same rows of rope over all tokens") {
  std::vector<Target> all{truth_target()};
  all.insert(all.end(), targets().begin(), targets().end());
  const std::vector<double> frequencies = rope_frequencies(6, 100.0);
  for (const Target& target : all) {
    const Backend& ops = *target.backend;
    for (const int sequences : {1, 3}) {
      const Tensor x = normal_twin(target, sequences * 33, 12, 20).here;
      for (const Index offset : {1, 9, 32}) {
        CAPTURE(offset);
        check_same_bits(
            target.name(),
            ops.to_host(ops.rope(tokens_from(ops, x, sequences, offset), 2, sequences, frequencies, offset)),
            ops.to_host(tokens_from(ops, ops.rope(x, 2, sequences, frequencies), sequences, offset)));
      }
    }
  }
}

TEST_CASE("attention: largest scores per query by hand; NaN propagates") {
  const auto check = [](const Target& target) {
    const Twin q = twin_of(target, 3, 2, std::vector<double>{1, -2, 3, 0, 0, 1});
    const Twin k = twin_of(target, 3, 1, std::vector<double>{2, -4, 8});
    const auto scores = [&](const AttentionShape& shape) {
      return target.backend->to_host(target.backend->attention(q.here, k.here, k.here, shape).scores);
    };
    CHECK(scores({2, 1, 1, 1, true}) == std::vector<double>{2, 4, 12, 0, 0, 8});
    CHECK(scores({2, 1, 1, 1, false}) == std::vector<double>{8, 16, 24, 0, 0, 8});
    CHECK(scores({2, 1, 1, 1, true, {.scale = 0.5, .window = 1}}) == std::vector<double>{1, 2, 6, 0, 0, 4});
    CHECK(scores({2, 1, 1, 1, true, {.soft_cap = 1e-3}}) == std::vector<double>{1e-3, 1e-3, 1e-3, 0, 0, 1e-3});
    const Twin with_nan = twin_of(target, 3, 1, std::vector<double>{NAN, -4, 8});
    const AttentionOutput causal =
        target.backend->attention(q.here, with_nan.here, k.here, {2, 1, 1, 1, true, {.window = 2}});
    CHECK(std::isnan(target.backend->to_host(causal.scores)[0]));
    CHECK(std::isnan(target.backend->to_host(causal.scores)[2]));
    CHECK(target.backend->to_host(causal.scores)[5] == 8.0);
  };
  check(truth_target());
  for (const Target& target : targets()) {
    if (target.dtype == DType::f64) check(target);
  }
}

}  // namespace
}  // namespace periscope::testing
