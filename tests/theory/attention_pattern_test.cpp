#include "theory/attention/attention_pattern.h"

#include "tests/support/doctest.h"

#include <Eigen/Eigenvalues>
#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <string>
#include <vector>

#include "tests/support/significance.h"
#include "tests/support/targets.h"
#include "theory/kernels/normal_stream.h"

namespace periscope::theory {
namespace {

using testing::Estimate;

const PatternLaw plain_law{.query = {.variance = 1.5, .heads = 1},
                           .key = {.variance = 1.2, .heads = 1},
                           .head_dim = 8,
                           .qk_norm = QkNorm::none,
                           .norm_eps = 0.0,
                           .rope = false,
                           .causal = true};

/// Returns the kernel of five tokens with different second moments and correlations.
Matrix five_tokens() {
  Matrix f(5, 5);
  f << 1.0, 0.0, 0.0, 0.0, 0.0,  //
      0.5, 0.8, 0.0, 0.0, 0.0,   //
      -0.7, 0.3, 0.9, 0.0, 0.0,  //
      0.2, -0.2, 0.4, 0.3, 0.0,  //
      0.9, 0.9, -0.5, 0.1, 0.7;
  return f * f.transpose();
}

Matrix head_output_kernel(const PatternLaw& law, const Matrix& k, int samples, std::uint64_t replicate = 0) {
  return AttentionAverage(law, k.rows())
      .head_output_kernel(k, samples, {.seed = 1, .replicate = replicate, .sublayer = 0});
}

/// Returns mean and standard error of every entry over `draw(0) … draw(count - 1)`; a draw is a list of matrices.
template <class Draw>
std::vector<Estimate> means_of_entries(std::uint64_t count, const Draw& draw) {
  std::vector<std::vector<double>> entries;
  for (std::uint64_t i = 0; i < count; ++i) {
    std::size_t entry = 0;
    for (const Matrix& m : draw(i)) {
      for (const double value : m.reshaped()) {
        if (entries.size() <= entry) entries.emplace_back();
        entries[entry++].push_back(value);
      }
    }
  }
  std::vector<Estimate> means;
  for (const auto& values : entries) means.push_back(testing::estimate(values));
  return means;
}

/// Returns F with F Fᵀ = k; repeated tokens make k singular.
Matrix symmetric_root(const Matrix& k) {
  const Eigen::SelfAdjointEigenSolver<Matrix> of(k);
  return of.eigenvectors() * of.eigenvalues().cwiseMax(0.0).cwiseSqrt().asDiagonal();
}

Tensor tensor_of(const Matrix& x) {
  const Eigen::Matrix<double, -1, -1, Eigen::RowMajor> rows = x;
  return testing::truth().from_host(x.rows(), x.cols(), DType::f64,
                                    std::span(rows.data(), static_cast<std::size_t>(rows.size())));
}

/// Samples queries or keys of all heads, with QK-norm and RoPE if the model has them.
Tensor projection(const PatternLaw& law, const Matrix& factor, double variance, int heads, NormalStream& numbers) {
  const Backend& ops = testing::truth();
  Tensor x = tensor_of(std::sqrt(variance) * factor * numbers.normals(factor.cols(), heads * law.head_dim));
  if (law.qk_norm != QkNorm::none) {
    const int groups = law.qk_norm == QkNorm::full ? 1 : heads;
    x = ops.norm(NormKind::rms, x, ops.constant(1, x.cols() / groups, DType::f64, 1.0), {}, law.norm_eps, groups);
  }
  const std::vector<double> frequencies =
      law.rope_frequencies.empty() ? rope_frequencies(law.head_dim, 10000.0) : law.rope_frequencies;
  return law.rope ? ops.rope(x, heads, 1, frequencies) : x;
}

/// Samples A K Aᵀ of head 0 by the model's attention; the values are the columns of a factor of K.
Matrix simulated_head_output_kernel(const PatternLaw& law, const Matrix& factor, std::uint64_t replicate) {
  const Backend& ops = testing::truth();
  const Eigen::Index tokens = factor.rows();
  const AttentionShape shape{.heads = law.query.heads,
                             .kv_heads = law.key.heads,
                             .head_dim = law.head_dim,
                             .sequences = 1,
                             .causal = law.causal,
                             .scores = law.scores};
  NormalStream numbers({.seed = 99, .replicate = replicate, .place = 0});
  const Tensor q = projection(law, factor, law.query.variance, law.query.heads, numbers);
  const Tensor keys = projection(law, factor, law.key.variance, law.key.heads, numbers);
  Matrix mixed(tokens, tokens);
  for (Eigen::Index first = 0; first < tokens; first += law.head_dim) {
    const Eigen::Index count = std::min<Eigen::Index>(law.head_dim, tokens - first);
    Matrix values = Matrix::Zero(tokens, law.key.heads * law.head_dim);
    values.leftCols(count) = factor.middleCols(first, count);
    const std::vector<double> out = ops.to_host(ops.attention(q, keys, tensor_of(values), shape).mixed);
    const Eigen::Map<const Eigen::Matrix<double, -1, -1, Eigen::RowMajor>> rows(out.data(), tokens,
                                                                                law.query.heads * law.head_dim);
    mixed.middleCols(first, count) = rows.leftCols(count);
  }
  return mixed * mixed.transpose();
}

/// `finite_heads` is a relative tolerance for the limit of many heads, 0 where the theory is exact. The familywise
/// error of all comparisons in this file is 0.1 %.
void check_against_simulation(const std::string& what, const PatternLaw& law, const Matrix& k = five_tokens(),
                              double finite_heads = 0.0) {
  const auto predicted =
      means_of_entries(64, [&](std::uint64_t r) { return std::array{head_output_kernel(law, k, 64, r)}; });
  const Matrix factor = symmetric_root(k);
  const auto simulated =
      means_of_entries(4000, [&](std::uint64_t r) { return std::array{simulated_head_output_kernel(law, factor, r)}; });
  for (std::size_t i = 0; i < predicted.size(); ++i) {
    const double tolerance = finite_heads * std::abs(simulated[i].mean);
    const double distance = std::abs(predicted[i].mean - simulated[i].mean);
    const double allowed = tolerance + testing::most_standard_errors *
                                           std::hypot(predicted[i].standard_error, simulated[i].standard_error);
    // 1e-6 covers rounding, since the theory samples in float
    CHECK_MESSAGE(distance <= allowed + 1e-6, what, " [", i, "]: ", predicted[i].mean, ", simulated ",
                  simulated[i].mean, " +- ", simulated[i].standard_error);
  }
}

TEST_CASE("scores of variance 0 give uniform patterns with exact averages (T3)") {
  const Matrix k = five_tokens();
  for (const bool causal : {true, false}) {
    for (const bool no_queries : {true, false}) {
      PatternLaw law = plain_law;
      law.causal = causal;
      (no_queries ? law.query.variance : law.key.variance) = 0.0;
      CHECK(is_uniform(law));
      const Matrix m = head_output_kernel(law, k, 1);
      for (Eigen::Index t = 0; t < 5; ++t) {
        for (Eigen::Index s = 0; s < 5; ++s) {
          const Eigen::Index rows = causal ? t + 1 : 5;
          const Eigen::Index cols = causal ? s + 1 : 5;
          CHECK(m(t, s) == approx(k.topLeftCorner(rows, cols).mean()).epsilon(1e-14));
        }
      }
    }
  }
  CHECK_FALSE(is_uniform(plain_law));
  PatternLaw windowed = plain_law;
  windowed.scores.window = 2;
  Matrix pattern(3, 3);
  pattern << 1, 0, 0, 0.5, 0.5, 0, 0, 0.5, 0.5;
  CHECK(uniform_pattern(3, windowed).isApprox(pattern, 1e-15));
}

/// Calls visit(name, law) for every mask, with and without RoPE, and for the given norms of queries and keys.
template <class Visit>
void for_laws(std::initializer_list<QkNorm> norms, const Visit& visit) {
  for (const bool causal : {true, false}) {
    for (const bool rope : {true, false}) {
      for (const QkNorm qk_norm : norms) {
        PatternLaw law = plain_law;
        law.causal = causal;
        law.rope = rope;
        law.qk_norm = qk_norm;
        law.norm_eps = 0.2;
        visit("causal " + std::to_string(static_cast<int>(causal)) + ", RoPE " +
                  std::to_string(static_cast<int>(rope)) + ", QK-norm " + std::to_string(static_cast<int>(qk_norm)),
              law);
      }
    }
  }
}

TEST_CASE("the sampled average agrees with simulation for every mask, RoPE, QK-norm and score rule (T4)" *
          doctest::test_suite("slow")) {
  for_laws({QkNorm::none, QkNorm::head},
           [](const std::string& what, const PatternLaw& law) { check_against_simulation(what, law); });
  PatternLaw law = plain_law;
  law.query.variance = law.key.variance = 4.0;
  law.scores.scale = 0.7;
  check_against_simulation("scale", law);
  law.scores.soft_cap = 1.5;
  check_against_simulation("scale, soft cap", law);
  law.scores.window = 2;
  check_against_simulation("scale, soft cap, window", law);
  law.rope = true;
  law.rope_frequencies = {2.0, 1.0, 0.5, 0.25};
  check_against_simulation("scale, soft cap, window, frequencies", law);
  for (const double variance : {0.01, 20.0}) {
    law = plain_law;
    law.query.variance = law.key.variance = variance;
    check_against_simulation("variance " + std::to_string(variance), law);
  }
  // QK-norm over the whole projection is exact for one head; for many the relative error is 1/(heads·head_dim).
  law = plain_law;
  law.qk_norm = QkNorm::full;
  law.rope = true;
  check_against_simulation("full QK-norm, one head", law);
  // With two features per head, a norm per head would change the kernel by up to 13 %.
  law.head_dim = 2;
  law.rope = false;
  law.query.heads = 48;
  law.key.heads = 24;
  check_against_simulation("full QK-norm, many heads", law, five_tokens(), 1.0 / (24 * 2));
  // Repeated tokens make the kernel singular.
  constexpr int ids[] = {0, 1, 0, 2, 1};
  const Matrix k = Matrix::NullaryExpr(5, 5, [&](auto t, auto s) { return ids[t] == ids[s] ? 1.0 : 0.0; });
  for (const bool rope : {false, true}) {
    law = plain_law;
    law.causal = false;
    law.rope = rope;
    check_against_simulation(rope ? "repeated tokens, RoPE" : "repeated tokens", law, k);
  }
}

TEST_CASE("averages are exact for one-token windows, equal tokens, and QK-norm without eps at any scale (T4)") {
  PatternLaw law = plain_law;
  law.scores.window = 1;
  CHECK(head_output_kernel(law, five_tokens(), 2).isApprox(five_tokens(), 1e-6));
  for (const bool rope : {false, true}) {
    law = plain_law;
    law.rope = rope;
    CHECK(head_output_kernel(law, Matrix::Constant(6, 6, 2.5), 4).isApprox(Matrix::Constant(6, 6, 2.5), 1e-5));
  }
  law = plain_law;
  law.qk_norm = QkNorm::head;
  const Matrix expected = head_output_kernel(law, five_tokens(), 8);
  for (const double scale : {1e-30, 1e-3, 1e3, 1e30}) {
    CHECK(head_output_kernel(law, scale * five_tokens(), 8).isApprox(scale * expected, 1e-4));
  }
}

TEST_CASE("scores beyond the range of float select one token and stay finite (T4)") {
  // Kernels of stacks without norms can grow this large.
  const Vector q = five_tokens().diagonal();
  for (const double scale : {1e20, 1e40, 1e80, 1e200}) {
    CAPTURE(scale);
    const Vector m = head_output_kernel(plain_law, scale * five_tokens(), 64).diagonal() / scale;
    bool between = true;
    for (Eigen::Index t = 0; t < 5; ++t) {
      between = between && m(t) >= 0.9999 * q.head(t + 1).minCoeff() && m(t) <= 1.0001 * q.head(t + 1).maxCoeff();
    }
    CHECK(between);
  }
}

TEST_CASE("random numbers depend only on seed, replicate and sublayer") {
  const auto draw = [](std::uint64_t seed, std::uint64_t replicate, std::uint64_t sublayer) {
    return AttentionAverage(plain_law, 5).head_output_kernel(five_tokens(), 2, {seed, replicate, sublayer});
  };
  CHECK(draw(1, 2, 3) == draw(1, 2, 3));
  CHECK(draw(1, 2, 3) != draw(2, 2, 3));
  CHECK(draw(1, 2, 3) != draw(1, 3, 3));
  CHECK(draw(1, 2, 3) != draw(1, 2, 4));
}

TEST_CASE("ScaledKernel factorizes every kernel, even a singular one, and reports whether the factor is triangular") {
  Matrix larger_last = five_tokens();
  larger_last.row(4) *= 3.0;
  larger_last.col(4) *= 3.0;
  Matrix repeated = Matrix::Zero(6, 6);  // tokens 0 and 5 are equal; pivots are out of order
  repeated.topLeftCorner(5, 5) = larger_last;
  repeated.row(5) = repeated.row(0);
  repeated.col(5) = repeated.col(0);
  const Matrix equal = Matrix::Constant(4, 4, 0.7);
  for (const Matrix& k : {five_tokens(), larger_last, repeated, equal}) {
    const ScaledKernel scaled(k);
    const Matrix f = scaled.unit_factor.cast<double>();
    CHECK((scaled.scale * f * f.transpose() - k).cwiseAbs().maxCoeff() < 1e-5 * k.cwiseAbs().maxCoeff());
    if (scaled.triangular) CHECK(f.isLowerTriangular(0.0));
  }
  CHECK(ScaledKernel(five_tokens()).triangular);
  CHECK_FALSE(ScaledKernel(repeated).triangular);
}

/// Compares every entry of the gradient kernels (T9) in closed form with a fully sampled score path.
void check_closed_form(const std::string& what, const PatternLaw& law) {
  const Matrix k = five_tokens();
  Matrix g = five_tokens().reverse();
  g.array() += 0.4;  // a component shared by all tokens
  const AttentionAverage average(law, k.rows());
  const auto kernels = [](const HeadGradients& head) {
    return std::array{head.output, head.value, head.query, head.key};
  };
  const auto closed = means_of_entries(24, [&](std::uint64_t r) {
    return kernels(average.gradients(k, g, 256, {.seed = 1, .replicate = r, .sublayer = 0}));
  });
  const auto sampled = means_of_entries(24, [&](std::uint64_t r) {
    return kernels(average.sampled_gradients(k, k, g, 1024, {.seed = 2, .replicate = r, .sublayer = 0}));
  });
  std::array<double, 4> largest{};
  for (std::size_t i = 0; i < 100; ++i) largest[i / 25] = std::max(largest[i / 25], std::abs(sampled[i].mean));
  for (std::size_t i = 0; i < 100; ++i) {
    const Estimate& p = closed[i];
    const Estimate& q = sampled[i];
    const double allowed = testing::most_standard_errors * std::hypot(p.standard_error, q.standard_error);
    // Rounding of sums of 256 floats. The closed form has four terms that may cancel.
    const double rounding = 0x1p-24 * (256 * std::abs(q.mean) + 4 * largest[i / 25]);
    CHECK_MESSAGE(std::abs(p.mean - q.mean) <= allowed + rounding, what, " [", i, "]: ", p.mean, ", sampled ", q.mean,
                  " +- ", q.standard_error);
  }
}

TEST_CASE("the closed form agrees with the sampled score path for every mask, RoPE, norm and score rule (T9)" *
          doctest::test_suite("slow")) {
  for_laws({QkNorm::none, QkNorm::head, QkNorm::full}, [](const std::string& what, PatternLaw law) {
    law.query.heads = 3;
    check_closed_form(what, law);
  });
  PatternLaw law = plain_law;
  law.scores = {.scale = 0.5, .soft_cap = 1.5, .window = 2};
  check_closed_form("scale, soft cap, window", law);
  law.rope = true;
  check_closed_form("scale, soft cap, window, rope", law);
  law = plain_law;
  law.query.variance = 0.0;  // uniform patterns, but a nonzero gradient of queries
  check_closed_form("no queries", law);
}

TEST_CASE("scores of equal tokens, or of one token, have a gradient of exactly 0 (T9)") {
  for (const bool rope : {false, true}) {
    PatternLaw law = plain_law;
    law.rope = rope;
    for (const Matrix& k : {Matrix(Matrix::Constant(6, 6, 1.0 / 3.0)), Matrix(Matrix::Constant(1, 1, 0.7))}) {
      const Matrix g = Matrix::Identity(k.rows(), k.rows());
      const HeadGradients head =
          AttentionAverage(law, k.rows()).gradients(k, g, 4, {.seed = 1, .replicate = 0, .sublayer = 0});
      CHECK(head.query == Matrix::Zero(k.rows(), k.rows()));
      CHECK(head.key == head.query);
      CHECK(head.output.isApprox(k, 1e-15));
      CHECK((head.output.array() == head.output(0, 0)).all());
      CHECK(head.value.sum() == approx(g.sum()));
    }
  }
}

TEST_CASE("gradients cover all tokens of patterns with several blocks (T9)") {
  constexpr Eigen::Index tokens = 37;
  Matrix k = Matrix::Constant(tokens, tokens, 0.3);
  k.diagonal().setOnes();
  const Matrix g = Vector::LinSpaced(tokens, 1.0, 2.0).asDiagonal();
  PatternLaw windowed = plain_law;
  windowed.scores.window = tokens;  // covers all tokens; disables the shortcut for causal products
  const PatternStream stream{.seed = 3, .replicate = 0, .sublayer = 0};
  const AttentionAverage average(plain_law, tokens);
  CHECK(average.gradients(k, g, 2, stream)
            .key.isApprox(AttentionAverage(windowed, tokens).gradients(k, g, 2, stream).key, 1e-12));
  const HeadGradients sampled = average.sampled_gradients(k, k, g, 512, stream);
  const HeadGradients closed = average.gradients(k, g, 512, stream);
  CHECK(closed.output.isApprox(sampled.output, 1e-5));  // both use the same patterns
  CHECK(closed.value.isApprox(sampled.value, 1e-5));
  CHECK(closed.query.trace() == approx(sampled.query.trace()).epsilon(0.05));
  CHECK(closed.key.trace() == approx(sampled.key.trace()).epsilon(0.05));
}

}  // namespace
}  // namespace periscope::theory
