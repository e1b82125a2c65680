#include <doctest/doctest.h>

#include <cmath>

#include "experiments/certify/theory_parameters.h"
#include "sim/model/input.h"
#include "tests/certify/certified_stack.h"
#include "tests/property/arbitrary_stack.h"
#include "tests/support/edited_weights.h"

/// T17: no input passes a bound, whatever the placement and the weights.
namespace periscope::testing {
namespace {

/// What rounding in the model's own arithmetic may add.
constexpr double slack = 1.0 + 1e-11;

/// Every part that a model may have, and every number of it random.
StackSpec any_model() {
  StackSpec spec = any_stack();
  ModelSpec& m = spec.model;
  m.mlp = any_of({MlpKind::relu, MlpKind::gelu, MlpKind::silu, MlpKind::gelu_tanh, MlpKind::swiglu, MlpKind::geglu,
                  MlpKind::geglu_tanh});
  m.norm_eps = any_of({1e-12, 1e-5, 0.3});
  m.embedding_norm = any_of({false, true});
  m.vocab = any_int(2, 30);
  m.embedding.scale = any_number(-2.0, 2.0);
  if (any_of({false, true})) m.embedding.width = any_int(3, 12);
  if (any_of({false, true})) {
    m.embedding.position_offset = any_int(0, 3);
    m.embedding.positions = spec.input.tokens + m.embedding.position_offset;
    m.embedding.token_types = any_int(0, 2);
  }
  m.head = {.transform = any_of({false, true}), .soft_cap = any_of({0.0, 1.5})};
  if (m.embedding_width() < 2) m.head.transform = false;
  for (int l = 0; l < m.layers; ++l) {
    m.attention.push_back({.scores = {.scale = any_of({0.0, 0.7}),
                                      .soft_cap = any_of({0.0, 2.0}),
                                      .window = m.causal ? any_of({0, 2}) : 0},
                           .rope_frequencies = {}});
  }
  if (any_of({false, true})) {
    const auto table = placement_table();
    m.placement = table[static_cast<std::size_t>(any_int(0, static_cast<int>(table.size()) - 1))];
  } else {
    m.placement = custom_placement({.norm_a = any_of({false, true}),
                                    .norm_b = any_of({false, true}),
                                    .norm_c = any_of({false, true}),
                                    .alpha = any_number(-2.0, 2.0),
                                    .beta = any_number(-2.0, 2.0)});
  }
  m.final_norm = any_of({false, true});
  return spec;
}

TEST_CASE("T17: no token sequence and no real input passes the certificate, at any signal and feature") {
  CHECK(rc::check("sound", [] {
    const StackSpec spec = any_model();
    const std::uint64_t seed = any_seed();
    const bool tokens = any_of({false, true});
    const bool biased = any_of({false, true});
    const double largest = 3.0;
    for (const Target& target : exact_targets()) {
      const Backend& ops = *target.backend;
      const GeneratedWeights plain(ops, spec, target.dtype, seed);
      const EditedWeights normed(plain, same_matrix, random_norms(ops));
      const BiasedWeights weights(ops, spec.model, normed, biased ? 1.0 : 0.0);
      const StackContext c{.ops = ops, .model = spec.model, .weights = weights};
      SignalMaxima maxima;
      for (std::uint64_t i = 0; i < 3; ++i) {
        if (tokens) {
          std::vector<int> ids(static_cast<std::size_t>(spec.input.tokens));
          for (int& id : ids) id = any_int(0, spec.model.vocab - 1);
          maxima.add(c, ids);
        } else {
          std::vector<double> x = ops.to_host(gaussian_input(ops, spec, target.dtype, seed + i));
          for (double& v : x) v = std::clamp(v, -largest, largest);
          maxima.add(c, ops.from_host(spec.input.tokens, spec.model.width, target.dtype, x));
        }
      }
      const TheoryParameters parameters(ops, weights);
      const theory::Certificate certificate = theory::certify(spec.model, parameters, {tokens, largest});
      for (const theory::SignalBound& b : certificate.bounds) RC_ASSERT(std::isfinite(b.largest));
      const Tightness t = compare(certificate, maxima);
      RC_LOG() << t.where << '\n';
      RC_ASSERT(t.worst <= slack);
    }
  }));
}

}  // namespace
}  // namespace periscope::testing
