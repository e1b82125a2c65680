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

using doctest::Approx;
using testing::Estimate;

const PatternLaw plain_law{.query = {.variance = 1.5, .heads = 1},
                           .key = {.variance = 1.2, .heads = 1},
                           .head_dim = 8,
                           .qk_norm = QkNorm::none,
                           .norm_eps = 0.0,
                           .rope = false,
                           .causal = true};

/// Kernel of five tokens with different second moments and correlations.
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

/// Predicted average per entry, with its standard error over replicates.
std::vector<Estimate> replicated(const PatternLaw& law, const Matrix& k) {
  constexpr int replicates = 64;
  constexpr int samples = 64;
  std::vector<std::vector<double>> values(static_cast<std::size_t>(k.size()));
  for (int r = 0; r < replicates; ++r) {
    const Matrix m = head_output_kernel(law, k, samples, static_cast<std::uint64_t>(r));
    for (Eigen::Index i = 0; i < m.size(); ++i) values[static_cast<std::size_t>(i)].push_back(m(i));
  }
  std::vector<Estimate> estimates;
  for (const auto& v : values) estimates.push_back(testing::estimate(v));
  return estimates;
}

/// Returns F with F Fᵀ = k, singular for repeated tokens.
Matrix symmetric_root(const Matrix& k) {
  const Eigen::SelfAdjointEigenSolver<Matrix> of(k);
  return of.eigenvectors() * of.eigenvalues().cwiseMax(0.0).cwiseSqrt().asDiagonal();
}

Tensor tensor_of(const Matrix& x) {
  const Eigen::Matrix<double, -1, -1, Eigen::RowMajor> rows = x;
  return testing::truth().from_host(x.rows(), x.cols(), DType::f64,
                                    std::span(rows.data(), static_cast<std::size_t>(rows.size())));
}

/// Queries or keys of all heads, as the model prepares them.
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

/// E_A[A K Aᵀ] of head 0 by the attention of the model, with columns of a factor of K as values.
std::vector<Estimate> simulated_head_output_kernel(const PatternLaw& law, const Matrix& k, int samples) {
  const Backend& ops = testing::truth();
  const Eigen::Index tokens = k.rows();
  const Matrix factor = symmetric_root(k);
  const AttentionShape shape{.heads = law.query.heads,
                             .kv_heads = law.key.heads,
                             .head_dim = law.head_dim,
                             .sequences = 1,
                             .causal = law.causal,
                             .scores = law.scores};
  std::vector<std::vector<double>> draws(static_cast<std::size_t>(k.size()));
  for (int n = 0; n < samples; ++n) {
    NormalStream numbers({.seed = 99, .replicate = static_cast<std::uint64_t>(n), .place = 0});
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
    const Matrix kernel = mixed * mixed.transpose();
    for (Eigen::Index i = 0; i < kernel.size(); ++i) draws[static_cast<std::size_t>(i)].push_back(kernel(i));
  }
  std::vector<Estimate> estimates;
  for (const std::vector<double>& draw : draws) estimates.push_back(testing::estimate(draw));
  return estimates;
}

/// `finite_heads` is a relative tolerance for the limit of many heads, 0 where the theory is exact. The familywise
/// error of all comparisons in this file is 0.1 %.
void check_against_simulation(const std::string& what, const PatternLaw& law, const Matrix& k,
                              double finite_heads = 0.0) {
  const std::vector<Estimate> predicted = replicated(law, k);
  const std::vector<Estimate> simulated = simulated_head_output_kernel(law, k, 4000);
  for (std::size_t i = 0; i < predicted.size(); ++i) {
    const double tolerance = finite_heads * std::abs(simulated[i].mean);
    const double distance = std::abs(predicted[i].mean - simulated[i].mean);
    const double allowed = tolerance + testing::most_standard_errors *
                                           std::hypot(predicted[i].standard_error, simulated[i].standard_error);
    // 1e-6: theory samples in float
    CHECK_MESSAGE(distance <= allowed + 1e-6, what, " [", i, "]: ", predicted[i].mean, " against ", simulated[i].mean,
                  " +- ", simulated[i].standard_error);
  }
}

TEST_CASE("T3: uniform patterns by hand") {
  Matrix causal(3, 3);
  causal << 1, 0, 0, 0.5, 0.5, 0, 1.0 / 3, 1.0 / 3, 1.0 / 3;
  PatternLaw law = plain_law;
  CHECK(uniform_pattern(3, law).isApprox(causal, 1e-15));
  law.scores.window = 2;
  causal.row(2) << 0, 0.5, 0.5;
  CHECK(uniform_pattern(3, law).isApprox(causal, 1e-15));
  law = plain_law;
  law.causal = false;
  CHECK(uniform_pattern(3, law).isApprox(Matrix::Constant(3, 3, 1.0 / 3), 1e-15));
}

TEST_CASE("T3: without scores the pattern is uniform and its average exact") {
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
          CHECK(m(t, s) == Approx(k.topLeftCorner(rows, cols).mean()).epsilon(1e-14));
        }
      }
    }
  }
  CHECK_FALSE(is_uniform(plain_law));
}

