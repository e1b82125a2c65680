#include <cmath>
#include <limits>
#include <vector>

#include "tests/support/doctest.h"
#include "tests/support/targets.h"

/// The reference backend defines every op, so it is tested against numbers that were worked out by hand.
namespace periscope::testing {
namespace {

using doctest::Approx;
using Values = std::vector<double>;

Tensor matrix(Tensor::Index rows, Tensor::Index cols, const Values& values) {
  return truth().from_host(rows, cols, DType::f64, values);
}

void check_values(const Tensor& actual, const Values& expected) {
  const Values values = truth().to_host(actual);
  REQUIRE(values.size() == expected.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    CAPTURE(i);
    CHECK(values[i] == Approx(expected[i]).epsilon(1e-14));
  }
}

TEST_CASE("linear: x [2, 3] times the transpose of w [2, 3]") {
  check_values(truth().linear(matrix(2, 3, {1, 2, 3, 4, 5, 6}), matrix(2, 3, {1, 0, -1, 2, 1, 0})), {-2, 4, -2, 13});
}

TEST_CASE("axpby, scale, gather, constant") {
  const Tensor x = matrix(2, 2, {1, 2, 3, 4});
  check_values(truth().axpby(2.0, x, -1.0, matrix(2, 2, {0, 1, 0, 1})), {2, 3, 6, 7});
  check_values(truth().scale(-0.5, x), {-0.5, -1, -1.5, -2});
  check_values(truth().gather(x, std::vector<int>{1, 0, 1}), {3, 4, 1, 2, 3, 4});
  check_values(truth().constant(1, 3, DType::f64, 7.0), {7, 7, 7});
  check_values(truth().add_row(x, matrix(1, 2, {10, -1})), {11, 1, 13, 3});
  check_values(truth().column_sums(x), {4, 6});
  check_values(truth().soft_cap(2.0, matrix(1, 3, {2, -1e9, 0})), {2 * std::tanh(1.0), -2, 0});
}

TEST_CASE("RMSNorm of (3, 4): rms = 5/√2") {
  const Tensor x = matrix(1, 2, {3, 4});
  const Tensor one = matrix(1, 2, {1, 1});
  check_values(truth().norm(NormKind::rms, x, one, {}, 0.0), {0.6 * std::sqrt(2.0), 0.8 * std::sqrt(2.0)});
  // mean square 12.5 and eps 12.5 make 25
  check_values(truth().norm(NormKind::rms, x, one, {}, 12.5), {0.6, 0.8});
  check_values(truth().norm(NormKind::rms, x, matrix(1, 2, {10, -1}), matrix(1, 2, {1, 2}), 12.5), {7, 1.2});
}

TEST_CASE("LayerNorm of (1, 3) and of (1, 2, 3)") {
  const Tensor one = matrix(1, 2, {1, 1});
  check_values(truth().norm(NormKind::layer, matrix(1, 2, {1, 3}), one, {}, 0.0), {-1, 1});
  check_values(truth().norm(NormKind::layer, matrix(1, 2, {1, 3}), one, {}, 3.0), {-0.5, 0.5});
  const double r = std::sqrt(1.5);  // the variance is 2/3, over D and not D − 1
  check_values(
      truth().norm(NormKind::layer, matrix(1, 3, {1, 2, 3}), matrix(1, 3, {1, 1, 2}), matrix(1, 3, {0, 5, 0}), 0.0),
      {-r, 5, 2 * r});
}

TEST_CASE("a norm in groups treats every part by itself, with one gain") {
  check_values(truth().norm(NormKind::rms, matrix(1, 4, {2, 2, -7, 7}), matrix(1, 2, {1, 3}), {}, 0.0, 2),
               {1, 3, -1, 3});
}

TEST_CASE("a norm without eps maps a zero row to the bias") {
  for (const NormKind kind : {NormKind::rms, NormKind::layer}) {
    const Tensor zero = matrix(1, 2, {0, 0});
    check_values(truth().norm(kind, zero, matrix(1, 2, {1, 1}), {}, 0.0), {0, 0});
    check_values(truth().norm(kind, zero, matrix(1, 2, {1, 1}), matrix(1, 2, {4, 5}), 0.0), {4, 5});
  }
}

TEST_CASE("rope: a head of two features turns by one radian per position, the first not at all") {
  const double c = std::cos(1.0);
  const double s = std::sin(1.0);
  check_values(truth().rope(matrix(2, 2, {1, 0, 1, 0}), 1, 1, rope_frequencies(2, 10000.0)), {1, 0, c, s});
  check_values(truth().rope(matrix(2, 2, {0, 1, 0, 1}), 1, 1, rope_frequencies(2, 10000.0)), {0, 1, -s, c});
  // Two sequences: positions start again.
  check_values(truth().rope(matrix(2, 2, {1, 0, 1, 0}), 1, 2, rope_frequencies(2, 10000.0)), {1, 0, 1, 0});
}

TEST_CASE("rope: the pair of feature i is i + e/2, its frequency base^(-2i/e)") {
  // e = 4, base 16: frequencies 1 and 1/4. Two heads, position 1 of two.
  const Values y = truth().to_host(
      truth().rope(matrix(2, 8, {0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0}), 2, 1, rope_frequencies(4, 16.0)));
  check_values(matrix(1, 8, {y.begin() + 8, y.end()}),
               {std::cos(1.0), 0, std::sin(1.0), 0, 0, std::cos(0.25), 0, std::sin(0.25)});
}

TEST_CASE("attention of two tokens, softmax by hand") {
  // e = 4: logits are q·k/2. Token 1's logits are ln 3 and 0: weights 3/4 and 1/4.
  const Tensor q = matrix(2, 4, {5, 0, 0, 0, 2 * std::log(3.0), 0, 0, 0});
  const Tensor k = matrix(2, 4, {1, 9, 9, 9, 0, 9, 9, 9});
  const Tensor v = matrix(2, 4, {1, 0, 4, 8, 5, 4, 0, 8});
  AttentionShape shape{.heads = 1, .kv_heads = 1, .head_dim = 4, .sequences = 1, .causal = true};
  check_values(truth().attention(q, k, v, shape).mixed, {1, 0, 4, 8, 2, 1, 3, 8});
  // Bidirectional, token 0's logits are 5/2 and 0.
  const double a = 1.0 / (1.0 + std::exp(-2.5));
  shape.causal = false;
  check_values(truth().attention(q, k, v, shape).mixed, {5 - 4 * a, 4 - 4 * a, 4 * a, 8, 2, 1, 3, 8});
}

TEST_CASE("grouped-query attention: heads 0 and 1 read the first key/value head, 2 and 3 the second") {
  // One token: the output is the value, whatever the scores.
  const AttentionShape shape{.heads = 4, .kv_heads = 2, .head_dim = 1, .sequences = 1, .causal = true};
  check_values(truth().attention(matrix(1, 4, {1, 2, 3, 4}), matrix(1, 2, {1, 1}), matrix(1, 2, {10, 20}), shape).mixed,
               {10, 10, 20, 20});
}

TEST_CASE("sequences do not see each other") {
  AttentionShape shape{.heads = 1, .kv_heads = 1, .head_dim = 1, .sequences = 2, .causal = false};
  const Tensor zero = matrix(4, 1, {0, 0, 0, 0});
  check_values(truth().attention(zero, zero, matrix(4, 1, {1, 3, 10, 30}), shape).mixed, {2, 2, 20, 20});
  shape.causal = true;
  check_values(truth().attention(zero, zero, matrix(4, 1, {1, 3, 10, 30}), shape).mixed, {1, 2, 10, 20});
}

TEST_CASE("activations at 1, -1, 0 and far out") {
  const Tensor x = matrix(1, 5, {1, -1, 0, 1e4, -1e4});
  check_values(truth().activate(Activation::relu, x), {1, 0, 0, 1e4, 0});
  check_values(truth().activate(Activation::gelu, x), {0.841344746068542949, -0.158655253931457051, 0, 1e4, 0});
  check_values(truth().activate(Activation::silu, x), {0.731058578630004879, -0.268941421369995121, 0, 1e4, 0});
  check_values(truth().activate(Activation::sigmoid, x), {0.731058578630004879, 0.268941421369995121, 0.5, 1, 0});
  // ½(1 + tanh(√(2/π)·1.044715)), worked out with 30 digits
  check_values(truth().activate(Activation::gelu_tanh, x), {0.841191990608276747, -0.158808009391723253, 0, 1e4, 0});
  check_values(truth().gated(Activation::silu, x, matrix(1, 5, {2, 3, 4, 0.5, 6})),
               {2 * 0.731058578630004879, -3 * 0.268941421369995121, 0, 5e3, 0});
  // The left tail keeps its relative precision: −10·Φ(−10).
  check_values(truth().activate(Activation::gelu, matrix(1, 1, {-10})), {-7.61985302416052606e-23});
}

TEST_CASE("row moments of (1, 2, 3, 6)") {
  const RowMoments m = truth().row_moments(matrix(2, 4, {1, 2, 3, 6, -1, -2, -3, -6}));
  const double sign[] = {1.0, -1.0};
  for (std::size_t t = 0; t < 2; ++t) {
    CHECK(m[Statistic::mean][t] == sign[t] * 3.0);
    CHECK(m[Statistic::second_moment][t] == 12.5);
    CHECK(m[Statistic::variance][t] == 3.5);
    CHECK(m[Statistic::kurtosis][t] == Approx(4.0 * (16 + 1 + 0 + 81) / (14.0 * 14.0)));
    CHECK(m[Statistic::maximum][t] == 6.0);
  }
}

TEST_CASE("row dots, token cosine, top magnitudes") {
  const Tensor x = matrix(2, 2, {1, 2, 3, -4});
  CHECK(truth().row_dots(x, matrix(2, 2, {5, 6, 7, 8})) == Values{17, -11});
  CHECK(truth().statistics_of(x, {.top_magnitudes = 3}).top_magnitudes == Values{4, 3, 2});
  CHECK(truth().statistics_of(x, {.top_magnitudes = 9}).top_magnitudes == Values{4, 3, 2, 1});
  const auto cosine = [](const Tensor& y, int sequences) {
    return truth().statistics_of(y, {.cosine_of_sequences = sequences}).token_cosine;
  };
  // Angles of 60, 60 and 120 degrees in one sequence, of 0 in the other.
  const double h = std::sqrt(0.75);
  CHECK(cosine(matrix(3, 2, {2, 0, 0.5, h, -0.5, h}), 1) == Approx((0.5 + 0.5 - 0.5) / 3));
  CHECK(cosine(matrix(4, 1, {1, 5, 2, -3}), 2) == Approx(0.0));
  CHECK(std::isnan(cosine(x, 2)));
  CHECK(std::isnan(cosine(matrix(2, 2, {1, 2, 0, 0}), 1)));
}

TEST_CASE("the reference computes in f64 and says so") {
  CHECK(truth().supports(DType::f64));
  CHECK_FALSE(truth().supports(DType::f32));
}

}  // namespace
}  // namespace periscope::testing
