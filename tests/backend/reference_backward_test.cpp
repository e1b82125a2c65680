#include <functional>
#include <string>
#include <vector>

#include "tests/support/doctest.h"
#include "tests/support/finite_difference.h"
#include "tests/support/targets.h"
#include "tests/support/tolerances.h"

/// Backward ops of the reference at points where finite differences of a whole stack (tests/gradient) do not reach:
/// zero rows, kinks and saturated logits.
namespace periscope::testing {
namespace {

using Index = Tensor::Index;
using Values = std::vector<double>;

Tensor random_tensor(Index rows, Index cols, std::uint32_t stream, double stddev = 1.0) {
  return truth().normal(rows, cols, DType::f64, {20240229, 0, Stream{stream}}, stddev);
}

TEST_CASE("norm_backward: a zero row without eps has no gradient except that of the bias") {
  const Tensor x = truth().constant(1, 4, DType::f64, 0.0);
  const Tensor dy = random_tensor(1, 4, 9);
  const NormGradient g = truth().norm_backward(NormKind::rms, x, random_tensor(1, 4, 7), dy, 0.0);
  CHECK(truth().to_host(g.dx) == Values(4, 0.0));
  CHECK(truth().to_host(g.dgain) == Values(4, 0.0));
  CHECK(truth().to_host(g.dbias) == truth().to_host(dy));
}

TEST_CASE("activate_backward: the slope of ReLU at 0 is 0") {
  CHECK(truth().to_host(truth().activate_backward(Activation::relu, truth().constant(1, 1, DType::f64, 0.0),
                                                  truth().constant(1, 1, DType::f64, 1.0))) == Values{0.0});
}

TEST_CASE("cross_entropy: the gradient matches finite differences, loss and gradient match hand-computed values") {
  const std::vector<int> labels{2, 0, 2};
  const Tensor logits = random_tensor(3, 4, 18, 2.0);
  const auto loss = [&](std::span<const double> values) {
    return truth().cross_entropy(truth().from_host(3, 4, DType::f64, values), labels).loss;
  };
  const CrossEntropy out = truth().cross_entropy(logits, labels);
  check_gradient("dlogits", {.loss = loss,
                             .point = truth().to_host(logits),
                             .gradient = truth().to_host(out.dlogits),
                             .loss_error = rounding_bound(40, DType::f64)});
  // p = (1/4, 3/4): −log(3/4); equal logits: log 2
  const Tensor two = truth().from_host(2, 2, DType::f64, Values{0.0, std::log(3.0), 5.0, 5.0});
  const CrossEntropy by_hand = truth().cross_entropy(two, std::vector<int>{1, 0});
  CHECK(by_hand.loss == doctest::Approx(0.5 * (std::log(4.0 / 3.0) + std::log(2.0))).epsilon(1e-15));
  const Values expected{0.125, -0.125, -0.25, 0.25};
  const Values actual = truth().to_host(by_hand.dlogits);
  for (std::size_t i = 0; i < 4; ++i) CHECK(actual[i] == doctest::Approx(expected[i]).epsilon(1e-14));
}

TEST_CASE("cross_entropy: logits that differ by 2e4") {
  const CrossEntropy out =
      truth().cross_entropy(truth().from_host(2, 2, DType::f64, Values{1e4, -1e4, 1e4, -1e4}), std::vector<int>{0, 1});
  CHECK(out.loss == 1e4);
  CHECK(truth().to_host(out.dlogits) == Values{0.0, 0.0, 0.5, -0.5});
}

}  // namespace
}  // namespace periscope::testing
