#include <cmath>

#include "experiments/studies/certify/certify.h"
#include "tests/certify/certified_stack.h"
#include "tests/support/doctest.h"

/// Regression tests of certificates (T17, T24): the first signal that may overflow.
namespace periscope::testing {
namespace {

using theory::SignalClass;

constexpr const NumberFormat& bf16 = number_formats[1];

theory::Certificate certify_run(const ModelSpec& model, const WeightSource& weights, Arithmetic kind,
                                const NumberFormat& format) {
  return certify(model, weights, {}, run_arithmetic(kind, format));
}

/// Multiplies all matrices of layers by a factor.
EditedWeights::MatrixEdit all_matrices_times(double factor) {
  return [factor](int /*layer*/, Weight weight, const Tensor& w) {
    return is_of_layer(weight) ? truth().scale(factor, w) : w;
  };
}

TEST_CASE("the sum before a layer's factor is bounded, not only the stream after it") {
  StackSpec spec = token_stack("peri");
  const GeneratedWeights weights(truth(), spec, DType::f64, 1);
  for (const Arithmetic kind : {Arithmetic::mixed, Arithmetic::pure}) {
    const theory::Certificate plain = certify_run(spec.model, weights, kind, bf16);
    ModelSpec scaled = spec.model;
    scaled.layer_scales.assign(static_cast<std::size_t>(scaled.layers), 0x1p-10);
    const theory::Certificate found = certify_run(scaled, weights, kind, bf16);
    REQUIRE(found.find(Signal::sum, 1) != nullptr);
    CHECK(found.find(Signal::sum, 1)->largest == plain.find(Signal::x_out, 1)->largest);
    CHECK(found.find(Signal::x_out, 1)->largest < 0.01 * plain.find(Signal::x_out, 1)->largest);
    CHECK(plain.find(Signal::sum, 1) == nullptr);
  }
}

TEST_CASE("the first signal that may overflow is found, in the stream or upstream of it") {
  struct Row {
    const char* placement;
    double factor;  ///< factor of the matrices of all layers
    double scale;   ///< scale of the embedding
    double eps;
    Arithmetic kind;
    const NumberFormat& format;
    std::optional<Signal> first;  ///< nullopt: certified
  };
  const double eps = ModelSpec().norm_eps;
  const Row rows[] = {
      {"peri", 1.0, 1.0, eps, Arithmetic::mixed, fp16, {}},
      // Weights overflow when they are rounded to the format.
      {"peri", 1e7, 1.0, eps, Arithmetic::mixed, fp16, Signal::weights},
      {"peri", 1e7, 1.0, eps, Arithmetic::pure, fp16, Signal::weights},
      // In FP16, but not in BF16, modules overflow. Norm B then returns NaN, so the stream is not certified.
      {"peri", 300.0, 1.0, eps, Arithmetic::mixed, bf16, {}},
      {"peri", 300.0, 1.0, eps, Arithmetic::mixed, fp16, Signal::dots},
      // eps underflows to 0 in the accumulators' format.
      {"b-only", 1.0, 1.0, 1e-300, Arithmetic::mixed, bf16, Signal::reciprocals},
      {"b-only", 1.0, 1.0, 1e-300, Arithmetic::pure, bf16, Signal::reciprocals},
      // Squares overflow the accumulators before the norm's input overflows the format (in pure FP16, from 256/√D on).
      {"pre", 1.0, 1e25, eps, Arithmetic::mixed, bf16, Signal::squares},
      {"pre", 1.0, 1e3, eps, Arithmetic::pure, fp16, Signal::squares},
      {"pre", 1.0, 1e3, eps, Arithmetic::mixed, fp16, {}},
  };
  for (const Row& row : rows) {
    INFO("row.placement := ", row.placement, ", row.factor := ", row.factor, ", row.scale := ", row.scale,
         ", row.format.name := ", row.format.name);
    StackSpec spec = token_stack(row.placement);
    const GeneratedWeights plain(truth(), spec, DType::f64, 1);
    const EditedWeights weights(plain, all_matrices_times(row.factor), same_norm);
    spec.model.embedding.scale = row.scale;
    spec.model.norm_eps = row.eps;
    const theory::Certificate c = certify_run(spec.model, weights, row.kind, row.format);
    for (const SignalClass kind : {SignalClass::stream, SignalClass::attention}) {
      // The verdicts are equal, because attention in the last layer reads the stream of all earlier layers.
      const theory::Verdict v = theory::verdict(c, kind);
      CHECK(v.certified == !row.first.has_value());
      if (v.first != nullptr) CHECK(v.first->signal == row.first);
    }
    if (row.factor == 300.0) {  // in exact arithmetic, a verdict covers a single class of signals
      const theory::Certificate exact = certify(spec.model, weights);
      CHECK(theory::verdict(exact, SignalClass::stream, fp16).certified);
      CHECK_FALSE(theory::verdict(exact, SignalClass::mlp, fp16).certified);
    }
  }
}

TEST_CASE("a weight beyond a format is named: parameter, entry and value as stored") {
  const StackSpec spec = token_stack("peri");
  const GeneratedWeights plain(truth(), spec, DType::f64, 1);
  // 65519 rounds to 65504, and 65520, halfway to 65536, rounds to infinity.
  for (const double value : {-70000.0, 65520.0, 65519.0}) {
    const EditedWeights weights(
        plain,
        [=](int layer, Weight weight, const Tensor& x) {
          if (layer != 0 || weight != Weight::up) return x;
          std::vector<double> values = truth().to_host(x);
          values[5] = value;
          return truth().from_host(x.rows(), x.cols(), DType::f64, values);
        },
        same_norm);
    const theory::Certificate c = certify_run(spec.model, weights, Arithmetic::mixed, fp16);
    const theory::Verdict stream = theory::verdict(c, SignalClass::stream);
    CHECK_FALSE(stream.certified);
    REQUIRE(c.largest_weight);
    CHECK(c.largest_weight->value == value);
    CHECK(c.largest_weight->name == "layers.0.mlp.up.weight: entry 5");
    CHECK((stream.weight != nullptr) == (value != 65519.0));
    CHECK((certify::reason_of(stream, spec.model).find("layers.0.mlp.up.weight") == std::string::npos) ==
          (value == 65519.0));
  }
}

TEST_CASE("the bound of a norm's output is not 0 where squares of its input overflow, beyond 1e154") {
  StackSpec spec = token_stack("none");
  spec.model.final_norm = true;
  spec.model.layers = 6;
  const GeneratedWeights plain(truth(), spec, DType::f64, 1);
  const theory::Certificate exact = certify(spec.model, EditedWeights(plain, all_matrices_times(1e4), same_norm));
  const double root = spec.model.gamma * std::sqrt(static_cast<double>(spec.model.width));
  CHECK(exact.find(Signal::x_out, 11)->largest > 1e160);
  CHECK(exact.find(Signal::output, 12)->largest == approx(root).epsilon(1e-9));
}

}  // namespace
}  // namespace periscope::testing
