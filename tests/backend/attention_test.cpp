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

TEST_CASE("rope matches the reference for odd token counts, several heads and several sequences") {
  for (const Target& target : targets()) {
    for (const Index tokens : odd_sizes) {
      for (const int head_dim : {2, 6, 64}) {
        for (const int heads : {1, 3}) {
          for (const int sequences : {1, 3}) {
            INFO("tokens := ", tokens, ", head_dim := ", head_dim, ", heads := ", heads, ", sequences := ", sequences);
            const Twin x = normal_twin(target, sequences * tokens, heads * head_dim, 20);
            // The terms of a rotated entry sum to at most |a| + |b| in magnitude, bounded by twice the largest entry.
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

/// Returns the tokens of every sequence of x, starting at index `first`.
Tensor tokens_from(const Backend& ops, const Tensor& x, int sequences, Index first) {
  std::vector<int> rows;
  const Index tokens = x.rows() / sequences;
  for (Index row = 0; row < x.rows(); ++row)
    if (row % tokens >= first) rows.push_back(static_cast<int>(row));
  return ops.gather(x, rows);
}

/// Compares attention for the queries from index `offset` with the same rows of attention for all queries. The CPU and
/// the reference give equal bits, since their summation order depends only on the query; other backends may not.
void check_query_offset(const Target& target, AttentionShape shape, Index tokens, Index offset) {
  INFO("target.name() := ", target.name(), ", shape.kv_heads := ", shape.kv_heads, ", shape.causal := ", shape.causal,
       ", shape.scores.window := ", shape.scores.window, ", tokens := ", tokens, ", offset := ", offset);
  const Backend& ops = *target.backend;
  const Index rows = shape.sequences * tokens;
  const Twin q = normal_twin(target, rows, shape.heads * shape.head_dim, 21);
  const Twin k = normal_twin(target, rows, shape.kv_heads * shape.head_dim, 22);
  const Twin v = normal_twin(target, rows, shape.kv_heads * shape.head_dim, 23);
  const AttentionOutput all = ops.attention(q.here, k.here, v.here, shape);
  const auto later = [&](const Tensor& x) { return tokens_from(ops, x, shape.sequences, offset); };
  shape.offset = offset;
  const AttentionOutput some = ops.attention(later(q.here), k.here, v.here, shape);
  const bool same_bits = ops.name() == "cpu" || ops.name() == "reference";
  const double error = same_bits ? 0.0
                                 : 16.0 * rounding_bound_of_both(
                                              4.0 * static_cast<double>(tokens) + 24.0 * shape.head_dim, target.dtype);
  check_close_to_scale("mixed", ops.to_host(some.mixed), ops.to_host(later(all.mixed)), error);
  check_close_to_scale("scores", ops.to_host(some.scores), ops.to_host(later(all.scores)), error);
}

TEST_CASE("attention: queries with an offset match the same rows of attention over all queries" *
          doctest::test_suite("slow")) {
  for (const Target& target : targets_and_truth()) {
    for (const Index offset : {0, 1, 17, 32}) {
      for (const int window : {0, 1, 5, 40}) {
        check_query_offset(target, {4, 2, 6, 3, true, {.soft_cap = 1.5, .window = window}}, 33, offset);
        check_query_offset(target, {3, 3, 5, 1, true, {.window = window}}, 33, offset);
      }
      check_query_offset(target, {4, 1, 6, 2, false}, 33, offset);
    }
    // Offsets before, at and after the boundaries of query blocks.
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

TEST_CASE("rope: tokens with an offset have the same bits as in rope over all tokens") {
  const std::vector<double> frequencies = rope_frequencies(6, 100.0);
  for (const Target& target : targets_and_truth()) {
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

TEST_CASE("attention: the largest score per query matches hand-computed values; NaN propagates") {
  for (const Target& target : targets_and_truth()) {
    if (target.dtype != DType::f64) continue;
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
  }
}

}  // namespace
}  // namespace periscope::testing
