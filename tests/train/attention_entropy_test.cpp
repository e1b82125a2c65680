#include "sim/measure/attention_entropy_probe.h"

#include <cmath>

#include "sim/measure/signal_store.h"
#include "tests/support/doctest.h"
#include "tests/support/recorded_stack.h"

namespace periscope::testing {
namespace {

using Values = std::vector<double>;

/// One layer with heads of width 2 and hand-made queries and keys.
struct Case {
  int heads = 1;
  int kv_heads = 1;
  int sequences = 1;
  bool causal = true;
  ScoreRule scores = {};
  Values q, k;
};

double measured_entropy(const Case& c) {
  StackSpec spec = tiny_stack();
  ModelSpec& m = spec.model;
  m.layers = 1;
  m.heads = c.heads;
  m.kv_heads = c.kv_heads;
  m.head_dim = 2;
  m.causal = c.causal;
  m.attention = {{.scores = c.scores, .rope_frequencies = {}}};
  const GeneratedWeights weights(truth(), spec, DType::f64, 1);
  const StackContext context{.ops = truth(), .model = m, .weights = weights, .sequences = c.sequences};
  AttentionEntropyProbe probe(context);
  const auto send = [&](Signal signal, Pass pass, const Values& x, int width) {
    const auto rows = static_cast<Tensor::Index>(x.size()) / width;
    probe.on_signal({0, signal, pass}, truth().from_host(rows, width, DType::f64, x));
  };
  send(Signal::q, Pass::forward, c.q, m.query_width(0));
  send(Signal::k, Pass::forward, c.k, m.key_width(0));
  send(Signal::q, Pass::backward, c.k, m.key_width(0));  // gradients must be ignored
  send(Signal::k, Pass::backward, c.k, m.key_width(0));
  REQUIRE(probe.entropies().size() == 1);
  return probe.entropies()[0];
}

/// Returns the entropy of softmax(scores).
double entropy_of(const Values& scores) {
  double total = 0.0;
  for (const double z : scores) total += std::exp(z);
  double sum = 0.0;
  for (const double z : scores) sum -= std::exp(z) / total * (z - std::log(total));
  return sum;
}

TEST_CASE("attention entropy is the mean over heads and over tokens that see several tokens, NaN if none does") {
  struct Row {
    const char* what;
    Case c;
    double expected;
  };
  const Values zero4(4, 0.0), zero12(12, 0.0), zero16(16, 0.0), one4(4, 1.0), one12(12, 1.0), one16(16, 1.0);
  const double root = std::sqrt(2.0);
  // Token 1 has q = (2, 1); k = (1, 3) and (2, 0) give the scores 5/√2 and 4/√2. Token 0: 36/√2 and 18/√2.
  const Values q{9, 9, 2, 1}, k{1, 3, 2, 0};
  // Heads 0 and 1 use the first key head, 2 and 3 the second. In head h, token 1 has the scores 0 and {1, 2, 1, 2}[h].
  const Values q4{0, 0, 0, 0, 0, 0, 0, 0, /* token 1 */ 1, 0, 2, 0, 3, 1, 4, 2},
      k2{0, 0, 0, 0, /* token 1 */ 1, 0, 0, 1};
  const double soft[] = {3.0 * std::tanh(2.5 / 3.0), 3.0 * std::tanh(2.0 / 3.0)};
  const Row rows[] = {
      {"uniform", {.heads = 2, .kv_heads = 2, .q = zero16, .k = one16}, std::log(24.0) / 3.0},
      {"bidirectional", {.heads = 2, .kv_heads = 2, .causal = false, .q = zero16, .k = one16}, std::log(4.0)},
      {"one token", {.heads = 2, .kv_heads = 2, .causal = false, .q = zero4, .k = one4}, NAN},
      {"one causal token", {.heads = 2, .kv_heads = 2, .q = zero4, .k = one4}, NAN},
      {"sequences of one token", {.heads = 2, .kv_heads = 2, .sequences = 4, .q = zero16, .k = one16}, NAN},
      {"two sequences", {.heads = 2, .kv_heads = 2, .sequences = 2, .q = zero16, .k = one16}, std::log(2.0)},
      {"two tokens", {.q = q, .k = k}, entropy_of({5 / root, 4 / root})},
      {"two tokens, bidirectional",
       {.causal = false, .q = q, .k = k},
       (entropy_of({5 / root, 4 / root}) + entropy_of({36 / root, 18 / root})) / 2.0},
      {"score scale", {.scores = {.scale = 0.5}, .q = q, .k = k}, entropy_of({2.5, 2.0})},
      {"soft cap", {.scores = {.scale = 0.5, .soft_cap = 3.0}, .q = q, .k = k}, entropy_of({soft[0], soft[1]})},
      {"different sequences",
       {.sequences = 2, .scores = {.scale = 1.0}, .q = {9, 9, 2, 1, 9, 9, 0, 2}, .k = {1, 3, 2, 0, 1, 1, 7, 3}},
       (entropy_of({5, 4}) + entropy_of({2, 6})) / 2.0},
      {"uniform window", {.scores = {.window = 2}, .q = zero12, .k = one12}, std::log(2.0)},
      {"window of one token", {.scores = {.window = 1}, .q = zero12, .k = one12}, NAN},
      {"the window has the last two tokens",
       {.scores = {.scale = 1.0, .window = 2}, .q = {1, 0, 1, 0, 1, 0}, .k = {0, 0, 1, 0, 3, 0}},
       (entropy_of({0, 1}) + entropy_of({1, 3})) / 2.0},
      {"grouped heads",
       {.heads = 4, .kv_heads = 2, .scores = {.scale = 1.0}, .q = q4, .k = k2},
       (entropy_of({0, 1}) + entropy_of({0, 2})) / 2.0},
      {"large scores", {.scores = {.scale = 1.0}, .q = {0, 0, 1e4, 0}, .k = {0, 0, 1, 0}}, 0.0},
      {"large equal scores", {.scores = {.scale = 1.0}, .q = {0, 0, 1e4, 0}, .k = {-1, 0, -1, 0}}, std::log(2.0)},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    const double found = measured_entropy(row.c);
    CHECK(std::isnan(found) == std::isnan(row.expected));
    if (!std::isnan(found)) CHECK(found == approx(row.expected).epsilon(1e-13));
  }
}

TEST_CASE("attention entropy equals the entropy of the pattern in attention's output") {
  // With two tokens and one head, mixed₁ = p·v₀ + (1 − p)·v₁ determines p.
  for (const QkNorm qk_norm : {QkNorm::none, QkNorm::head}) {
    StackSpec spec = placed(tiny_stack(), "pre");
    spec.model.heads = spec.model.kv_heads = 1;
    spec.model.qk_norm = qk_norm;
    spec.model.attention.resize(2);
    spec.model.attention[0].rope_frequencies = rope_frequencies(spec.model.head_dim, 10.0);
    spec.model.attention[1].scores = {.scale = 2.0, .soft_cap = 0.5};
    spec.init.factor = 8.0;
    spec.init.scheme = InitScheme::scaled;
    spec.input.tokens = 2;
    const GeneratedWeights weights(truth(), spec, DType::f64, 2);
    const StackContext context{.ops = truth(), .model = spec.model, .weights = weights};
    AttentionEntropyProbe probe(context);
    SignalStore signals(Pass::forward);
    (void)stack_forward(context, gaussian_input(truth(), spec, DType::f64, 2), {.recorders = {&probe, &signals}});
    REQUIRE(probe.entropies().size() == 2);
    for (int layer = 0; layer < 2; ++layer) {
      const Values mixed = truth().to_host(signals.at(2 * layer, Signal::mixed));
      const Values v = truth().to_host(signals.at(2 * layer, Signal::v));
      const auto n = static_cast<std::size_t>(spec.model.head_dim);
      double along = 0.0;
      double square = 0.0;
      for (std::size_t i = 0; i < n; ++i) {
        along += (mixed[n + i] - v[n + i]) * (v[i] - v[n + i]);
        square += (v[i] - v[n + i]) * (v[i] - v[n + i]);
      }
      const double p = along / square;
      CHECK(std::abs(p - 0.5) > 0.01);
      // The tolerance is absolute, because p is computed from a difference of values near 1.
      CHECK(std::abs(probe.entropies()[static_cast<std::size_t>(layer)] + p * std::log(p) +
                     (1.0 - p) * std::log1p(-p)) < 1e-10);
    }
  }
}

}  // namespace
}  // namespace periscope::testing
