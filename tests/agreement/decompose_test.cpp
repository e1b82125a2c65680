#include "experiments/studies/gradients/decompose.h"

#include <cmath>

#include "sim/measure/signal_store.h"
#include "sim/model/loss.h"
#include "tests/support/doctest.h"
#include "tests/support/finite_difference.h"
#include "tests/support/recorded_stack.h"

namespace periscope::testing {
namespace {

const std::vector<int> labels{1, 2, 3, 4, 5};

gradients::GradientPathSizes sizes_of(const StackSpec& spec, std::uint64_t seed) {
  const GeneratedWeights weights(truth(), spec, DType::f64, seed);
  return gradients::decompose_gradient({truth(), spec.model, weights, 1},
                                       gaussian_input(truth(), spec, DType::f64, seed), labels);
}

}  // namespace

TEST_CASE("gradient paths add up to the gradient for every placement with one stream, and none is negligible (G11)") {
  for (const Placement& placement : placement_table()) {
    if (placement.wiring == Wiring::dual || !is_plain(placement)) continue;
    CAPTURE(placement.name);
    for (const std::uint64_t seed : {1U, 2U, 3U}) {
      const gradients::GradientPathSizes p = sizes_of(placed(tiny_stack(), placement.name), seed);
      REQUIRE(p.total.size() == 5);
      // Each of 4 sublayers rounds a few sums over at most 24 terms.
      CHECK(p.error < 4 * 6 * 24 * 2.3e-16);
      for (const double b : p.branch) CHECK(b > 1e-8 * p.total.back());  // each term is visible in the sum
      CHECK(p.skip.back() == p.total.back());
      CHECK(p.rest.back() == 0.0);
    }
  }
}

TEST_CASE("the skip path is the identity without a norm after the sum, and only then (G11)") {
  for (const char* name : {"none", "pre", "peri", "b-only", "lns", "depth-scaled"}) {
    const gradients::GradientPathSizes p = sizes_of(placed(tiny_stack(), name), 4);
    for (const double s : p.skip) CHECK(s == p.skip.back());
  }
  for (const char* name : {"post", "a+c", "deepnorm"}) {
    const gradients::GradientPathSizes p = sizes_of(placed(tiny_stack(), name), 4);
    CHECK(std::abs(p.skip.front() / p.skip.back() - 1.0) > 1e-3);
  }
}

TEST_CASE("a branch gradient is the derivative of the loss with respect to that branch's input") {
  for (const char* name : {"pre", "peri", "post"}) {
    StackSpec spec = placed(tiny_stack(), name);
    spec.model.mlp = MlpKind::swiglu;
    const GeneratedWeights weights(truth(), spec, DType::f64, 5);
    const StackContext context{truth(), spec.model, weights, 1};
    const Tensor x = gaussian_input(truth(), spec, DType::f64, 5);
    const Tensor direction = truth().normal(x.rows(), x.cols(), DType::f64, {9, 0, Stream{}}, 1.0);
    const auto signal_of = [&](int sublayer, const Tensor& in, Signal signal) {
      SignalStore signals(Pass::forward);
      StepPass pass(context, {.recorders = {&signals}}, sublayer, Pass::forward, Save::nothing);
      (void)step_forward(pass, {in});
      return signals.at(sublayer, signal);
    };
    for (const int l : {2, 3}) {
      CAPTURE(name);
      CAPTURE(l);
      Tensor stream = x;
      for (int i = 0; i < l; ++i) stream = signal_of(i, stream, Signal::x_out);
      const SublayerRule rule = spec.model.rule(l);
      // The loss as a function of the input of norm C.
      const auto after = [&](const Tensor& sum) {
        Tensor y = rule.norm_c ? truth().norm(spec.model.norm, sum, weights.fetch(l).norm(Weight::norm_c).gain, {},
                                              spec.model.norm_eps)
                               : sum;
        for (int i = l + 1; i < 4; ++i) y = signal_of(i, y, Signal::x_out);
        if (spec.model.final_norm) {
          y = truth().norm(spec.model.norm, y, weights.fetch(4).norm(Weight::final_norm).gain, {}, spec.model.norm_eps);
        }
        return loss_of(context, y, labels).value;
      };
      const auto branch_at = [&](double step) {
        const Tensor moved = truth().axpby(1.0, stream, step, direction);
        return truth().axpby(rule.alpha, stream, rule.beta, signal_of(l, moved, Signal::B_out));
      };
      const double numeric = derivative([&](double step) { return after(branch_at(step)); }, 1e-3);
      // The same derivative as b = Jᵀ dsum, with dsum from finite differences of every entry.
      const Tensor sum = branch_at(0.0);
      std::vector<double> dsum = truth().to_host(sum);
      const std::vector<double> at = dsum;
      for (std::size_t i = 0; i < at.size(); ++i) {
        dsum[i] = derivative(
            [&](double step) {
              std::vector<double> values = at;
              values[i] += step;
              return after(truth().from_host(sum.rows(), sum.cols(), DType::f64, values));
            },
            1e-3);
      }
      const Tensor b =
          gradients::branch_gradient(context, l, stream, truth().from_host(sum.rows(), sum.cols(), DType::f64, dsum));
      double analytic = 0.0;
      for (const double v : truth().row_dots(b, direction)) analytic += v;
      CHECK(std::abs(numeric) > 1e-4);
      CHECK(analytic == doctest::Approx(numeric).epsilon(1e-8));
    }
  }
}

}  // namespace periscope::testing
