#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <vector>

#include "tests/support/doctest.h"
#include "theory/certify/computed_ops.h"
#include "theory/certify/rounded_parameters.h"

/// Certificates (T24) for blockwise attention: it accumulates Σp and Σp v, rescales both when the largest score
/// rises, and divides at the end. With R rescalings it must stay within the certificate for n + 2R tokens.
// The inner namespace avoids name clashes in unity builds.
namespace periscope::theory {
namespace {
namespace divided_after {

using Index = Eigen::Index;

/// Output of blockwise attention for one query and one feature.
struct InBlocks {
  double result = 0.0;
  double largest_sum = 0.0;  ///< largest intermediate Σp v
  Index rescalings = 0;
};

InBlocks in_blocks(const RunArithmetic& run, const std::vector<double>& scores, const std::vector<double>& values,
                   std::size_t block) {
  const auto sum = [&](double x) { return rounded_to(run.accumulated, x); };
  InBlocks output;
  double denominator = 0.0;
  double numerator = 0.0;
  double most = -infinity;
  for (std::size_t first = 0; first < scores.size(); first += block) {
    const std::size_t end = std::min(first + block, scores.size());
    double larger = most;
    for (std::size_t i = first; i < end; ++i) larger = std::max(larger, scores[i]);
    if (first > 0) {
      const double factor = sum(std::exp(most - larger));
      denominator = sum(denominator * factor);
      numerator = sum(numerator * factor);
      ++output.rescalings;
    }
    most = larger;
    double of_block = 0.0;
    for (std::size_t i = first; i < end; ++i) {
      const double p = sum(std::exp(scores[i] - most));
      of_block = sum(of_block + p);
      numerator = sum(numerator + sum(rounded_to(run.stored, p) * values[i]));
      output.largest_sum = std::max(output.largest_sum, std::abs(numerator));
    }
    denominator = sum(denominator + of_block);
  }
  output.result = rounded_to(run.stored, sum(numerator / denominator));
  return output;
}

TEST_CASE("attention that divides after averaging stays within the certificate for n + 2R tokens") {
  const NumberFormat& bf16 = number_formats[1];
  const NumberFormat& fp16 = number_formats[2];
  std::mt19937_64 engine(7);
  std::normal_distribution<double> normal;
  int runs = 0;
  double nearest = 0.0;
  for (const RunArithmetic& run :
       {RunArithmetic{Arithmetic::mixed, number_formats[4], bf16}, RunArithmetic{Arithmetic::mixed, bf16, fp16},
        run_arithmetic(Arithmetic::pure, fp16), run_arithmetic(Arithmetic::mixed, fp16)}) {
    INFO(run.stored.name, " ", run.accumulated.name);
    const double u = run.accumulated.unit_roundoff();
    for (const std::size_t n : {1U, 2U, 5U, 24U, 90U}) {
      for (const std::size_t block : {1U, 2U, 4U, 16U}) {
        for (int draw = 0; draw < 24; ++draw) {
          // Scores rise (a rescaling in every block), fall, are equal or are random. Values are 1, near 1 or normal.
          const double step = std::array{0.03, -0.03, 0.0, 0.0}[static_cast<std::size_t>(draw % 4)];
          const double score_noise = draw % 4 == 3 ? 3.0 : 0.0;
          const double value_noise = std::array{0.0, 0.1, 1.0}[static_cast<std::size_t>(draw % 3)];
          std::vector<double> scores, values;
          for (std::size_t i = 0; i < n; ++i) {
            scores.push_back(step * static_cast<double>(i) + score_noise * normal(engine));
            values.push_back(rounded_to(run.stored, (draw % 3 == 2 ? 0.0 : 1.0) + value_noise * normal(engine)));
          }
          const InBlocks output = in_blocks(run, scores, values, block);
          const auto longest = static_cast<Index>(n) + 2 * output.rescalings;
          // The lemma assumes (n + R) u ≤ 1/2.
          if (static_cast<double>(static_cast<Index>(n) + output.rescalings) * u > 0.5) continue;
          ComputedOps ops(run, longest);
          const auto [low, high] = std::ranges::minmax(values);
          const BoundedSet v{Vector::Constant(1, low), Vector::Constant(1, high), {}};
          const BoundedSet set = ops.weighted_values(ops.attention_weights(0), 0, v).set;
          CHECK(output.result >= set.low[0]);
          CHECK(output.result <= set.high[0]);
          CHECK(output.largest_sum <=
                static_cast<double>(n) * v.magnitude()[0] * (1.0 + static_cast<double>(longest) * u));
          ++runs;
          if (draw % 3 == 0) nearest = std::max(nearest, std::abs(output.result - 1.0) / (set.high[0] - 1.0));
        }
      }
    }
  }
  CHECK(runs > 1500);
  CHECK(nearest > 0.05);  // the largest error exceeds 5 % of its bound
}

}  // namespace divided_after
}  // namespace
}  // namespace periscope::theory
