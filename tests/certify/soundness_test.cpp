#include <algorithm>

#include "tests/certify/certified_stack.h"
#include "tests/support/doctest.h"
#include "tests/support/threads.h"
#include "theory/certify/rounded_parameters.h"

/// Properties of certificates (T17, T24) for all stacks and weights.
namespace periscope::testing {
namespace {

TEST_CASE(
    "T24: bounds for mixed arithmetic exceed those for exact arithmetic, bounds for pure arithmetic exceed both") {
  for (std::uint32_t index = 0; index < 100; ++index) {
    CAPTURE(index);
    verify::Draw draw({7, index, Stream::soundness_checkpoint});
    const CertifiedStack c(random_stack(draw), index, draw.of({0.0, 0.5}));
    const NumberFormat format = draw.of({number_formats[0], number_formats[1], fp16, fp64});
    // The weights are rounded to the format first, because rounding can decrease a bound.
    const config::TheoryParameters stored(truth(), c.spec.model, c.weights);
    const theory::RoundedParameters parameters(stored, format);
    const theory::InputDomain domain{draw.chance(0.5), 3.0};
    const auto certificate = [&](Arithmetic kind) {
      return theory::certify(c.spec.model, parameters, domain, run_arithmetic(kind, format), 20);
    };
    const theory::Certificate exact = theory::certify(c.spec.model, parameters, domain);
    const theory::Certificate mixed = certificate(Arithmetic::mixed);
    const theory::Certificate pure = certificate(Arithmetic::pure);
    CHECK_FALSE(mixed.weights_rounded);
    for (const auto& [wide, narrow] : {std::pair(&mixed, &exact), {&pure, &mixed}}) {
      for (const theory::SignalBound& b : narrow->bounds) {
        if (b.signal == Signal::reciprocals) continue;  // ε may be rounded up
        const theory::SignalBound* other = wide->find(b.signal, b.sublayer);
        REQUIRE(other != nullptr);
        for (Eigen::Index k = 0; k < b.magnitude.size(); ++k) {
          CHECK_MESSAGE(other->magnitude[k] >= b.magnitude[k], name_of(b.signal), " ", b.sublayer, " ", k);
        }
      }
    }
  }
}

TEST_CASE("the certificate has the same bits for any number of threads") {
  StackSpec spec;  // wide enough that threads share its products
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

}  // namespace
}  // namespace periscope::testing