TEST_CASE("T4: the sampled average against a simulation, for every mask, RoPE and QK-norm per head") {
  for (const bool causal : {true, false}) {
    for (const bool rope : {true, false}) {
      for (const QkNorm qk_norm : {QkNorm::none, QkNorm::head}) {
        PatternLaw law = plain_law;
        law.causal = causal;
        law.rope = rope;
        law.qk_norm = qk_norm;
        law.norm_eps = 0.2;
        check_against_simulation(
            std::string(causal ? "causal " : "") + (rope ? "rope " : "") + (qk_norm == QkNorm::head ? "norm" : ""), law,
            five_tokens());
      }
    }
  }
}

TEST_CASE("T4: score rules of checkpoints against a simulation: scale, soft cap, window, RoPE frequencies") {
  PatternLaw law = plain_law;
  law.query.variance = law.key.variance = 4.0;
  law.scores.scale = 0.7;
  check_against_simulation("scale", law, five_tokens());
  law.scores.soft_cap = 1.5;
  check_against_simulation("scale, soft cap", law, five_tokens());
  law.scores.window = 2;
  check_against_simulation("scale, soft cap, window", law, five_tokens());
  law.rope = true;
  law.rope_frequencies = {2.0, 1.0, 0.5, 0.25};
  check_against_simulation("scale, soft cap, window, frequencies", law, five_tokens());
}

TEST_CASE("T4: with a window of one token every token attends to itself") {
  PatternLaw law = plain_law;
  law.scores.window = 1;
  CHECK(head_output_kernel(law, five_tokens(), 2).isApprox(five_tokens(), 1e-6));
}

TEST_CASE(
    "T4: QK-norm over the whole projection against a simulation, exact for one head, to 1/(heads*head_dim) for many") {
  PatternLaw law = plain_law;
  law.qk_norm = QkNorm::full;
  law.rope = true;
  check_against_simulation("one head", law, five_tokens());
  // With two features per head, a norm per head would change the kernel by up to 13 %.
  law.head_dim = 2;
  law.rope = false;
  law.query.heads = 48;
  law.key.heads = 24;
  check_against_simulation("many heads", law, five_tokens(), 1.0 / (24 * 2));
}

TEST_CASE("T4: strong and weak scores against a simulation") {
  for (const double variance : {0.01, 20.0}) {
    PatternLaw law = plain_law;
    law.query.variance = law.key.variance = variance;
    check_against_simulation("variance " + std::to_string(variance), law, five_tokens());
  }
}

TEST_CASE("T4: repeated tokens, whose kernel is singular, against a simulation") {
  constexpr int ids[] = {0, 1, 0, 2, 1};
  Matrix k(5, 5);
  for (int t = 0; t < 5; ++t) {
    for (int s = 0; s < 5; ++s) k(t, s) = ids[t] == ids[s] ? 1.0 : 0.0;
  }
  for (const bool rope : {false, true}) {
    PatternLaw law = plain_law;
    law.causal = false;
    law.rope = rope;
    check_against_simulation(rope ? "repeated, rope" : "repeated", law, k);
  }
  PatternLaw law = plain_law;
  law.causal = false;
  const Matrix m = head_output_kernel(law, k, 16);
  CHECK(m.row(0).isApprox(m.row(2), 1e-5));
  CHECK(m.col(1).isApprox(m.col(4), 1e-5));
}

TEST_CASE("T4: attention over equal tokens returns the token") {
  for (const bool rope : {false, true}) {
    PatternLaw law = plain_law;
    law.rope = rope;
    CHECK(head_output_kernel(law, Matrix::Constant(6, 6, 2.5), 4).isApprox(Matrix::Constant(6, 6, 2.5), 1e-5));
  }
}

TEST_CASE("T4: with QK-norm and no eps the pattern does not depend on the scale of the kernel") {
  PatternLaw law = plain_law;
  law.qk_norm = QkNorm::head;
  const Matrix expected = head_output_kernel(law, five_tokens(), 8);
  for (const double scale : {1e-30, 1e-3, 1e3, 1e30}) {
    CHECK(head_output_kernel(law, scale * five_tokens(), 8).isApprox(scale * expected, 1e-4));
  }
}

