#include <cmath>

#include "experiments/engine/settings/theory_parameters.h"
#include "experiments/studies/certify/certify.h"
#include "sim/checkpoint/checkpoint.h"
#include "sim/checkpoint/checkpoint_weights.h"
#include "tests/certify/certified_stack.h"
#include "tests/support/doctest.h"
#include "tests/support/edited_weights.h"
#include "tests/support/recorded_stack.h"
#include "tests/support/targets.h"

/// Certificates that once were wrong (T17, T24).
namespace periscope::testing {
namespace {

using theory::SignalClass;

constexpr const NumberFormat& bf16 = number_formats[1];
constexpr const NumberFormat& fp16 = number_formats[2];

StackSpec token_stack(std::string_view placement) {
  StackSpec spec = placed(tiny_stack(), placement);
  spec.input.kind = InputKind::tokens;
  return spec;
}

theory::Certificate certify(const StackSpec& spec, const WeightSource& weights, Arithmetic kind,
                            const NumberFormat& format) {
  return theory::certify(spec.model, config::TheoryParameters(truth(), spec.model, weights), {},
                         run_arithmetic(kind, format));
}

bool certified(const theory::Certificate& certificate) {
  return theory::verdict(certificate, SignalClass::stream).certified;
}

/// Every matrix that a layer owns times a factor.
EditedWeights::MatrixEdit all_matrices_times(double factor) {
  return [factor](int /*layer*/, Weight weight, const Tensor& w) {
    return is_of_layer(weight) ? truth().scale(factor, w) : w;
  };
}

TEST_CASE("a norm behind signals beyond 1e154 is bounded by what its input can make of it, not by 0") {
  StackSpec spec = token_stack("none");
  spec.model.final_norm = true;
  spec.model.layers = 6;
  const GeneratedWeights plain(truth(), spec, DType::f64, 1);
  const EditedWeights weights(plain, all_matrices_times(1e4), same_norm);
  const theory::Certificate exact = certify(spec, weights, Arithmetic::exact, fp64);
  const double root = spec.model.gamma * std::sqrt(static_cast<double>(spec.model.width));
  CHECK(exact.find(Signal::x_out, 11)->largest > 1e160);
  CHECK(exact.find(Signal::output, 12)->largest >= root * (1.0 - 1e-12));
  CHECK(exact.find(Signal::output, 12)->largest <= root * (1.0 + 1e-9));
}

TEST_CASE("weights that overflow a format when a run rounds them certify nothing") {
  StackSpec spec = token_stack("peri");
  const GeneratedWeights plain(truth(), spec, DType::f64, 1);
  CHECK(certified(certify(spec, plain, Arithmetic::mixed, fp16)));
  const EditedWeights huge(plain, all_matrices_times(1e7), same_norm);
  for (const Arithmetic kind : {Arithmetic::mixed, Arithmetic::pure}) {
    const theory::Certificate c = certify(spec, huge, kind, fp16);
    CHECK_FALSE(certified(c));
    const theory::Verdict stream = theory::verdict(c, SignalClass::stream);
    REQUIRE(stream.first != nullptr);
    CHECK(stream.first->signal == Signal::weights);
  }
}

TEST_CASE("a weight beyond a format is named: parameter, entry and value as stored") {
  StackSpec spec = token_stack("peri");
  const GeneratedWeights plain(truth(), spec, DType::f64, 1);
  const auto plant = [&](double value) {
    return EditedWeights(
        plain,
        [=](int layer, Weight weight, const Tensor& x) {
          if (layer != 0 || weight != Weight::up) return x;
          std::vector<double> values = truth().to_host(x);
          values[5] = value;
          return truth().from_host(x.rows(), x.cols(), DType::f64, values);
        },
        same_norm);
  };
  const auto stream = [&](double value, std::string& reason) {
    const EditedWeights weights = plant(value);
    const theory::Certificate c = certify(spec, weights, Arithmetic::mixed, fp16);
    const theory::Verdict verdict = theory::verdict(c, SignalClass::stream);
    reason = certify::reason_of(verdict, spec.model);
    REQUIRE(c.largest_weight);
    CHECK(c.largest_weight->value == value);
    return verdict.certified;
  };
  std::string reason;
  CHECK_FALSE(stream(-70000.0, reason));
  CHECK(reason == "layers.0.mlp.up.weight: entry 5 = -70000 exceeds the format's largest number 65504");
  CHECK_FALSE(stream(65520.0, reason));  // halfway to 65536, rounds to infinity
  CHECK(reason == "layers.0.mlp.up.weight: entry 5 = 65520 exceeds the format's largest number 65504");
  (void)stream(65519.0, reason);  // rounds to 65504
  CHECK(reason.find("layers.0.mlp.up.weight") == std::string::npos);
}

TEST_CASE("a stream verdict requires everything upstream: an f_out that may be infinite makes norm B return NaN") {
  StackSpec spec = token_stack("peri");
  const GeneratedWeights plain(truth(), spec, DType::f64, 1);
  const EditedWeights large(plain, all_matrices_times(300.0), same_norm);
  const theory::Certificate exact = certify(spec, large, Arithmetic::exact, fp64);
  CHECK(theory::verdict(exact, SignalClass::stream, fp16).certified);
  CHECK_FALSE(theory::verdict(exact, SignalClass::mlp, fp16).certified);
  CHECK_FALSE(certified(certify(spec, large, Arithmetic::mixed, fp16)));
  CHECK(certified(certify(spec, large, Arithmetic::mixed, bf16)));
}

TEST_CASE("an eps that is 0 in the accumulators' format certifies nothing; squares of what is small do not vanish") {
  StackSpec spec = token_stack("b-only");
  const GeneratedWeights plain(truth(), spec, DType::f64, 1);
  spec.model.norm_eps = 1e-300;
  for (const Arithmetic kind : {Arithmetic::mixed, Arithmetic::pure}) {
    const theory::Certificate c = certify(spec, plain, kind, bf16);
    CHECK_FALSE(certified(c));
    const theory::Verdict stream = theory::verdict(c, SignalClass::stream);
    REQUIRE(stream.first != nullptr);
    CHECK(stream.first->signal == Signal::reciprocals);
  }
  // x ≈ 1e-170: its squares underflow, x/√(x² + ε) is 1e-20 all the same.
  const theory::BoundedSet x = theory::ball(theory::Vector::Constant(4, 1e-170), 2e-170);
  const theory::BoundedSet y = theory::normalised(x, {NormKind::rms, 1e-300, theory::Vector::Constant(4, 1e30), {}});
  CHECK(y.magnitude()[0] == doctest::Approx(1e10).epsilon(1e-9));
  CHECK(y.norm() == doctest::Approx(2e10).epsilon(1e-9));
}

/// Σx̂ = 0 behind LayerNorm only up to rounding: a constant row times 1e9 shows what is left of it.
TEST_CASE("rows that LayerNorm cancels are bounded with the rounding of a run") {
  StackSpec spec = token_stack("peri");
  spec.model.norm = NormKind::layer;
  spec.model.mlp = MlpKind::relu;
  const GeneratedWeights plain(truth(), spec, DType::f64, 1);
  const EditedWeights weights(
      plain,
      [](int, Weight weight, const Tensor& w) {
        return weight == Weight::up ? truth().constant(w.rows(), w.cols(), w.dtype(), 1e9) : w;
      },
      same_norm);
  certify::SignalMaxima seen;
  const std::vector<int> ids{1, 4, 2, 8, 5, 7, 3};
  seen.add({.ops = truth(), .model = spec.model, .weights = weights}, ids);
  const theory::Certificate exact = certify(spec, weights, Arithmetic::exact, fp64);
  const theory::Certificate pure = certify(spec, weights, Arithmetic::pure, fp64);
  const Tightness t = compare(pure, seen);
  INFO(t.where);
  CHECK(t.worst <= 1.0);
  CHECK(exact.find(Signal::up, 1)->largest < 1.0);
  CHECK(pure.find(Signal::up, 1)->largest > 1e8);
}

TEST_CASE("every token type counts, not the first alone") {
  StackSpec spec = token_stack("post");
  spec.model.embedding.token_types = 2;
  const GeneratedWeights plain(truth(), spec, DType::f64, 1);
  const EditedWeights weights(
      plain,
      [](int, Weight weight, const Tensor& w) {
        if (weight != Weight::token_types) return w;
        std::vector<double> values(static_cast<std::size_t>(w.size()), 0.0);
        values.back() = 1e3;
        return truth().from_host(w.rows(), w.cols(), w.dtype(), values);
      },
      same_norm);
  for (const Arithmetic kind : {Arithmetic::exact, Arithmetic::mixed}) {
    CHECK(certify(spec, weights, kind, fp16).find(Signal::input, -1)->largest >= 1e3);
  }
}

TEST_CASE("squares in a norm overflow the accumulators before its input overflows the format") {
  StackSpec spec = token_stack("pre");
  const GeneratedWeights plain(truth(), spec, DType::f64, 1);
  spec.model.embedding.scale = 1e25;
  const theory::Certificate c = certify(spec, plain, Arithmetic::mixed, bf16);
  CHECK(c.find(Signal::input, -1)->largest < bf16.largest);
  const theory::Verdict stream = theory::verdict(c, SignalClass::stream);
  REQUIRE(stream.first != nullptr);
  CHECK(stream.first->signal == Signal::squares);
  // In pure FP16 that is at 256/√D already.
  spec.model.embedding.scale = 1e3;
  CHECK_FALSE(certified(certify(spec, plain, Arithmetic::pure, fp16)));
  CHECK(certified(certify(spec, plain, Arithmetic::mixed, fp16)));
}

TEST_CASE("what overflows inside norm A is upstream of the attention behind it") {
  StackSpec spec = token_stack("pre");
  spec.model.layers = 1;
  const GeneratedWeights plain(truth(), spec, DType::f64, 1);
  spec.model.embedding.scale = 1e25;
  const theory::Certificate c = certify(spec, plain, Arithmetic::mixed, bf16);
  const theory::Verdict attention = theory::verdict(c, SignalClass::attention);
  REQUIRE(attention.first != nullptr);
  CHECK_FALSE(attention.certified);
  CHECK(attention.first->signal == Signal::squares);
}

TEST_CASE("attention weights that stall in their denominator sum to more than 1: the longest input counts") {
  const StackSpec spec = token_stack("peri");
  const GeneratedWeights plain(truth(), spec, DType::f64, 1);
  const config::TheoryParameters parameters(truth(), spec.model, plain);
  const auto mixed_of = [&](Arithmetic kind, int longest) {
    const theory::Certificate c = theory::certify(spec.model, parameters, {}, run_arithmetic(kind, fp16), longest);
    CHECK(c.longest == (kind == Arithmetic::exact ? 0 : longest));
    return c.find(Signal::mixed, 0)->largest;
  };
  // Sums of ones stop at 2048 in FP16.
  CHECK(mixed_of(Arithmetic::pure, 8192) >= 4.0 * mixed_of(Arithmetic::exact, 1) * 0.99);
  CHECK(mixed_of(Arithmetic::mixed, 8192) <= 1.01 * mixed_of(Arithmetic::mixed, 1));
}

TEST_CASE("weights and bounds at the edges of double") {
  CHECK(theory::BoundedSet(theory::point(theory::Vector::Constant(3, 1e-200))).norm() >= 1.7e-200);
  CHECK(theory::BoundedSet(theory::point(theory::Vector::Constant(3, 1e200))).norm() <= 1.8e200);
  const theory::RowMatrix small = theory::RowMatrix::Constant(5, 4, 5e-324);
  CHECK(theory::spectral_bound(small) >= 4.4 * 5e-324);  // and it ends
  CHECK(theory::spectral_bound(theory::RowMatrix::Constant(2, 2, 1e300)) == doctest::Approx(2e300).epsilon(1e-2));
  // A product that overflows on its way bounds nothing, and NaN is not 0.
  const theory::BoundedSet wide = theory::ball(theory::Vector::Constant(2, 1e200), theory::infinity);
  const theory::RowMatrix w = theory::RowMatrix::Constant(1, 2, 1e200);
  CHECK(theory::image_and_sums(w, wide).set.magnitude()[0] == theory::infinity);
  theory::Vector broken(2);
  broken << 1.0, std::nan("");
  CHECK(theory::largest_of(broken) == theory::infinity);
  CHECK(theory::norm_of(broken) == theory::infinity);
}

}  // namespace
}  // namespace periscope::testing
