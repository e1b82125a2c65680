#include <algorithm>
#include <cmath>

#include "experiments/engine/settings/theory_parameters.h"
#include "sim/model/input.h"
#include "tests/certify/any_model.h"
#include "tests/certify/certified_stack.h"
#include "tests/support/doctest.h"
#include "tests/support/edited_weights.h"
#include "tests/support/threads.h"
#include "theory/certify/rounded_parameters.h"

/// T17: no input passes a bound, whatever the placement and the weights.
namespace periscope::testing {
namespace {

/// The arithmetic of the f64 runs here.
constexpr RunArithmetic pure_fp64 = run_arithmetic(Arithmetic::pure, fp64);

bool same(const theory::Certificate& a, const theory::Certificate& b) {
  return std::ranges::equal(a.bounds, b.bounds, [](const theory::SignalBound& x, const theory::SignalBound& y) {
    return x.signal == y.signal && x.sublayer == y.sublayer && x.magnitude == y.magnitude;
  });
}

TEST_CASE("T24: what mixed arithmetic adds widens every bound of exact arithmetic, pure arithmetic widens it further") {
  CHECK(rc::check("monotone", [] {
    const StackSpec spec = any_model();
    const Backend& ops = truth();
    const GeneratedWeights plain(ops, spec, DType::f64, any_seed());
    const EditedWeights normed(plain, same_matrix, random_norms(ops));
    const BiasedWeights weights(ops, normed, any_of({0.0, 0.5}));
    const NumberFormat format = any_of({number_formats[0], number_formats[1], number_formats[2], fp64});
    // On weights that are numbers of the format: rounding them can make a bound smaller.
    const config::TheoryParameters stored(ops, spec.model, weights);
    const theory::RoundedParameters parameters(stored, format);
    const theory::InputDomain domain{any_of({false, true}), 3.0};
    const theory::Certificate exact = theory::certify(spec.model, parameters, domain);
    const theory::Certificate mixed =
        theory::certify(spec.model, parameters, domain, run_arithmetic(Arithmetic::mixed, format), 20);
    const theory::Certificate pure =
        theory::certify(spec.model, parameters, domain, run_arithmetic(Arithmetic::pure, format), 20);
    RC_ASSERT(!mixed.weights_rounded);
    const auto holds = [](const theory::Certificate& wide, const theory::Certificate& narrow) {
      for (const theory::SignalBound& b : narrow.bounds) {
        const theory::SignalBound* other = wide.find(b.signal, b.sublayer);
        const bool there = other != nullptr;
        RC_ASSERT(there);
        for (Eigen::Index k = 0; k < b.magnitude.size(); ++k) RC_ASSERT(other->magnitude[k] >= b.magnitude[k]);
      }
    };
    holds(mixed, exact);
    holds(pure, mixed);
  }));
}

TEST_CASE("the certificate is the same bits for any number of threads") {
  StackSpec spec;  // wide enough that threads share its products
  spec.model.layers = 1;
  spec.model.width = 320;
  spec.model.heads = spec.model.kv_heads = 2;
  spec.model.head_dim = 160;
  spec.model.mlp_width = 416;
  spec.init.scheme = InitScheme::lecun;
  for (const std::string_view placement : {"none", "peri"}) {
    spec.model.placement = find_placement(placement).value();
    for (const Target& target : exact_targets()) {
      if (target.backend->name() == "reference") continue;
      const GeneratedWeights weights(*target.backend, spec, target.dtype, 1);
      const config::TheoryParameters parameters(*target.backend, spec.model, weights);
      for (const RunArithmetic& run : {RunArithmetic{}, run_arithmetic(Arithmetic::mixed, number_formats[1])}) {
        const Threads one(1);
        const theory::Certificate expected = theory::certify(spec.model, parameters, {}, run);
        for (const int threads : {2, 3}) {
          const Threads several(threads);
          CHECK(same(expected, theory::certify(spec.model, parameters, {}, run)));
        }
      }
    }
  }
}

}  // namespace
}  // namespace periscope::testing
