#include "experiments/studies/certify/attack.h"

#include "tests/support/doctest.h"

#include <functional>

#include "experiments/engine/settings/theory_parameters.h"
#include "sim/model/input.h"
#include "tests/certify/certified_stack.h"
#include "tests/support/edited_weights.h"
#include "tests/support/finite_difference.h"
#include "tests/support/recorded_stack.h"

/// The certificate attacked: an optimiser must fail to exceed it, and must find every bound that is planted too low.
namespace periscope::testing {
namespace {

constexpr double attack_rounding = 1e-11;

/// What theory is told, if it is to be told something else than the model.
struct Planted final : theory::Parameters {
  const theory::Parameters& honest;
  std::function<void(Weight, theory::NormParameters&)> norms = [](auto, auto&) {};
  std::function<void(Weight, Eigen::VectorXd&)> biases = [](auto, auto&) {};

  explicit Planted(const theory::Parameters& parameters) : honest(parameters) {}
  [[nodiscard]] theory::RowMatrix matrix(int layer, Weight weight) const override {
    return honest.matrix(layer, weight);
  }
  void visit_rows(Weight weight, const BlockVisitor& visit) const override { honest.visit_rows(weight, visit); }
  [[nodiscard]] Eigen::VectorXd bias(int layer, Weight weight) const override {
    Eigen::VectorXd b = honest.bias(layer, weight);
    biases(weight, b);
    return b;
  }
  [[nodiscard]] theory::NormParameters norm(int sublayer, Weight site) const override {
    theory::NormParameters n = honest.norm(sublayer, site);
    norms(site, n);
    return n;
  }
  [[nodiscard]] std::string entry_name(const ParameterId& id, Eigen::Index entry) const override {
    return honest.entry_name(id, entry);
  }
};

/// A tiny stack with random gains and biases everywhere.
struct Victim {
  StackSpec spec;
  const Backend& ops = truth();
  GeneratedWeights plain;
  EditedWeights normed;
  BiasedWeights weights;
  config::TheoryParameters parameters;

