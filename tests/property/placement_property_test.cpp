#include <cmath>
#include <string_view>
#include <vector>

#include "sim/model/modules.h"
#include "tests/property/arbitrary_stack.h"
#include "tests/support/compare.h"
#include "tests/support/doctest.h"
#include "tests/support/edited_weights.h"
#include "tests/support/recorded_stack.h"

/// T13 for whole stacks, at eps = 0 and without biases.
namespace periscope::testing {
namespace {

void assert_same_streams(const RecordedStack& a, const RecordedStack& b, const ModelSpec& m) {
  for (int l = 0; l < m.sublayers(); ++l) assert_close(a.at(l, Signal::x_out), b.at(l, Signal::x_out), rounding_of(m));
}

/// Gaussian input whose tokens are normalised: each has the second moment `scale`², with LayerNorm the mean 0.
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

/// Largest difference of the two placements' streams, whose entries are about one.
double difference(const StackSpec& spec, std::string_view a, std::string_view b, const Tensor& input) {
  return residual(record_from(truth_target(), spec, a, 1, input).stream,
                  record_from(truth_target(), spec, b, 1, input).stream, 1.0)
      .worst;
}

TEST_CASE("T13: A+C is Post-LN on a stream that is normalised by the gain of A and C") {
  // Norm A changes nothing there, and norm C keeps it so. Any positive gain will do, if it is one number:
  // T13's gamma = 1 is a special case.
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

TEST_CASE("T13: after its first sublayer A+C goes on as Post-LN, whatever the input was") {
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

TEST_CASE("A+C is not Post-LN from another input, or with gains that differ between features") {
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

/// A stack whose modules are positively homogeneous: f(c·x) = c·f(x) for c > 0 and one c for all tokens.
/// Attention is, if its pattern does not see the scale; of the MLPs ReLU's is, token by token.
StackSpec any_homogeneous_stack() {
  StackSpec spec = any_stack();
  spec.model.mlp = MlpKind::relu;
  if (spec.model.qk_norm == QkNorm::none) spec.init.qk_factor = 0.0;
  return spec;
}

void assert_peri_is_b_only(const StackSpec& spec) {
  const std::uint64_t seed = any_seed();
  const double scale = any_number(0.1, 5.0);  // other than the gain of norm A, which would then do nothing
  for (const Target& target : exact_targets()) {
    const Tensor input = equal_norm_input(target, spec, seed, scale);
    assert_same_streams(record_from(target, spec, "b-only", seed, input),
                        record_from(target, spec, "peri", seed, input), spec.model);
  }
}

TEST_CASE("T13: B-only is Peri-LN over one layer, from tokens of equal norm") {
  CHECK(rc::check("b-only = peri, one layer", [] {
    StackSpec spec = any_homogeneous_stack();
    spec.model.layers = 1;
    assert_peri_is_b_only(spec);
  }));
}

TEST_CASE("T13: B-only is Peri-LN at any depth for one token") {
  CHECK(rc::check("b-only = peri, one token", [] {
    StackSpec spec = any_homogeneous_stack();
    spec.input.tokens = 1;
    assert_peri_is_b_only(spec);
  }));
}

TEST_CASE("B-only is not Peri-LN when tokens differ in norm, or for modules that are not homogeneous") {
  StackSpec spec = tiny_stack();
  spec.model.norm_eps = 0.0;
  spec.model.layers = 1;
  spec.model.mlp = MlpKind::relu;
  spec.init.qk_factor = 0.0;
  const Tensor equal = equal_norm_input(truth_target(), spec, 1, 2.0);
  const Tensor unequal = gaussian_input(truth(), spec, DType::f64, 1);
  CHECK(difference(spec, "b-only", "peri", equal) < 1e-12);
  CHECK(difference(spec, "b-only", "peri", unequal) > 0.01);
  spec.model.layers = 2;  // the second attention meets tokens whose norms differ by their branches
  CHECK(difference(spec, "b-only", "peri", equal) > 0.001);
  spec.model.layers = 1;
  spec.init.qk_factor = 1.0;  // softmax sees the scale
  CHECK(difference(spec, "b-only", "peri", equal) > 0.001);
  spec.init.qk_factor = 0.0;
  spec.model.mlp = MlpKind::swiglu;
  CHECK(difference(spec, "b-only", "peri", equal) > 0.001);
}

TEST_CASE("T13: norm B forgets the scale of W_o and W_down") {
  CHECK(rc::check("W -> k W", [] {
    const StackSpec spec = placed(any_stack(), any_of<std::string_view>({"peri", "b-only"}));
    const std::uint64_t seed = any_seed();
    const double k = any_number(0.01, 100.0);
    const double power_of_two = std::ldexp(1.0, any_int(-20, 20));
    for (const Target& target : exact_targets()) {
      const Backend& ops = *target.backend;
      const GeneratedWeights drawn(ops, spec, target.dtype, seed);
      const Tensor input = gaussian_input(ops, spec, target.dtype, seed);
      const auto scaled_by = [&](double factor) {
        const EditedWeights weights(
            drawn,
            [&](int, Weight weight, const Tensor& w) {
              return weight == Weight::o || weight == Weight::down ? ops.scale(factor, w) : w;
            },
            same_norm);
        return record_stack({.ops = ops, .model = spec.model, .weights = weights}, input);
      };
      const RecordedStack plain = scaled_by(1.0);
      assert_same_streams(scaled_by(k), plain, spec.model);
      // Every step commutes with a shift of the exponent: not one bit may change.
      RC_ASSERT(first_difference(scaled_by(power_of_two).output, plain.output) == plain.output.size());
    }
  }));
}

TEST_CASE("without norm B the scale of W_down is felt") {
  const StackSpec spec = placed(tiny_stack(), "pre");
  StackSpec scaled = spec;
  scaled.init.scheme = InitScheme::scaled;
  scaled.init.factor = 4.0;
  CHECK(residual(record_stack(truth_target(), scaled, 1).stream, record_stack(truth_target(), spec, 1).stream, 1.0)
            .worst > 0.1);
}

}  // namespace
}  // namespace periscope::testing
