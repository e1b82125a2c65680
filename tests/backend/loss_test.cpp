#include <cmath>
#include <vector>

#include "tests/support/compare.h"
#include "tests/support/doctest.h"
#include "tests/support/tolerances.h"
#include "tests/support/twin.h"

/// Cross-entropy and losses per token on every backend, compared with the reference and with hand-computed values.
namespace periscope::testing {
namespace {

using Index = Tensor::Index;
using Values = std::vector<double>;

TEST_CASE("cross_entropy matches the reference for flat and sharp logits, odd sizes and unlabelled rows") {
  for (const Target& target : targets()) {
    const Backend& ops = *target.backend;
    const CrossEntropy unlabelled =
        ops.cross_entropy(normal_twin(target, 5, 33, 37).here, std::vector<int>(5, no_label));
    CHECK(unlabelled.loss == 0.0);
    CHECK(ops.to_host(unlabelled.dlogits) == Values(5 * 33, 0.0));
    for (const Index rows : {Index{1}, Index{33}}) {
      for (const Index classes : odd_sizes) {
        for (const double stddev : {1e-3, 1.0, 30.0}) {
          INFO("rows := ", rows, ", classes := ", classes, ", stddev := ", stddev);
          const Twin logits = normal_twin(target, rows, classes, 34, stddev);
          std::vector<int> labels;
          for (Index t = 0; t < rows; ++t) labels.push_back(static_cast<int>(t * 7 % classes));
          const CrossEntropy actual = ops.cross_entropy(logits.here, labels);
          const CrossEntropy expected = truth().cross_entropy(logits.truth, labels);
          const double spread = 2.0 * truth().statistics_of(logits.truth, {.top_magnitudes = 1}).top_magnitudes[0];
          const double relative = cross_entropy_error(static_cast<double>(classes), spread, target.dtype);
          Values size = truth().to_host(magnitude(expected.dlogits));  // p/N, or (1 − p)/N at the label
          for (Index t = 0; t < rows; ++t) {
            size[static_cast<std::size_t>(t * classes + labels[static_cast<std::size_t>(t)])] +=
                2.0 / static_cast<double>(rows);
          }
          for (double& s : size) s += smallest_normal(target.dtype) / relative;  // subnormals have fewer digits
          check_close(target.name() + " dlogits", ops.to_host(actual.dlogits), truth().to_host(expected.dlogits),
                      scaled(relative, size));
          check_close(target.name() + " loss", Values{actual.loss}, Values{expected.loss},
                      2.0 * rounding_bound(static_cast<double>(classes + rows) + 16, DType::f64) *
                          (spread + expected.loss + 1.0));
        }
      }
    }
  }
}

TEST_CASE("token losses match hand-computed values, are NaN for unlabelled rows and average to the cross-entropy") {
  const Values values{0, 0, 0, std::log(3.0), 1e4, -1e4};
  const std::vector<int> labels{1, 0, 1};
  const Values by_hand = truth().token_losses(truth().from_host(3, 2, DType::f64, values), labels);
  check_close("by hand", by_hand, Values{std::log(2.0), std::log(4.0), 2e4}, 1e-11);
  for (const Target& target : targets()) {
    const Twin logits = normal_twin(target, 33, 257, 47, 3.0);
    std::vector<int> some(33);
    for (std::size_t t = 0; t < some.size(); ++t) some[t] = t % 4 == 3 ? no_label : static_cast<int>(7 * t);
    const Values losses = target.backend->token_losses(logits.here, some);
    // Bounds the rounding of 257 exponentials of arguments up to 20 and of the logarithm of their sum.
    check_close(target.name() + " token losses", losses, truth().token_losses(logits.truth, some),
                400.0 * unit_roundoff(DType::f64) * 20.0);
    double sum = 0.0;
    for (std::size_t t = 0; t < some.size(); ++t) {
      CHECK(std::isnan(losses[t]) == (some[t] == no_label));
      if (some[t] != no_label) sum += losses[t];
    }
    check_close(target.name() + " mean", Values{sum / 25.0},
                Values{target.backend->cross_entropy(logits.here, some).loss}, 1e-12);
  }
}

}  // namespace
}  // namespace periscope::testing
