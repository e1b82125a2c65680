#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "experiments/engine/settings/theory_parameters.h"
#include "experiments/studies/certify/certify.h"
#include "sim/model/weights.h"
#include "tests/support/doctest.h"
#include "tests/support/recorded_stack.h"
#include "tests/support/targets.h"

/// What follows from bounds and from what was seen: planted certificates, and bounds for larger and larger inputs.
namespace periscope::testing {
namespace {

using certify::BoundsCheck;
using certify::CertifyResult;
using certify::Requirement;
using theory::SignalClass;

constexpr double infinity = std::numeric_limits<double>::infinity();

theory::SignalBound bound(Signal signal, int sublayer, std::initializer_list<double> magnitudes) {
  theory::SignalBound b{signal, sublayer, Eigen::VectorXd(static_cast<Eigen::Index>(magnitudes.size()))};
  Eigen::Index k = 0;
  for (const double m : magnitudes) {
    b.magnitude[k] = m;
    if (m > b.largest) b.largest = m;
    ++k;
  }
  return b;
}

/// Two features at three places: the stream, a number inside an op, what is behind.
theory::Certificate planted(double stream, double inside, double behind, const RunArithmetic& arithmetic) {
  return {.bounds = {bound(Signal::x_out, -1, {1.0, stream}), bound(Signal::f_out, 0, {2.0, behind}),
                     bound(Signal::squares, 0, {inside}), bound(Signal::x_out, 0, {3.0, behind})},
          .arithmetic = arithmetic};
}

BoundsCheck check(const theory::Certificate& certificate, const std::vector<double>& stream,
                  const std::vector<double>& module) {
  certify::SignalMaxima seen;
  seen.raise_to(Signal::x_out, -1, stream);
  seen.raise_to(Signal::f_out, 0, module);
  return certify::check_bounds(certificate, seen, 0.0);
}

constexpr RunArithmetic pure_fp32 = run_arithmetic(Arithmetic::pure, fp32);

TEST_CASE("an infinite signal violates a bound, but where the certificate lets the run's arithmetic overflow") {
  const theory::Certificate fits = planted(8.0, 1e30, 4.0, pure_fp32);
  CHECK_FALSE(check(fits, {1.0, 8.0}, {2.0, 4.0}).exceeded);  // attained is not exceeded
  const BoundsCheck finite = check(fits, {1.0, 8.5}, {3.0, 4.0});
  REQUIRE(finite.exceeded);
  CHECK(finite.exceeded->place.signal == Signal::f_out);  // 3 of 2 is farther than 8.5 of 8
  CHECK(finite.exceeded->place.channel == 0);
  CHECK(finite.exceeded->reached == 3.0);
  CHECK(finite.exceeded->bound == 2.0);
  CHECK_FALSE(finite.overflowed);
  CHECK(check(fits, {1.0, 8.0}, {2.0, infinity}).exceeded);
  CHECK_FALSE(check(fits, {1.0, 8.0}, {2.0, infinity}).overflowed);
  // Recorded maxima turn NaN into infinity.
  CHECK(check(fits, {1.0, std::nan("")}, {2.0, 4.0}).exceeded);

  // The bound itself is beyond fp32, or that of a number inside the op that makes the signal.
  for (const theory::Certificate& overflows :
       {planted(8.0, 1e30, 1e40, pure_fp32), planted(8.0, 1e40, 4.0, pure_fp32)}) {
    const BoundsCheck own = check(overflows, {1.0, 8.0}, {2.0, infinity});
    CHECK_FALSE(own.exceeded);
    REQUIRE(own.overflowed);
    CHECK(own.overflowed->signal == Signal::f_out);
    CHECK(own.overflowed->sublayer == 0);
    CHECK(own.overflowed->channel == 1);
    // What is in front of that does not overflow, and what is finite is held against its bound.
    CHECK(check(overflows, {1.0, infinity}, {2.0, infinity}).exceeded);
    CHECK(check(overflows, {1.0, 9.0}, {2.0, infinity}).exceeded);
    CHECK(check(overflows, {1.0, 8.0}, {2.5, 4.0}).exceeded);
  }
  // Nothing overflows in exact arithmetic.
  CHECK(check(planted(8.0, 1e40, 1e40, {}), {1.0, 8.0}, {2.0, infinity}).exceeded);
}

TEST_CASE("certify passes if no bound was exceeded and all that is required is certified") {
  const auto result = [](double stream, double behind) {
    CertifyResult r{.model = {}, .family = {}, .spec = {}, .domain = {}};
    r.certificates.runs = {planted(stream, 1.0, behind, run_arithmetic(Arithmetic::mixed, number_formats[2]))};
    return r;
  };
  const NumberFormat fp16 = number_formats[2];
  REQUIRE(fp16.name == "fp16");
  const Requirement stream{SignalClass::stream, fp16};
  const Requirement branch{SignalClass::branch, fp16};
  const Requirement all{std::nullopt, fp16};
  const CertifyResult fits = result(65504.0, 65504.0);  // a format's largest number is in it
  CHECK(passed(fits, {}));
  CHECK(passed(fits, {stream, branch, all}));
  CertifyResult wrong = fits;
  wrong.check.exceeded = certify::AttackResult{};
  CHECK_FALSE(passed(wrong, {}));
  CertifyResult overflowed = fits;
  overflowed.check.overflowed = certify::SignalPlace{Signal::x_out, 0, 0};
  CHECK(passed(overflowed, {all}));
  for (const double large : {65505.0, infinity}) {
    const CertifyResult r = result(65504.0, large);
    CHECK(passed(r, {}));
    CHECK_FALSE(passed(r, {stream}));  // the last of the stream is behind it
    CHECK_FALSE(passed(r, {branch}));
    CHECK_FALSE(passed(r, {stream, all}));
  }
}

TEST_CASE("the factor of a class that fits by itself is in brackets if a signal upstream may overflow") {
  const NumberFormat fp16 = number_formats[2];
  CertifyResult r{.model = {}, .family = {}, .spec = {}, .domain = {}};
  r.spec.model = {.layers = 1, .width = 2, .heads = 1, .kv_heads = 1, .head_dim = 2, .mlp_width = 2};
  const auto rows = [&](double module) {
    theory::Certificate c{.bounds = {bound(Signal::x_out, -1, {1.0}), bound(Signal::up, 1, {module}),
                                     bound(Signal::x_out, 1, {16.0}), bound(Signal::output, 2, {0.0})}};
    r.config.formats = {fp16};
    r.certificates.exact = c;
    r.config.arithmetic = Arithmetic::mixed;
    c.arithmetic = run_arithmetic(Arithmetic::mixed, fp16);
    r.certificates.runs = {c};
    return certify::table(r);
  };
  const std::string certified = rows(32.0);
  CHECK(certified.find(" 4.09e+03x\n") != std::string::npos);
  CHECK(certified.find("(4.09e+03x)") == std::string::npos);
  CHECK(certified.find(" all 0\n") != std::string::npos);
  const std::string not_certified = rows(1e5);
  CHECK(not_certified.find("NO 0.66x") != std::string::npos);
  CHECK(not_certified.find("(4.09e+03x)") != std::string::npos);
  CHECK(not_certified.find("(all 0)") != std::string::npos);
  CHECK(not_certified.find("infx") == std::string::npos);
}

TEST_CASE("the table explains only what it shows, and says where any factor fits") {
  const NumberFormat fp16 = number_formats[2];
  CertifyResult r{.model = {}, .family = {}, .spec = {}, .domain = {.tokens = false, .largest = infinity}};
  r.spec.model = {.layers = 1, .width = 2, .heads = 1, .kv_heads = 1, .head_dim = 2, .mlp_width = 2};
  r.config.formats = {fp16};
  r.config.arithmetic = Arithmetic::exact;
  r.certificates.exact = {.bounds = {bound(Signal::x_out, -1, {1.0}), bound(Signal::x_out, 1, {16.0})}};
  r.headroom.formats = {{.format = fp16, .stream = 2.0, .branch = std::nan(""), .measured = infinity, .fitting = {}}};
  const auto says = [&](const char* words) { return certify::table(r).find(words) != std::string::npos; };
  CHECK(says("an input is any number"));
  CHECK_FALSE(says("k multiplies"));
  CHECK(says("–         any"));
  r.domain.tokens = true;
  CHECK_FALSE(says("an input is any number"));
  r.headroom.formats[0].branch = 1.0;
  CHECK(says("k multiplies"));
}

TEST_CASE("a larger input never brings a certificate, nor a smaller bound") {
  std::vector<double> magnitudes{6e4,     65503.0,  65504.0, 65505.0, 65519.0, 65520.0, 7e4,
                                 3.38e38, 3.389e38, 3.39e38, 3.4e38,  3.5e38,  1.7e308};
  for (int exponent = 0; exponent <= 308; exponent += exponent < 290 ? 10 : 3) {
    magnitudes.push_back(std::pow(10.0, exponent));
  }
  for (const double edge : {19.0, 37.0, 38.0, 76.0, 77.0, 150.0, 153.0, 154.0, 155.0, 160.0}) {
    magnitudes.push_back(std::pow(10.0, edge));
  }
  std::ranges::sort(magnitudes);
  std::vector<RunArithmetic> arithmetics{{}};
  for (const NumberFormat& f : number_formats) {
    for (const Arithmetic kind : {Arithmetic::mixed, Arithmetic::pure}) arithmetics.push_back(run_arithmetic(kind, f));
  }
  arithmetics.push_back(run_arithmetic(Arithmetic::pure, fp64));
  for (const char* placement : {"post", "peri", "none", "residual-dual"}) {
    for (const NormKind norm : {NormKind::rms, NormKind::layer}) {
      for (const bool embedding_norm : {false, true}) {
        StackSpec spec = placed(tiny_stack(), placement);
        spec.model.norm = norm;
        spec.model.embedding_norm = embedding_norm;
        const GeneratedWeights weights(truth(), spec, DType::f64, 1);
        const config::TheoryParameters parameters(truth(), spec.model, weights);
        for (const RunArithmetic& arithmetic : arithmetics) {
          CAPTURE(std::string(placement));
          CAPTURE(embedding_norm);
          CAPTURE(std::string(arithmetic.stored.name));
          CAPTURE(static_cast<int>(arithmetic.kind));
          theory::Certificate smaller;
          for (const double largest : magnitudes) {
            CAPTURE(largest);
            const theory::Certificate c =
                theory::certify(spec.model, parameters, {.tokens = false, .largest = largest}, arithmetic, 4);
            if (!smaller.bounds.empty()) {
              REQUIRE(c.bounds.size() == smaller.bounds.size());
              for (const theory::SignalBound& b : c.bounds) {
                CAPTURE(std::string(name_of(b.signal)));
                // Bounds are computed in double: equal ones may differ by roundings.
                CHECK(b.largest >= smaller.find(b.signal, b.sublayer)->largest * (1.0 - 1e-12));
              }
              for (std::size_t k = 0; k <= theory::signal_class_names.size(); ++k) {
                const auto kind =
                    k == theory::signal_class_names.size() ? std::nullopt : std::optional(static_cast<SignalClass>(k));
                CHECK_FALSE((theory::verdict(c, kind).certified && !theory::verdict(smaller, kind).certified));
              }
            }
            smaller = c;
          }
        }
      }
    }
  }
}

TEST_CASE("an input that a format does not reach is not certified for it") {
  StackSpec spec = placed(tiny_stack(), "peri");
  spec.model.embedding_norm = true;
  const GeneratedWeights weights(truth(), spec, DType::f64, 1);
  const config::TheoryParameters parameters(truth(), spec.model, weights);
  const auto stream = [&](double largest) {
    return theory::verdict(theory::certify(spec.model, parameters, {.tokens = false, .largest = largest},
                                           run_arithmetic(Arithmetic::mixed, number_formats[2]), 4),
                           SignalClass::stream);
  };
  CHECK(stream(infinity).certified);  // whatever the format has
  CHECK(stream(65504.0).certified);
  CHECK(stream(65519.0).certified);  // rounds to 65504
  const theory::Verdict over = stream(1e160);
  REQUIRE_FALSE(over.certified);
  CHECK_FALSE(stream(65520.0).certified);  // halfway, rounds to even: overflows
}

TEST_CASE("attention that divides after averaging is covered for as many tokens as leave two for every rescaling") {
  ModelSpec model;
  model.layers = 1;
  const auto covered = [&](int longest, double values, const RunArithmetic& run) {
    theory::Certificate c{.bounds = {bound(Signal::v, 0, {1.0, values})}, .arithmetic = run, .longest = longest};
    return certify::longest_divided_after(c, model);
  };
  const RunArithmetic fp16 = run_arithmetic(Arithmetic::mixed, number_formats[2]);
  const RunArithmetic bf16 = run_arithmetic(Arithmetic::mixed, number_formats[1]);
  CHECK(covered(1, 1.0, fp16) == 1);
  CHECK(covered(64, 1.0, fp16) == 64);  // one block
  CHECK(covered(65, 1.0, fp16) == 64);  // a 65th token is a second block, and that a rescaling
  CHECK(covered(66, 1.0, fp16) == 64);
  CHECK(covered(67, 1.0, fp16) == 65);
  for (int longest = 1; longest < 400; ++longest) {
    const int n = covered(longest, 1.0, fp16);
    CHECK(n + 2 * ((n - 1) / 64) <= longest);
    CHECK(n + 1 + 2 * (n / 64) > longest);
  }
  CHECK(covered(4096, 65504.0, fp16) == 3972);
  // Σpv is not divided yet: n·|v| must fit the accumulators.
  CHECK(covered(4096, fp32.largest / 2000.0, bf16) == 1000);
  CHECK(covered(4096, infinity, bf16) == 0);
  // Pure FP16: n·u' ≤ 1/2.
  const RunArithmetic pure = run_arithmetic(Arithmetic::pure, number_formats[2]);
  CHECK(covered(4096, 1.0, pure) == 1008);
  CHECK(covered(4096, 100.0, pure) == 327);
  CHECK(covered(4096, 1.0, {}) == 0);
  // The largest values of all layers count, not those of the last.
  model.layers = 3;
  for (const int largest : {0, 2, 4}) {
    theory::Certificate c{.bounds = {}, .arithmetic = pure, .longest = 4096};
    for (const int sublayer : {0, 2, 4}) {
      c.bounds.push_back(bound(Signal::v, sublayer, {1.0, sublayer == largest ? 100.0 : 2.0}));
    }
    CHECK(certify::longest_divided_after(c, model) == 327);
  }
  model.layers = 1;
  // A layer with a window has no room beyond it.
  model.attention = {{.scores = {.scale = 0.0, .soft_cap = 0.0, .window = 67}, .rope_frequencies = {}}};
  CHECK(covered(4096, 1.0, fp16) == 65);
}

TEST_CASE("what a certificate does not cover is said: inputs, forms of attention, and of LayerNorm's variance") {
  const NumberFormat& fp16 = number_formats[2];
  CertifyResult r{.model = {}, .family = {}, .spec = {}, .domain = {}};
  r.spec.model.norm = NormKind::rms;
  r.config.arithmetic = Arithmetic::mixed;
  r.config.formats = {fp16};
  r.certificates.runs = {planted(1.0, 1.0, 1.0, run_arithmetic(Arithmetic::mixed, fp16))};
  r.certificates.runs[0].longest = 4096;
  const auto says = [&](std::string_view word) {
    return std::ranges::count_if(not_covered(r),
                                 [&](const std::string& line) { return line.find(word) != std::string::npos; });
  };
  CHECK(says("bypass the embedding table") == 1);
  CHECK(says("padded") == 1);
  CHECK(says("over more tokens than 3972, or in blocks") == 1);
  CHECK(says("split-K") == 1);
  CHECK(says("flush-to-zero") == 1);
  CHECK(says("Welford") == 0);
  r.spec.model.norm = NormKind::layer;
  CHECK(says("Welford") == 1);
  r.domain.tokens = false;
  CHECK(says("padded") == 0);
  // Each format has its own length where they differ: here the second certificate is about fewer tokens.
  const NumberFormat& bf16 = number_formats[1];
  r.config.formats.push_back(bf16);
  r.certificates.runs.push_back(planted(1.0, 1.0, 1.0, run_arithmetic(Arithmetic::mixed, bf16)));
  r.certificates.runs[1].longest = 67;
  const std::vector<std::string> lines = not_covered(r);
  CHECK(std::ranges::any_of(lines, [](const std::string& line) {
    return line.find("over more tokens than 3972 in fp16, 65 in bf16, or in blocks") != std::string::npos;
  }));
  r.config.arithmetic = Arithmetic::exact;
  CHECK(not_covered(r).empty());
}

}  // namespace
}  // namespace periscope::testing
