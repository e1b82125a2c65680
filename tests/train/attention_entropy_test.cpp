#include "sim/measure/attention_entropy_probe.h"

#include <cmath>

#include "sim/measure/signal_store.h"
#include "tests/support/doctest.h"
#include "tests/support/recorded_stack.h"

namespace periscope::testing {
namespace {

using Values = std::vector<double>;

/// One layer with heads of width 2, whose probe receives hand-made queries and keys.
struct HandMade {
  StackSpec spec = tiny_stack();
  int sequences = 1;

  HandMade(int heads, int kv_heads) {
    spec.model.layers = 1;
    spec.model.heads = heads;
    spec.model.kv_heads = kv_heads;
    spec.model.head_dim = 2;
  }
  ScoreRule& scores() {
    spec.model.attention.resize(1);
    return spec.model.attention[0].scores;
  }
  [[nodiscard]] double entropy(const Values& q, const Values& k) const {
    const GeneratedWeights weights(truth(), spec, DType::f64, 1);
    const StackContext context{.ops = truth(), .model = spec.model, .weights = weights, .sequences = sequences};
    AttentionEntropyProbe probe(context);
    const auto tensor = [](const Values& x, int width) {
      return truth().from_host(static_cast<Tensor::Index>(x.size()) / width, width, DType::f64, x);
    };
    probe.on_signal({0, Signal::q, Pass::forward}, tensor(q, spec.model.query_width()));
    probe.on_signal({0, Signal::k, Pass::forward}, tensor(k, spec.model.key_width()));
    // Gradients must be ignored.
    probe.on_signal({0, Signal::q, Pass::backward}, tensor(k, spec.model.key_width()));
    probe.on_signal({0, Signal::k, Pass::backward}, tensor(k, spec.model.key_width()));
    REQUIRE(probe.entropies().size() == 1);
    return probe.entropies()[0];
  }
};

/// Entropy of softmax(scores).
double entropy_of(const Values& scores) {
  double total = 0.0;
  for (const double z : scores) total += std::exp(z);
  double sum = 0.0;
  for (const double z : scores) sum -= std::exp(z) / total * (z - std::log(total));
  return sum;
}

doctest::Approx near(double x) { return doctest::Approx(x).epsilon(1e-13); }

TEST_CASE("attention entropy: ln n for uniform attention; tokens that see only one token are excluded") {
  HandMade made(2, 2);
  CHECK(made.entropy(Values(16, 0.0), Values(16, 1.0)) == near((std::log(2) + std::log(3) + std::log(4)) / 3.0));
  made.spec.model.causal = false;
  CHECK(made.entropy(Values(16, 0.0), Values(16, 1.0)) == near(std::log(4)));
  CHECK(std::isnan(made.entropy(Values(4, 0.0), Values(4, 1.0))));
  made.spec.model.causal = true;
  CHECK(std::isnan(made.entropy(Values(4, 0.0), Values(4, 1.0))));
  made.sequences = 4;
  CHECK(std::isnan(made.entropy(Values(16, 0.0), Values(16, 1.0))));
  made.sequences = 2;
  CHECK(made.entropy(Values(16, 0.0), Values(16, 1.0)) == near(std::log(2)));
}

TEST_CASE("attention entropy: two tokens by hand; score scale and soft cap") {
  // q = (2, 1) of token 1, k = (1, 3) and (2, 0): scores 5/√2 and 4/√2.
  const Values q{9.0, 9.0, 2.0, 1.0};
  const Values k{1.0, 3.0, 2.0, 0.0};
  HandMade made(1, 1);
  const double p = 1.0 / (1.0 + std::exp(-1.0 / std::sqrt(2.0)));
  const double expected = -p * std::log(p) - (1.0 - p) * std::log(1.0 - p);
  CHECK(made.entropy(q, k) == near(expected));
  made.spec.model.causal = false;  // token 0 has the scores 36/√2 and 18/√2
  CHECK(made.entropy(q, k) == near((expected + entropy_of({36.0 / std::sqrt(2.0), 18.0 / std::sqrt(2.0)})) / 2.0));
  made.spec.model.causal = true;
  made.scores().scale = 0.5;
  CHECK(made.entropy(q, k) == near(entropy_of({2.5, 2.0})));
  made.scores().soft_cap = 3.0;
  CHECK(made.entropy(q, k) == near(entropy_of({3.0 * std::tanh(2.5 / 3.0), 3.0 * std::tanh(2.0 / 3.0)})));
}

TEST_CASE("attention entropy: mean over sequences, which do not see each other") {
  HandMade made(1, 1);
  made.scores().scale = 1.0;
  made.sequences = 2;
  const Values q{9, 9, 2, 1, /* second sequence */ 9, 9, 0, 2};
  const Values k{1, 3, 2, 0, /* second sequence */ 1, 1, 7, 3};
  CHECK(made.entropy(q, k) == near((entropy_of({5, 4}) + entropy_of({2, 6})) / 2.0));
}

TEST_CASE("attention entropy: sliding window") {
  HandMade made(1, 1);
  made.scores().window = 2;
  CHECK(made.entropy(Values(12, 0.0), Values(12, 1.0)) == near(std::log(2)));
  made.scores().window = 1;
  CHECK(std::isnan(made.entropy(Values(12, 0.0), Values(12, 1.0))));
  made.scores().window = 2;
  made.scores().scale = 1.0;
  // Keys 0, 1, 2 along the first axis; token 2 sees the last two of them.
  const Values q{1, 0, 1, 0, 1, 0};
  const Values k{0, 0, 1, 0, 3, 0};
  CHECK(made.entropy(q, k) == near((entropy_of({0.0, 1.0}) + entropy_of({1.0, 3.0})) / 2.0));
}

TEST_CASE("attention entropy: mean over heads, which share keys in groups; large scores") {
  HandMade made(4, 2);
  made.scores().scale = 1.0;
  // Heads 0 and 1 of token 1 use the first key head, with scores 0 and q₀; heads 2 and 3 use the second.
  const Values q{0, 0, 0, 0, 0, 0, 0, 0, /* token 1 */ 1, 0, 2, 0, 3, 1, 4, 2};
  const Values k{0, 0, 0, 0, /* token 1 */ 1, 0, 0, 1};
  const double expected = (entropy_of({0, 1}) + entropy_of({0, 2}) + entropy_of({0, 1}) + entropy_of({0, 2})) / 4.0;
  CHECK(made.entropy(q, k) == near(expected));
  HandMade one(1, 1);
  one.scores().scale = 1.0;
  CHECK(one.entropy({0, 0, 1e4, 0}, {0, 0, 1, 0}) == 0.0);
  CHECK(one.entropy({0, 0, 1e4, 0}, {-1, 0, -1, 0}) == near(std::log(2)));
}

TEST_CASE("attention entropy: equals that of the pattern in the output of attention") {
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
      CHECK(probe.entropies()[static_cast<std::size_t>(layer)] ==
            doctest::Approx(-p * std::log(p) - (1.0 - p) * std::log1p(-p)).epsilon(1e-10));
    }
  }
}

}  // namespace
}  // namespace periscope::testing
