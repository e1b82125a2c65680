#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "experiments/studies/certify/certify.h"
#include "tests/certify/certified_stack.h"
#include "tests/support/doctest.h"
#include "tests/support/threads.h"

/// Verdicts on constructed bounds and measured maxima; certificates for inputs of increasing size and several threads.
namespace periscope::testing {
namespace {

using certify::BoundsCheck;
using certify::CertifyResult;
using theory::SignalClass;

constexpr double infinity = std::numeric_limits<double>::infinity();

theory::SignalBound bound(Signal signal, int sublayer, std::vector<double> magnitudes) {
  return {signal, sublayer, Eigen::Map<Eigen::VectorXd>(magnitudes.data(), std::ssize(magnitudes)),
          std::ranges::max(magnitudes)};
}

/// A certificate with planted bounds on the stream, on a number inside an op, and on the signals that depend on both.
theory::Certificate planted(double stream, double inside, double after, const RunArithmetic& arithmetic) {
  return {.bounds = {bound(Signal::x_out, -1, {1.0, stream}), bound(Signal::f_out, 0, {2.0, after}),
                     bound(Signal::squares, 0, {inside}), bound(Signal::x_out, 0, {3.0, after})},
          .arithmetic = arithmetic};
}

TEST_CASE("an infinite signal exceeds its bound, unless the certificate says that the arithmetic may overflow") {
  const auto check = [](const theory::Certificate& certificate, const std::vector<double>& stream,
                        const std::vector<double>& module) {
    certify::SignalMaxima seen;
    seen.raise_to(Signal::x_out, -1, stream);
    seen.raise_to(Signal::f_out, 0, module);
    return certify::check_bounds(certificate, seen, 0.0);
  };
  constexpr RunArithmetic pure = run_arithmetic(Arithmetic::pure, fp32);
  const theory::Certificate fits = planted(8.0, 1e30, 4.0, pure);
  CHECK_FALSE(check(fits, {1.0, 8.0}, {2.0, 4.0}).exceeded);  // equality is allowed
  const BoundsCheck finite = check(fits, {1.0, 8.5}, {3.0, 4.0});
  REQUIRE(finite.exceeded);
  CHECK(finite.exceeded->place.signal == Signal::f_out);  // its ratio 3/2 is larger than 8.5/8
  CHECK(finite.exceeded->place.channel == 0);
  CHECK(finite.exceeded->ratio() == 1.5);
  CHECK(check(fits, {1.0, 8.0}, {2.0, infinity}).exceeded);
  CHECK(check(fits, {1.0, std::nan("")}, {2.0, 4.0}).exceeded);
  // Nothing overflows in exact arithmetic.
  CHECK(check(planted(8.0, 1e40, 1e40, {}), {1.0, 8.0}, {2.0, infinity}).exceeded);
  // The bound of the signal, or of a number inside the op that computes it, is beyond fp32.
  for (const theory::Certificate& overflows : {planted(8.0, 1e30, 1e40, pure), planted(8.0, 1e40, 4.0, pure)}) {
    const BoundsCheck own = check(overflows, {1.0, 8.0}, {2.0, infinity});
    CHECK_FALSE(own.exceeded);
    REQUIRE(own.overflowed);
    CHECK(own.overflowed->signal == Signal::f_out);
    CHECK(own.overflowed->channel == 1);
    // No overflow upstream explains an infinite stream, and finite signals are always compared with their bounds.
    CHECK(check(overflows, {1.0, infinity}, {2.0, infinity}).exceeded);
    CHECK(check(overflows, {1.0, 8.0}, {2.5, 4.0}).exceeded);
  }
}

TEST_CASE("certify passes if no bound was exceeded and all required signals are certified") {
  const certify::Requirement stream{SignalClass::stream, fp16};
  const certify::Requirement branch{SignalClass::branch, fp16};
  const certify::Requirement all{std::nullopt, fp16};
  for (const double after : {65504.0, 65505.0, infinity}) {  // 65504 is the largest number of FP16
    CertifyResult r{.model = {}, .family = {}, .spec = {}, .domain = {}};
    r.certificates.runs = {planted(65504.0, 1.0, after, run_arithmetic(Arithmetic::mixed, fp16))};
    CHECK(passed(r, {}));
    for (const auto& required : {stream, branch, all}) CHECK(passed(r, {required}) == (after == 65504.0));
    CHECK(passed(r, {stream, all}) == (after == 65504.0));
    r.check.overflowed = certify::SignalPlace{Signal::x_out, 0, 0};
    CHECK(passed(r, {}));
    r.check.exceeded = certify::AttackResult{};
    CHECK_FALSE(passed(r, {}));
  }
}

TEST_CASE("a larger input never gives a smaller bound, and is not certified where a smaller one is not") {
  std::vector<double> magnitudes{65504.0, 65519.0, 65520.0, 3.389e38, 3.39e38, 3.4e38, 1.7e308};
  for (int exponent = 0; exponent <= 308; exponent += 14) magnitudes.push_back(std::pow(10.0, exponent));
  for (const double edge : {19.0, 37.0, 38.0, 77.0, 153.0, 155.0}) magnitudes.push_back(std::pow(10.0, edge));
  std::ranges::sort(magnitudes);
  std::vector<RunArithmetic> arithmetics{{}};
  for (const NumberFormat& f : number_formats) {
    for (const Arithmetic kind : {Arithmetic::mixed, Arithmetic::pure}) arithmetics.push_back(run_arithmetic(kind, f));
  }
  for (const char* placement : {"post", "peri", "none", "residual-dual"}) {
    StackSpec spec = placed(tiny_stack(), placement);
    spec.model.norm = placement[0] == 'p' ? NormKind::layer : NormKind::rms;
    for (const bool embedding_norm : {false, true}) {
      spec.model.embedding_norm = embedding_norm;
      const GeneratedWeights weights(truth(), spec, DType::f64, 1);
      for (const RunArithmetic& arithmetic : arithmetics) {
        theory::Certificate smaller;
        for (const double largest : magnitudes) {
          INFO(placement, " ", embedding_norm, " ", arithmetic.stored.name, " ", largest);
          const theory::Certificate c = certify(spec.model, weights, {false, largest}, arithmetic, 4);
          for (const theory::SignalBound& b : c.bounds) {
            // Bounds are computed in double, so equal bounds may differ by rounding.
            const theory::SignalBound* before = smaller.find(b.signal, b.sublayer);
            if (before != nullptr) CHECK(b.largest >= before->largest * (1.0 - 1e-12));
          }
          for (std::size_t k = 0; k < theory::signal_class_names.size() && !smaller.bounds.empty(); ++k) {
            const auto kind = static_cast<SignalClass>(k);
            CHECK_FALSE((theory::verdict(c, kind).certified && !theory::verdict(smaller, kind).certified));
          }
          // An input that rounds to infinity is not certified for the format.
          const bool overflows = arithmetic.kind != Arithmetic::exact && largest > 1.3 * arithmetic.stored.largest;
          if (overflows) CHECK_FALSE(theory::verdict(c, {}).certified);
          smaller = c;
        }
      }
    }
  }
}

TEST_CASE("the certificate has the same bits for any number of threads" * doctest::test_suite("slow")) {
  StackSpec spec;  // wide enough for its products to be divided among threads
  spec.model.layers = 1;
  spec.model.width = 320;
  spec.model.heads = spec.model.kv_heads = 2;
  spec.model.head_dim = 160;
  spec.model.mlp_width = 416;
  spec.init.scheme = InitScheme::lecun;
  for (const std::string_view placement : {"none", "peri"}) {
    spec.model.placement = find_placement(placement).value();
    const GeneratedWeights weights(truth(), spec, DType::f64, 1);
    for (const RunArithmetic& run : {RunArithmetic{}, run_arithmetic(Arithmetic::mixed, number_formats[1])}) {
      const auto bounds = [&](int threads) {
        const Threads set(threads);
        return certify(spec.model, weights, {}, run).bounds;
      };
      const std::vector<theory::SignalBound> one = bounds(1);
      for (const int threads : {2, 3}) {
        CHECK(std::ranges::equal(one, bounds(threads), {}, &theory::SignalBound::magnitude,
                                 &theory::SignalBound::magnitude));
      }
    }
  }
}

TEST_CASE("after an embedding norm every input of FP16 is certified: 65519 rounds to 65504, 65520 overflows") {
  StackSpec spec = placed(tiny_stack(), "peri");
  spec.model.embedding_norm = true;
  const GeneratedWeights weights(truth(), spec, DType::f64, 1);
  for (const double largest : {infinity, 65504.0, 65519.0, 65520.0, 1e160}) {
    const theory::Certificate c =
        certify(spec.model, weights, {false, largest}, run_arithmetic(Arithmetic::mixed, fp16), 4);
    CHECK(theory::verdict(c, SignalClass::stream).certified == (largest < 65520.0 || std::isinf(largest)));
  }
}

TEST_CASE("a certificate for n + 2 tokens per rescaling covers n tokens if attention divides after averaging") {
  ModelSpec model;
  model.layers = 1;
  const auto covered = [&](int longest, double values, const RunArithmetic& run) {
    theory::Certificate c{.bounds = {bound(Signal::v, 0, {1.0, values})}, .arithmetic = run, .longest = longest};
    for (int l = 1; l < model.layers; ++l) c.bounds.push_back(bound(Signal::v, 2 * l, {1.0}));
    return certify::longest_divided_after(c, model);
  };
  const RunArithmetic mixed = run_arithmetic(Arithmetic::mixed, fp16);
  const RunArithmetic pure = run_arithmetic(Arithmetic::pure, fp16);
  // Attention reads blocks of 64 tokens. Every block after the first needs a rescaling, which counts as two tokens.
  for (int longest = 1; longest < 400; ++longest) {
    const int n = covered(longest, 1.0, mixed);
    CHECK(n + 2 * ((n - 1) / 64) <= longest);
    CHECK(n + 1 + 2 * (n / 64) > longest);
  }
  // The bound 2n·max|v| on the sum before the division must fit the accumulators.
  CHECK(covered(4096, fp32.largest / 2000.0, run_arithmetic(Arithmetic::mixed, number_formats[1])) == 1000);
  CHECK(covered(4096, infinity, mixed) == 0);
  CHECK(covered(4096, 1.0, pure) == 1008);  // n·(1 + 1/64)·u ≤ 1/2 with u = 2^-11; one rescaling per block of 64
  CHECK(covered(4096, 1.0, {}) == 0);
  model.layers = 3;  // the layer with the largest values determines the result
  CHECK(covered(4096, 100.0, pure) == 327);
  model.layers = 1;
  model.attention = {{.scores = {.scale = 0.0, .soft_cap = 0.0, .window = 67}, .rope_frequencies = {}}};
  CHECK(covered(4096, 1.0, mixed) == 65);  // 65 tokens and 2 for one rescaling fill the window of 67
  model.layers = 3;
  model.attention.resize(3);
  model.attention[2].scores.window = 200;  // the smallest window of all layers determines the result
  CHECK(covered(4096, 1.0, mixed) == 65);
}

TEST_CASE("rounded rotations of queries and keys widen the bounds of their products") {
  StackSpec spec = placed(tiny_stack(), "pre");
  const GeneratedWeights weights(truth(), spec, DType::f64, 1);
  const auto dots = [&](bool rope) {
    ModelSpec model = spec.model;
    model.rope = rope;
    return certify(model, weights, {false, 1.0}, run_arithmetic(Arithmetic::pure, fp16), 4)
        .find(Signal::dots, 0)
        ->largest;
  };
  const double widened = (dots(true) / dots(false) - 1.0) / fp16.unit_roundoff();
  CHECK(widened > 15.0);  // 16 roundings: 8 each in the query and the key
  CHECK(widened < 20.0);
}

}  // namespace
}  // namespace periscope::testing
