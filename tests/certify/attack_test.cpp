#include "experiments/studies/certify/attack.h"

#include <filesystem>
#include <numeric>

#include "experiments/studies/certify/certify.h"
#include "sim/checkpoint/checkpoint_weights.h"
#include "sim/model/input.h"
#include "tests/certify/certified_stack.h"
#include "tests/support/doctest.h"
#include "tests/support/finite_difference.h"
#include "tests/support/stack_table.h"

/// Attacks on the certificate in exact arithmetic: gradient ascent reaches sharp bounds but exceeds no bound.
namespace periscope::testing {
namespace {

constexpr double attack_rounding = 1e-11;

/// Checks that all bounded signals were measured and none exceeds its bound.
void check_below(const theory::Certificate& certificate, const certify::SignalMaxima& seen) {
  CHECK(seen.size() == certificate.bounds.size());
  const auto worst = certify::check_bounds(certificate, seen, attack_rounding).exceeded;
  if (worst)
    FAIL_CHECK(name_of(worst->place.signal), " ", worst->place.sublayer, ": ", worst->reached, " of ", worst->bound);
}

TEST_CASE("gradient ascent exceeds no bound on stacks of every kind, with soft caps and windows" *
          doctest::test_suite("slow")) {
  int number = 0;
  for (NamedStack stack : stacks_of_every_kind()) {
    CAPTURE(stack.name);
    if (++number % 3 == 0) {
      stack.spec.model.attention.assign(
          static_cast<std::size_t>(stack.spec.model.layers),
          {.scores = {.scale = 0.7, .soft_cap = 0.5, .window = stack.spec.model.causal ? 2 : 0},
           .rope_frequencies = {}});
      stack.spec.model.head.soft_cap = 0.5;
    }
    const CertifiedStack c(stack.spec);
    const theory::InputDomain domain{.tokens = false, .largest = 3.0};
    const theory::Certificate certificate = certify(c.spec.model, c.weights, domain);
    certify::SignalMaxima seen;
    for (const certify::SignalPlace& place : certify::attack_places(certificate)) {
      certify::attack(c.context(), certificate, place, domain, {.steps = 15, .restarts = 1, .tokens = 3, .seed = 1},
                      seen);
    }
    check_below(certificate, seen);
  }
}

TEST_CASE("gradient ascent reaches sharp bounds, after an embedding norm and for bounded inputs" *
          doctest::test_suite("slow")) {
  struct Row {
    double largest;  ///< largest entry of the input; infinite if an embedding norm follows
    certify::SignalPlace place;
    double least;
  };
  for (const std::string_view placement : {"pre", "peri", "residual-dual"}) {
    for (std::size_t norm = 0; norm < norm_kind_names.size(); ++norm) {
      if (static_cast<NormKind>(norm) == NormKind::none) continue;
      for (const Row& row : {Row{theory::infinity, {Signal::x_out, -1, 4}, 1.0 - 1e-6},
                             Row{theory::infinity, {Signal::v, 0, 2}, 0.9}, Row{0.5, {Signal::A_out, 0, 2}, 0.9}}) {
        if (row.place.signal == Signal::A_out && placement == "residual-dual") continue;  // placement without norm A
        StackSpec spec = placed(tiny_stack(), placement);
        spec.model.norm = static_cast<NormKind>(norm);
        spec.model.norm_eps = 1e-12;
        spec.model.embedding_norm = std::isinf(row.largest);
        const CertifiedStack c(spec);
        const theory::InputDomain domain{.tokens = false, .largest = row.largest};
        const theory::Certificate certificate = certify(c.spec.model, c.weights, domain);
        certify::SignalMaxima seen;
        const certify::AttackResult r =
            certify::attack(c.context(), certificate, row.place, domain,
                            {.steps = 200, .restarts = 2, .tokens = 1, .seed = 3, .dtype = DType::f64}, seen);
        INFO(placement, " ", norm_kind_names[norm], " ", name_of(row.place.signal), " ", r.ratio());
        CHECK(r.ratio() >= row.least);
        check_below(certificate, seen);
      }
    }
  }
}

TEST_CASE("greedy search changes tokens at every position and finds the largest row") {
  StackSpec spec = token_stack("pre");
  spec.model.embedding.positions = 3;
  const GeneratedWeights plain(truth(), spec, DType::f64, 5);
  const int vocab = spec.model.vocab;
  for (int position = 0; position < 3; ++position) {
    CAPTURE(position);
    // Feature 3 is the token id, plus 1000 at one position, so that only the token at this position matters.
    const EditedWeights weights(
        plain,
        [&](int, Weight weight, const Tensor& w) {
          if (weight != Weight::embedding && weight != Weight::positions) return w;
          std::vector<double> values(static_cast<std::size_t>(w.size()), 0.0);
          for (int row = 0; row < w.rows(); ++row) {
            const double here = weight == Weight::embedding ? row : row == position ? 1000.0 : 0.0;
            values[static_cast<std::size_t>(row * w.cols() + 3)] = here;
          }
          return truth().from_host(w.rows(), w.cols(), w.dtype(), values);
        },
        same_norm);
    const StackContext context{.ops = truth(), .model = spec.model, .weights = weights};
    const theory::Certificate certificate = certify(spec.model, weights);
    const auto search = [&](int steps, std::uint64_t seed) {
      certify::SignalMaxima seen;
      return certify::attack(context, certificate, {Signal::x_out, -1, 3}, {},
                             {.steps = steps, .restarts = 1, .tokens = 3, .seed = seed, .dtype = DType::f64}, seen);
    };
    const double best = 1000.0 + vocab - 1;
    std::uint64_t seed = 0;
    while (seed < 20 && search(0, seed).reached == best) ++seed;  // find a start that is not optimal
    REQUIRE(search(0, seed).reached < best);
    const certify::AttackResult found = search(90 * vocab, seed);
    CHECK(found.reached == best);
    CHECK(found.ratio() == approx(1.0).epsilon(1e-12));  // the bound of a table is exact
    CHECK(found.ids.at(static_cast<std::size_t>(position)) == vocab - 1);
  }
}

TEST_CASE("the attack's gradients equal finite differences") {
  for (const std::string_view placement : {"post", "peri", "pre"}) {
    StackSpec spec = placed(tiny_stack(), placement);
    spec.model.norm = NormKind::layer;
    spec.model.embedding_norm = true;
    const CertifiedStack v(spec);
    const theory::Certificate certificate = certify(v.spec.model, v.weights, {false, theory::infinity});
    const Tensor input = gaussian_input(truth(), v.spec, DType::f64, 2);
    for (const theory::SignalBound& b : certificate.bounds) {
      if (!certify::can_attack(b.signal)) continue;
      const certify::SignalPlace place{b.signal, b.sublayer, b.channel};
      const certify::PeakGradient slope = certify::peak_gradient_at(v.context(), input, place, true);
      Differentiable f;
      f.loss = [&](std::span<const double> x) {
        const Tensor moved = truth().from_host(input.rows(), input.cols(), DType::f64, x);
        return certify::peak_gradient_at(v.context(), moved, place, false).value;
      };
      f.point = truth().to_host(input);
      f.gradient = truth().to_host(slope.gradient);
      f.loss_error = 1e-13 * slope.value;
      f.step = 1e-3;
      check_gradient(std::string(name_of(b.signal)), f, 1, 3);
    }
  }
}

TEST_CASE("stored models of every family: greedy search over tokens exceeds no bound; scaling preserves the logits" *
          doctest::test_suite("slow")) {
  int models = 0;
  for (const auto& entry : std::filesystem::directory_iterator(FIXTURES)) {
    if (!std::filesystem::exists(entry.path() / "config.json")) continue;
    ++models;
    INFO(entry.path().filename().string());
    const Checkpoint checkpoint(entry.path().string());
    const ModelSpec& m = checkpoint.model();
    const CheckpointWeights weights(truth(), checkpoint, DType::f64);
    const StackContext c{.ops = truth(), .model = m, .weights = weights};
    const theory::Certificate certificate = certify(m, weights);
    certify::SignalMaxima seen;
    for (const certify::SignalPlace& place : certify::attack_places(certificate)) {
      certify::attack(c, certificate, place, {}, {.steps = 10, .restarts = 2, .tokens = 5, .seed = 1}, seen);
    }
    check_below(certificate, seen);
    if (!can_scale(m)) continue;
    std::vector<int> ids(6);
    std::iota(ids.begin(), ids.end(), 0);
    const theory::Certificate exact;
    const certify::ScaledRun run =
        certify::run_scaled(c, {.stream = 0.125, .branch = 0.5}, ids, {exact}, certify::certify_scaled(c, {}));
    CHECK(run.without_eps < 1e-12);
    CHECK(run.difference < 0.05);
    if (!recipe_of(m).gains_only) CHECK(run.gains_alone > 1e-3);
  }
  CHECK(models >= 10);
}

}  // namespace
}  // namespace periscope::testing