TEST_CASE("T4: scores beyond the range of float select one token and stay finite") {
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

TEST_CASE("random numbers depend on seed, replicate and sublayer only") {
  const auto draw = [](std::uint64_t seed, std::uint64_t replicate, std::uint64_t sublayer) {
    return AttentionAverage(plain_law, 5).head_output_kernel(five_tokens(), 2, {seed, replicate, sublayer});
  };
  CHECK(draw(1, 2, 3) == draw(1, 2, 3));
  CHECK(draw(1, 2, 3) != draw(2, 2, 3));
  CHECK(draw(1, 2, 3) != draw(1, 3, 3));
  CHECK(draw(1, 2, 3) != draw(1, 2, 4));
}

TEST_CASE("ScaledKernel factorizes any kernel, also a singular one, and knows whether the factor is triangular") {
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

/// Compares every entry of the gradient kernels (T9): closed form against a fully sampled score path.
void check_closed_form(const std::string& what, const PatternLaw& law) {
  const Matrix k = five_tokens();
  Matrix g = five_tokens().reverse();
  g.array() += 0.4;  // a part common to all tokens
  const AttentionAverage average(law, k.rows());
  const auto kernels = [](const HeadGradients& head) {
    return std::array{head.output, head.value, head.query, head.key};
  };
  constexpr int replicates = 24;
  std::vector<std::vector<double>> closed(4 * 25);
  std::vector<std::vector<double>> sampled(4 * 25);
  for (std::uint64_t r = 0; r < replicates; ++r) {
    const auto a = kernels(average.gradients(k, g, 256, {.seed = 1, .replicate = r, .sublayer = 0}));
    const auto b = kernels(average.sampled_gradients(k, k, g, 1024, {.seed = 2, .replicate = r, .sublayer = 0}));
    for (std::size_t i = 0; i < 100; ++i) {
      closed[i].push_back(a[i / 25](static_cast<Eigen::Index>(i % 25)));
      sampled[i].push_back(b[i / 25](static_cast<Eigen::Index>(i % 25)));
    }
  }
  std::array<double, 4> largest{};
  for (std::size_t i = 0; i < 100; ++i) {
    largest[i / 25] = std::max(largest[i / 25], std::abs(testing::estimate(sampled[i]).mean));
  }
  for (std::size_t i = 0; i < 100; ++i) {
    const Estimate p = testing::estimate(closed[i]);
    const Estimate q = testing::estimate(sampled[i]);
    const double allowed = testing::most_standard_errors * std::hypot(p.standard_error, q.standard_error);
    // Sums of 256 floats; the four terms of the closed form, as large as the largest entry, may cancel.
    const double rounding = 0x1p-24 * (256 * std::abs(q.mean) + 4 * largest[i / 25]);
    CHECK_MESSAGE(std::abs(p.mean - q.mean) <= allowed + rounding, what, " [", i, "]: ", p.mean, " against ", q.mean,
                  " +- ", q.standard_error);
  }
}

TEST_CASE("T9: the closed form against the sampled score path, for every mask, RoPE, norm and score rule") {
  for (const bool causal : {true, false}) {
    for (const bool rope : {true, false}) {
      for (const QkNorm qk_norm : {QkNorm::none, QkNorm::head, QkNorm::full}) {
        PatternLaw law = plain_law;
        law.causal = causal;
        law.rope = rope;
        law.qk_norm = qk_norm;
        law.query.heads = 3;
        law.norm_eps = 0.2;
        check_closed_form(std::string(causal ? "causal " : "") + (rope ? "rope " : "") +
                              (qk_norm == QkNorm::head   ? "norm"
                               : qk_norm == QkNorm::full ? "full norm"
                                                         : ""),
                          law);
      }
    }
  }
  PatternLaw law = plain_law;
  law.scores = {.scale = 0.5, .soft_cap = 1.5, .window = 2};
  check_closed_form("scale, soft cap, window", law);
  law.rope = true;
  check_closed_form("scale, soft cap, window, rope", law);
  law = plain_law;
  law.query.variance = 0.0;  // uniform patterns, but a nonzero gradient of queries
  check_closed_form("no queries", law);
}

TEST_CASE("T9: scores of equal tokens, or of one token, have a gradient of exactly 0") {
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
      CHECK(head.value.sum() == Approx(g.sum()));
    }
  }
}

TEST_CASE("T9: products of patterns and kernels cover all tokens at block boundaries") {
  // More tokens than one block of a causal product. A window of all tokens disables the causal shortcut.
  constexpr Eigen::Index tokens = 37;
  Matrix k = Matrix::Constant(tokens, tokens, 0.3);
  k.diagonal().setOnes();
  const Matrix g = Vector::LinSpaced(tokens, 1.0, 2.0).asDiagonal();
  PatternLaw windowed = plain_law;
  windowed.scores.window = tokens;  // all tokens
  const PatternStream stream{.seed = 3, .replicate = 0, .sublayer = 0};
  const HeadGradients a = AttentionAverage(plain_law, tokens).gradients(k, g, 2, stream);
  const HeadGradients b = AttentionAverage(windowed, tokens).gradients(k, g, 2, stream);
  CHECK(a.key.isApprox(b.key, 1e-12));
  const HeadGradients sampled = AttentionAverage(plain_law, tokens).sampled_gradients(k, k, g, 512, stream);
  const HeadGradients many = AttentionAverage(plain_law, tokens).gradients(k, g, 512, stream);
  CHECK(many.output.isApprox(sampled.output, 1e-5));  // the same patterns
  CHECK(many.value.isApprox(sampled.value, 1e-5));
  CHECK(many.query.trace() == Approx(sampled.query.trace()).epsilon(0.05));
  CHECK(many.key.trace() == Approx(sampled.key.trace()).epsilon(0.05));
}

}  // namespace
}  // namespace periscope::theory