  explicit Victim(StackSpec s)
      : spec(std::move(s)),
        plain(ops, spec, DType::f64, 5),
        normed(plain, same_matrix, random_norms(ops)),
        weights(ops, normed, 0.5),
        parameters(ops, spec.model, weights) {}
  [[nodiscard]] StackContext context() const { return {.ops = ops, .model = spec.model, .weights = weights}; }
};

StackSpec victim_stack(std::string_view placement, NormKind norm) {
  StackSpec spec = placed(tiny_stack(), placement);
  spec.model.norm = norm;
  spec.model.norm_eps = 1e-12;
  spec.model.embedding_norm = true;
  return spec;
}

constexpr theory::InputDomain any_real{.tokens = false, .largest = theory::infinity};

certify::AttackOptions short_attack() {
  return {.steps = 80, .restarts = 2, .tokens = 3, .seed = 1, .dtype = DType::f64};
}

TEST_CASE("gradient ascent comes near the certificate of every class and never passes it") {
  for (const std::string_view placement : {"post", "pre", "peri", "b-only", "a+c", "residual-dual"}) {
    for (const NormKind norm : {NormKind::rms, NormKind::layer}) {
      const Victim v(victim_stack(placement, norm));
      const theory::Certificate certificate = theory::certify(v.spec.model, v.parameters, any_real);
      certify::SignalMaxima seen;
      for (const certify::SignalPlace& place : certify::attack_places(certificate)) {
        const certify::AttackResult r =
            certify::attack(v.context(), certificate, place, any_real, short_attack(), seen);
        INFO(placement, " ", name_of(place.signal), " ", r.ratio());
        CHECK(r.ratio() <= 1.0 + attack_rounding);
        // A gated MLP's output is where the certificate is loosest, a linear map behind a norm where it is exact.
        const bool exact = place.signal == Signal::v && placement != "b-only";
        CHECK(r.ratio() > (exact ? 0.75 : 0.01));
      }
      CHECK_FALSE(certify::check_bounds(certificate, seen, attack_rounding).exceeded.has_value());
    }
  }
}

TEST_CASE("the input of the first sublayer reaches its bound, behind an embedding norm") {
  for (const NormKind norm : {NormKind::rms, NormKind::layer}) {
    const Victim v(victim_stack("peri", norm));
    const theory::Certificate certificate = theory::certify(v.spec.model, v.parameters, any_real);
    certify::SignalMaxima seen;
    const certify::AttackResult r =
        certify::attack(v.context(), certificate, {Signal::x_out, -1, 4}, any_real,
                        {.steps = 200, .restarts = 2, .tokens = 2, .seed = 3, .dtype = DType::f64}, seen);
    CHECK(r.ratio() <= 1.0 + attack_rounding);
    CHECK(r.ratio() > 1.0 - 1e-6);
  }
}

TEST_CASE("the attack finds bounds that are too low") {
  const auto broken = [](NormKind norm, const certify::SignalPlace& place, const std::function<void(Planted&)>& plant) {
    const Victim v(victim_stack("peri", norm));
    Planted parameters(v.parameters);
    plant(parameters);
    const theory::Certificate certificate = theory::certify(v.spec.model, parameters, any_real);
    certify::SignalMaxima seen;
    certify::attack(v.context(), certificate, place, any_real,
                    {.steps = 150, .restarts = 2, .tokens = 2, .seed = 3, .dtype = DType::f64}, seen);
    return certify::check_bounds(certificate, seen, attack_rounding).exceeded.has_value();
  };
  const auto nothing = [](Planted&) {};
  const auto smaller_dimension = [](Planted& p) {
    p.norms = [](Weight, theory::NormParameters& n) { n.gain *= std::sqrt(11.0 / 12.0); };
  };
  const auto no_norm_bias = [](Planted& p) { p.norms = [](Weight, theory::NormParameters& n) { n.bias.setZero(); }; };
  const auto no_bias = [](Weight which) {
    return [which](Planted& p) {
      p.biases = [which](Weight weight, Eigen::VectorXd& b) {
        if (weight == which) b.setZero();
      };
    };
  };
  for (const Signal signal : {Signal::x_out, Signal::B_out, Signal::v, Signal::up}) {
    const int sublayer = signal == Signal::x_out ? -1 : signal == Signal::up ? 1 : 0;
    const certify::SignalPlace place{signal, sublayer, 2};
    CHECK_FALSE(broken(NormKind::layer, place, nothing));
    // Norm B's bound is reached only where the module can put everything into one feature.
    if (signal != Signal::B_out) CHECK(broken(NormKind::rms, place, smaller_dimension));
    CHECK(broken(NormKind::layer, place, no_norm_bias));
  }
  CHECK(broken(NormKind::rms, {Signal::v, 0, 2}, no_bias(Weight::v)));
  CHECK(broken(NormKind::rms, {Signal::up, 1, 2}, no_bias(Weight::up)));
}

TEST_CASE("greedy search over token ids stays below the certificate, and finds a forgotten position table") {
  StackSpec spec = placed(tiny_stack(), "pre");
  spec.input.kind = InputKind::tokens;
  spec.model.embedding.positions = 6;
  const Victim v(spec);
  const theory::InputDomain tokens;
  const certify::AttackOptions options{.steps = 24, .restarts = 3, .tokens = 8, .seed = 1, .dtype = DType::f64};
  ModelSpec without = v.spec.model;
  without.embedding.positions = 0;
  for (const bool planted : {false, true}) {
    const theory::Certificate certificate = theory::certify(planted ? without : v.spec.model, v.parameters, tokens);
    certify::SignalMaxima seen;
    const certify::AttackResult r =
        certify::attack(v.context(), certificate, {Signal::x_out, -1, 3}, tokens, options, seen);
    CHECK(certify::check_bounds(certificate, seen, attack_rounding).exceeded.has_value() == planted);
    if (!planted) CHECK(r.ratio() > 0.8);
  }
}

TEST_CASE("greedy search changes every token of a sequence, not the first alone") {
  StackSpec spec = placed(tiny_stack(), "pre");
  spec.input.kind = InputKind::tokens;
  spec.model.embedding.positions = 3;
  const Backend& ops = truth();
  const GeneratedWeights plain(ops, spec, DType::f64, 5);
  const int vocab = spec.model.vocab;
  for (int position = 0; position < 3; ++position) {
    CAPTURE(position);
    // Feature 3 counts the id, and one position outshines the others: only the token there matters.
    const EditedWeights weights(
        plain,
        [&](int, Weight weight, const Tensor& w) {
          if (weight != Weight::embedding && weight != Weight::positions) return w;
          std::vector<double> values(static_cast<std::size_t>(w.size()), 0.0);
          for (Tensor::Index row = 0; row < w.rows(); ++row) {
            values[static_cast<std::size_t>(row * w.cols() + 3)] = weight == Weight::embedding
                                                                       ? static_cast<double>(row)
                                                                   : row == position ? 1000.0
                                                                                     : 0.0;
          }
          return ops.from_host(w.rows(), w.cols(), w.dtype(), values);
        },
        same_norm);
    const StackContext context{.ops = ops, .model = spec.model, .weights = weights};
    const theory::InputDomain tokens;
    const theory::Certificate certificate =
        theory::certify(spec.model, config::TheoryParameters(ops, spec.model, weights), tokens);
    const auto reached = [&](int steps, std::uint64_t seed) {
      certify::SignalMaxima seen;
      return certify::attack(context, certificate, {Signal::x_out, -1, 3}, tokens,
                             {.steps = steps, .restarts = 1, .tokens = 3, .seed = seed, .dtype = DType::f64}, seen);
    };
    const double best = 1000.0 + vocab - 1;
    std::uint64_t seed = 0;
    while (seed < 20 && reached(0, seed).reached == best) ++seed;  // a start that is not yet the best
    REQUIRE(reached(0, seed).reached < best);
    const certify::AttackResult found = reached(90 * vocab, seed);
    CHECK(found.reached == best);
    CHECK(found.ids.at(static_cast<std::size_t>(position)) == vocab - 1);
  }
}

TEST_CASE("the attack's gradients, against finite differences") {
  for (const std::string_view placement : {"post", "peri", "pre"}) {
    const Victim v(victim_stack(placement, NormKind::layer));
    const theory::Certificate certificate = theory::certify(v.spec.model, v.parameters, any_real);
    const Tensor input = gaussian_input(v.ops, v.spec, DType::f64, 2);
    const StackContext c = v.context();
    for (const theory::SignalBound& b : certificate.bounds) {
      if (!certify::can_attack(b.signal)) continue;
      const certify::SignalPlace place{b.signal, b.sublayer, b.channel};
      const certify::PeakGradient slope = certify::peak_gradient_at(c, input, place, true);
      Differentiable f;
      f.loss = [&](std::span<const double> x) {
        return certify::peak_gradient_at(c, v.ops.from_host(input.rows(), input.cols(), DType::f64, x), place, false)
            .value;
      };
      f.point = v.ops.to_host(input);
      f.gradient = v.ops.to_host(slope.gradient);
      f.loss_error = 1e-13 * slope.value;
      f.step = 1e-3;
      check_gradient(std::string(name_of(b.signal)), f, 1, 3);
    }
  }
}

}  // namespace
}  // namespace periscope::testing
