#include <string_view>

#include "sim/model/modules.h"
#include "tests/property/arbitrary_stack.h"
#include "tests/support/compare.h"
#include "tests/support/doctest.h"
#include "tests/support/edited_weights.h"
#include "tests/support/recorded_stack.h"

/// Equivalent placements (theorem T13), at eps = 0 and without biases.
namespace periscope::testing {
namespace {

void assert_same_streams(const RecordedStack& a, const RecordedStack& b, const ModelSpec& m) {
  for (int l = 0; l < m.sublayers(); ++l) assert_close(a.at(l, Signal::x_out), b.at(l, Signal::x_out), rounding_of(m));
}

/// Gaussian input with normalized tokens: second moment `scale`², and mean 0 for LayerNorm.
Tensor equal_norm_input(const Target& target, const StackSpec& spec, std::uint64_t seed, double scale) {
  const Backend& ops = *target.backend;
  const Tensor gain = ops.constant(1, spec.model.width, target.dtype, scale);
  return ops.norm(spec.model.norm, gaussian_input(ops, spec, target.dtype, seed), gain, {}, 0.0);
}

RecordedStack record_from(const Target& target, const StackSpec& spec, std::string_view placement, std::uint64_t seed,
                          const Tensor& input) {
  const StackSpec stack = placed(spec, placement);
  const GeneratedWeights weights(*target.backend, stack, target.dtype, seed);
  return record_stack({.ops = *target.backend, .model = stack.model, .weights = weights}, input);
}

/// Largest difference between the streams of two placements; entries are about 1.
double difference(const StackSpec& spec, std::string_view a, std::string_view b, const Tensor& input) {
  return residual(record_from(truth_target(), spec, a, 1, input).stream,
                  record_from(truth_target(), spec, b, 1, input).stream, 1.0)
      .worst;
}

TEST_CASE("A+C equals Post-LN for input normalized to the gain of norms A and C (T13)") {
  // Norm A is the identity for this input and for outputs of norm C. Any positive scalar gain works, not only 1 (T13).
  CHECK(rc::check("a+c = post", [] {
    const StackSpec spec = any_stack();
    const std::uint64_t seed = any_seed();
    for (const Target& target : exact_targets()) {
      const Tensor input = equal_norm_input(target, spec, seed, spec.model.gamma);
      assert_same_streams(record_from(target, spec, "a+c", seed, input), record_from(target, spec, "post", seed, input),
                          spec.model);
    }
  }));
}

TEST_CASE("A+C equals Post-LN after the first sublayer for any input (T13)") {
  CHECK(rc::check("a+c, continued as post", [] {
    const StackSpec spec = placed(any_stack(), "a+c");
    const std::uint64_t seed = any_seed();
    for (const Target& target : exact_targets()) {
      const Backend& ops = *target.backend;
      const GeneratedWeights weights(ops, spec, target.dtype, seed);
      const StackContext context{.ops = ops, .model = spec.model, .weights = weights};
      const RecordedStack record = record_stack(context, gaussian_input(ops, spec, target.dtype, seed));
      Tensor x = ops.from_host(spec.input.tokens, spec.model.width, target.dtype, record.at(0, Signal::x_out));
      for (int l = 1; l < spec.model.sublayers(); ++l) {
        SublayerPass pass(context, {}, l, Pass::forward, Save::nothing);
        const Tensor f = l % 2 == 0 ? attention_forward(pass, x) : mlp_forward(pass, x);
        x = pass.norm(Weight::norm_c, ops.axpby(1.0, x, 1.0, f));
        assert_close(ops.to_host(x), record.at(l, Signal::x_out), rounding_of(spec.model));
      }
    }
  }));
}

TEST_CASE("A+C differs from Post-LN for other inputs, and for gains that differ between features") {
  StackSpec spec = tiny_stack();
  spec.model.norm_eps = 0.0;
  CHECK(difference(spec, "a+c", "post", equal_norm_input(truth_target(), spec, 1, 0.8)) < 1e-12);
  CHECK(difference(spec, "a+c", "post", equal_norm_input(truth_target(), spec, 1, 2.0)) > 0.1);
  const auto with_random_gains = [&](std::string_view placement) {
    const StackSpec stack = placed(spec, placement);
    const GeneratedWeights drawn(truth(), stack, DType::f64, 1);
    const EditedWeights weights(drawn, same_matrix, random_norms(truth()));
    return record_stack({.ops = truth(), .model = stack.model, .weights = weights},
                        equal_norm_input(truth_target(), spec, 1, 0.8))
        .stream;
  };
  CHECK(residual(with_random_gains("a+c"), with_random_gains("post"), 1.0).worst > 0.1);
}

/// A stack with positively homogeneous modules: f(c·x) = c·f(x) for c > 0. The ReLU MLP is homogeneous, and so is
/// attention if its pattern does not depend on c.
StackSpec any_homogeneous_stack() {
  StackSpec spec = any_stack();
  spec.model.mlp = MlpKind::relu;
  if (spec.model.qk_norm == QkNorm::none) spec.init.qk_factor = 0.0;
  return spec;
}

void assert_peri_is_b_only(const StackSpec& spec) {
  const std::uint64_t seed = any_seed();
  const double scale = any_number(0.1, 5.0);  // differs from the gain of norm A
  for (const Target& target : exact_targets()) {
    const Tensor input = equal_norm_input(target, spec, seed, scale);
    assert_same_streams(record_from(target, spec, "b-only", seed, input),
                        record_from(target, spec, "peri", seed, input), spec.model);
  }
}

TEST_CASE("B-only equals Peri-LN over one layer for tokens of equal norm (T13)") {
  CHECK(rc::check("b-only = peri, one layer", [] {
    StackSpec spec = any_homogeneous_stack();
    spec.model.layers = 1;
    assert_peri_is_b_only(spec);
  }));
}

TEST_CASE("B-only equals Peri-LN at any depth for one token (T13)") {
  CHECK(rc::check("b-only = peri, one token", [] {
    StackSpec spec = any_homogeneous_stack();
    spec.input.tokens = 1;
    assert_peri_is_b_only(spec);
  }));
}

TEST_CASE("B-only differs from Peri-LN if tokens differ in norm, or modules are not homogeneous") {
  StackSpec spec = tiny_stack();
  spec.model.norm_eps = 0.0;
  spec.model.layers = 1;
  spec.model.mlp = MlpKind::relu;
  spec.init.qk_factor = 0.0;
  const Tensor equal = equal_norm_input(truth_target(), spec, 1, 2.0);
  const Tensor unequal = gaussian_input(truth(), spec, DType::f64, 1);
  CHECK(difference(spec, "b-only", "peri", equal) < 1e-12);
  CHECK(difference(spec, "b-only", "peri", unequal) > 0.01);
  spec.model.layers = 2;  // token norms differ in the second layer
  CHECK(difference(spec, "b-only", "peri", equal) > 0.001);
  spec.model.layers = 1;
  spec.init.qk_factor = 1.0;  // softmax depends on the scale
  CHECK(difference(spec, "b-only", "peri", equal) > 0.001);
  spec.init.qk_factor = 0.0;
  spec.model.mlp = MlpKind::swiglu;
  CHECK(difference(spec, "b-only", "peri", equal) > 0.001);
}

}  // namespace
}  // namespace periscope::testing
