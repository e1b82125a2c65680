#include <functional>
#include <string>
#include <vector>

#include "tests/support/doctest.h"
#include "tests/support/finite_difference.h"
#include "tests/support/targets.h"
#include "tests/support/tolerances.h"

/// Backward ops of norms, activations and the loss: the reference's gradient of ⟨dy, op(x)⟩ with respect to x must
/// match finite differences. The other ops are covered by the gradients of whole stacks in tests/gradient.
namespace periscope::testing {
namespace {

using Index = Tensor::Index;
using Values = std::vector<double>;

Tensor random_tensor(Index rows, Index cols, std::uint32_t stream, double stddev = 1.0) {
  return truth().normal(rows, cols, DType::f64, {20240229, 0, Stream{stream}}, stddev);
}

double dot(const Tensor& a, const Tensor& b) {
  double sum = 0.0;
  for (const double row : truth().row_dots(a, b)) sum += row;
  return sum;
}

/// Checks the gradient dx of ⟨dy, op(x)⟩ at every entry of x. The tolerance is valid for sums of up to 200 terms
/// near 1.
void check_op(const std::string& what, const std::function<Tensor(const Tensor&)>& op, const Tensor& x,
              const Tensor& dy, const Tensor& dx) {
  REQUIRE(dx.rows() == x.rows());
  REQUIRE(dx.cols() == x.cols());
  check_gradient(what, {.loss =
                            [&](std::span<const double> values) {
                              return dot(dy, op(truth().from_host(x.rows(), x.cols(), DType::f64, values)));
                            },
                        .point = truth().to_host(x),
                        .gradient = truth().to_host(dx),
                        .loss_error = rounding_bound(200, DType::f64) * std::sqrt(dot(dy, dy))});
}

TEST_CASE("norm: gradients of input, gain, bias and alpha match finite differences for every kind and grouping") {
  for (std::size_t number = 0; number < norm_table.size(); ++number) {
    const auto kind = static_cast<NormKind>(number);
    const bool has_alpha = facts_of(kind).has_alpha();
    for (const double eps : {0.0, 0.5}) {
      for (const int groups : {1, 3}) {
        const Tensor x = random_tensor(4, 6 * groups, 6);
        const Tensor gain = random_tensor(1, 6, 7);
        const Tensor bias = random_tensor(1, 6, 8);
        const Tensor dy = random_tensor(4, 6 * groups, 9);
        const Tensor alpha = has_alpha ? random_tensor(1, 1, 10) : Tensor{};
        const NormGradient g = truth().norm_backward(kind, x, gain, dy, eps, groups, alpha);
        check_op(
            "dx", [&](const Tensor& t) { return truth().norm(kind, t, gain, bias, eps, groups, alpha); }, x, dy, g.dx);
        check_op(
            "dgain", [&](const Tensor& t) { return truth().norm(kind, x, t, bias, eps, groups, alpha); }, gain, dy,
            g.dgain);
        check_op(
            "dbias", [&](const Tensor& t) { return truth().norm(kind, x, gain, t, eps, groups, alpha); }, bias, dy,
            g.dbias);
        if (!has_alpha) continue;
        check_op(
            "dalpha", [&](const Tensor& t) { return truth().norm(kind, x, gain, bias, eps, groups, t); }, alpha, dy,
            g.dalpha);
      }
    }
  }
}

TEST_CASE("activations and gates: gradients match finite differences away from the kink of ReLU") {
  Values values;
  for (int i = 0; i < 60; ++i) values.push_back(0.2 * i - 5.9);
  const Tensor x = truth().from_host(1, 60, DType::f64, values);
  const Tensor up = random_tensor(1, 60, 16);
  const Tensor dy = random_tensor(1, 60, 17);
  for (const Activation kind :
       {Activation::relu, Activation::gelu, Activation::silu, Activation::gelu_tanh, Activation::sigmoid}) {
    check_op(
        "dx", [&](const Tensor& t) { return truth().activate(kind, t); }, x, dy,
        truth().activate_backward(kind, x, dy));
    const GatedGradient g = truth().gated_backward(kind, x, up, dy);
    check_op(
        "dgate", [&](const Tensor& t) { return truth().gated(kind, t, up); }, x, dy, g.dgate);
    check_op(
        "dup", [&](const Tensor& t) { return truth().gated(kind, x, t); }, up, dy, g.dup);
  }
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
  // Row 0 has p = (1/4, 3/4) and the loss −log(3/4); row 1 has equal logits and the loss log 2.
  const Tensor two = truth().from_host(2, 2, DType::f64, Values{0.0, std::log(3.0), 5.0, 5.0});
  const CrossEntropy by_hand = truth().cross_entropy(two, std::vector<int>{1, 0});
  CHECK(by_hand.loss == approx(0.5 * (std::log(4.0 / 3.0) + std::log(2.0))).epsilon(1e-15));
  const Values expected{0.125, -0.125, -0.25, 0.25};
  const Values actual = truth().to_host(by_hand.dlogits);
  for (std::size_t i = 0; i < 4; ++i) CHECK(actual[i] == approx(expected[i]).epsilon(1e-14));
}

TEST_CASE("cross_entropy is exact for logits that differ by 2e4") {
  const CrossEntropy out =
      truth().cross_entropy(truth().from_host(2, 2, DType::f64, Values{1e4, -1e4, 1e4, -1e4}), std::vector<int>{0, 1});
  CHECK(out.loss == 1e4);
  CHECK(truth().to_host(out.dlogits) == Values{0.0, 0.0, 0.5, -0.5});
}

}  // namespace
}  // namespace periscope::testing
