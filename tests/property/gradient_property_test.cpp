#include <cmath>
#include <string_view>
#include <vector>

#include "sim/model/input.h"
#include "sim/model/loss.h"
#include "tests/property/arbitrary_stack.h"
#include "tests/support/doctest.h"
#include "tests/support/edited_weights.h"
#include "tests/support/recorded_stack.h"
#include "tests/support/twin.h"

/// Scale invariance of norm B in both passes (theorem T13), at eps = 0 and without biases.
namespace periscope::testing {
namespace {

using Values = std::vector<double>;

class MatrixRecorder final : public GradientRecorder {
 public:
  MatrixRecorder(const Backend& ops, const ParameterId& matrix) : ops_(ops), matrix_(matrix) {}
  void on_gradient(const ParameterId& parameter, const ParameterGradient& of_parameter) override {
    if (parameter == matrix_) gradient = ops_.to_host(of_parameter.whole());
  }
  Values gradient;

 private:
  const Backend& ops_;
  ParameterId matrix_;
};

struct MatrixGradient {
  Values matrix;
  Values gradient;
  Values logits;
};

/// Runs both passes with the matrix (layer, weight) multiplied by `scale`.
MatrixGradient gradient_of(const Target& target, const StackSpec& spec, std::uint64_t seed, int layer, Weight weight,
                           double scale) {
  const Backend& ops = *target.backend;
  const GeneratedWeights drawn(ops, spec, target.dtype, seed);
  const EditedWeights weights(
      drawn,
      [&](int l, Weight which, const Tensor& w) { return l == layer && which == weight ? ops.scale(scale, w) : w; },
      same_norm);
  std::vector<int> labels;
  for (int t = 0; t < spec.input.tokens; ++t) labels.push_back(t % spec.model.vocab);
  MatrixRecorder recorder(ops, matrix_id(layer, weight));
  const StackContext context{ops, spec.model, weights};
  const Tensor input = gaussian_input(ops, spec, target.dtype, seed);
  const Values logits = ops.to_host(backpropagate(context, input, labels, {.gradients = {&recorder}}).logits);
  return {.matrix = ops.to_host(matrix_of(weights, spec.model, layer, weight)),
          .gradient = recorder.gradient,
          .logits = logits};
}

double dot(const Values& a, const Values& b) {
  double sum = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

/// A stack with well-conditioned norms: LayerNorm of few features may divide by nearly 0.
StackSpec any_stack_with_norm_b() {
  StackSpec spec = placed(any_stack(), any_of<std::string_view>({"peri", "b-only"}));
  spec.model.mlp_width = any_int(8, 24);
  return spec;
}

/// A matrix directly before a norm B.
struct NormedMatrix {
  StackSpec spec = any_stack_with_norm_b();
  std::uint64_t seed = any_seed();
  int layer = any_int(0, spec.model.layers - 1);
  Weight weight = any_of({Weight::down, Weight::o});

  [[nodiscard]] MatrixGradient gradient(const Target& target, double scale) const {
    return gradient_of(target, spec, seed, layer, weight, scale);
  }
};

TEST_CASE("with norm B, scaling W_o or W_down by k preserves the logits and divides the gradient by k (T13)") {
  CHECK(rc::check("any k, to rounding", [] {
    const NormedMatrix m;
    const double k = std::pow(10.0, any_number(-3.0, 3.0));
    for (const Target& target : exact_targets()) {
      const MatrixGradient one = m.gradient(target, 1.0);
      const MatrixGradient other = m.gradient(target, k);
      assert_close(other.logits, one.logits, rounding_of(m.spec.model));
      assert_close(scaled(k, other.gradient), one.gradient, rounding_of(m.spec.model));
    }
  }));
  CHECK(rc::check("a power of two: to the last bit, in every dtype", [] {
    const NormedMatrix m;
    const double k = std::ldexp(1.0, any_int(-10, 10));
    for (const Target& target : targets()) {
      const MatrixGradient one = m.gradient(target, 1.0);
      const MatrixGradient other = m.gradient(target, k);
      RC_ASSERT(other.logits == one.logits);
      RC_ASSERT(scaled(k, other.gradient) == one.gradient);
    }
  }));
}

TEST_CASE("a matrix directly before norm B is orthogonal to its gradient (T13)") {
  // ⟨W, dW⟩ = Σ_t ⟨f_t, df_t⟩, and the backward pass of norm B makes df_t orthogonal to f_t.
  CHECK(rc::check("<W, dW> = 0", [] {
    const NormedMatrix m;
    for (const Target& target : exact_targets()) {
      const MatrixGradient g = m.gradient(target, 1.0);
      const double size = std::sqrt(dot(g.matrix, g.matrix) * dot(g.gradient, g.gradient));
      RC_ASSERT(std::abs(dot(g.matrix, g.gradient)) <= 1e-13 * size);
    }
  }));
}

TEST_CASE("without norm B the logits change with the scale and the gradient is not orthogonal") {
  const StackSpec spec = placed(tiny_stack(), "pre");
  const MatrixGradient one = gradient_of(truth_target(), spec, 1, 1, Weight::down, 1.0);
  const MatrixGradient scaled = gradient_of(truth_target(), spec, 1, 1, Weight::down, 2.0);
  const double size = std::sqrt(dot(one.matrix, one.matrix) * dot(one.gradient, one.gradient));
  CHECK(std::abs(dot(one.matrix, one.gradient)) > 1e-3 * size);
  CHECK(std::abs(scaled.logits[0] - one.logits[0]) > 1e-3);
}

TEST_CASE("the gradient of the unembedding sums to zero over the classes") {
  // Σ_v dU_v = Σ_t (Σ_v dlogits_tv) output_t = 0
  CHECK(rc::check("columns of dU sum to zero", [] {
    StackSpec spec = placed(any_stack(), any_of<std::string_view>({"pre", "post", "peri", "residual-dual"}));
    spec.model.vocab = any_int(2, 9);
    for (const Target& target : exact_targets()) {
      const MatrixGradient g = gradient_of(target, spec, any_seed(), 0, Weight::unembedding, 1.0);
      Values sums(static_cast<std::size_t>(spec.model.width), 0.0);
      double size = 0.0;
      for (std::size_t i = 0; i < g.gradient.size(); ++i) {
        sums[i % sums.size()] += g.gradient[i];
        size += std::abs(g.gradient[i]);
      }
      for (const double sum : sums) RC_ASSERT(std::abs(sum) <= 1e-14 * size);
    }
  }));
}

}  // namespace
}  // namespace periscope::testing
