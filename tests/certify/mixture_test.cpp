#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <random>
#include <vector>

#include "sim/checkpoint/checkpoint_weights.h"
#include "tests/certify/certified_stack.h"
#include "tests/checkpoint/edited_checkpoint.h"
#include "tests/support/doctest.h"

namespace periscope::testing {
namespace {

constexpr std::array fixtures_with_mixtures{"mistral", "qwen3"};

theory::Certificate certificate_of(EditedCheckpoint& edited, Arithmetic arithmetic) {
  const Checkpoint checkpoint(edited.write(), {}, Checkpoint::TiedCopies::must_be_equal, Checkpoint::Mixtures::read);
  const CheckpointWeights weights(truth(), checkpoint, DType::f64);
  const RunArithmetic run = arithmetic == Arithmetic::exact ? RunArithmetic() : run_arithmetic(arithmetic, fp16);
  return certify(checkpoint.model(), weights, {}, run, 64);
}

/// Multiplies the matrices of one expert of layer 0, or of the MLP of a dense stack, by `factors` [gate, up, down].
void scale_expert(EditedCheckpoint& c, int expert, const std::array<double, 3>& factors) {
  for (std::size_t i = 0; i < factors.size(); ++i) {
    const std::string matrix = std::array{"gate", "up", "down"}[i];
    const std::string name =
        expert < 0 ? "model.layers.0.mlp." + matrix + "_proj.weight" : c.mixture_tensor(0, expert, matrix);
    for (double& w : c.tensors.at(name).values) w *= factors[i];
  }
}

TEST_CASE("a mixture of one expert has the certificate of the dense stack with the same weights, bit for bit") {
  for (const std::string name : fixtures_with_mixtures) {
    for (const Arithmetic arithmetic : {Arithmetic::exact, Arithmetic::mixed, Arithmetic::pure}) {
      EditedCheckpoint dense(name), mixture(name);
      mixture.make_mixture(1, 1);
      const theory::Certificate expected = certificate_of(dense, arithmetic);
      const theory::Certificate found = certificate_of(mixture, arithmetic);
      for (const theory::SignalBound& bound : expected.bounds) {
        INFO("name := ", name, ", signal := ", name_of(bound.signal), ", bound.sublayer := ", bound.sublayer);
        const theory::SignalBound* same = found.find(bound.signal, bound.sublayer);
        REQUIRE(same != nullptr);
        CHECK(same->magnitude == bound.magnitude);
      }
      for (const theory::ProductBound& product : expected.products) {
        const auto same = std::ranges::find_if(found.products, [&](const theory::ProductBound& p) {
          return p.name == product.name && p.sublayer == product.sublayer;
        });
        REQUIRE(same != found.products.end());
        CHECK(same->sums_in(fp16) == product.sums_in(fp16));
      }
    }
  }
}

TEST_CASE("bounds of a mixture are the maximum over its experts, and name the expert") {
  const std::vector<std::array<double, 3>> experts{{1.0, 8.0, 1.0}, {1.0, 1.0, 9.0}, {4.0, 1.0, 1.0}};
  const std::vector<std::pair<Signal, int>> largest{{Signal::gate, 2}, {Signal::up, 0}};
  for (const std::string name : fixtures_with_mixtures) {
    for (const Arithmetic arithmetic : {Arithmetic::exact, Arithmetic::mixed}) {
      EditedCheckpoint mixture(name);
      mixture.make_mixture(3, 2);
      mixture.config["norm_topk_prob"] = true;
      if (name == "mistral") mixture.config.erase("norm_topk_prob");
      std::vector<theory::Certificate> dense;
      for (int e = 0; e < 3; ++e) {
        scale_expert(mixture, e, experts[e]);
        EditedCheckpoint single(name);
        scale_expert(single, -1, experts[e]);
        dense.push_back(certificate_of(single, arithmetic));
      }
      const theory::Certificate found = certificate_of(mixture, arithmetic);
      const auto most = [&](Signal signal) {
        theory::Vector all = dense[0].find(signal, 1)->magnitude;
        for (const theory::Certificate& c : dense) all = all.cwiseMax(c.find(signal, 1)->magnitude);
        return all;
      };
      for (const Signal signal : {Signal::gate, Signal::up, Signal::hidden}) {
        INFO("name := ", name, ", signal := ", name_of(signal));
        CHECK(found.find(signal, 1)->magnitude == most(signal));
      }
      for (const auto& [signal, expert] : largest) CHECK(found.find(signal, 1)->expert == expert);
      const theory::Vector ratio = found.find(Signal::f_out, 1)->magnitude.cwiseQuotient(most(Signal::f_out));
      CHECK(ratio.minCoeff() >= 1.0);
      CHECK(ratio.maxCoeff() <= (arithmetic == Arithmetic::exact ? 1.0 : 1.0 + 8.0 * fp16.unit_roundoff()));
    }
  }
}

/// Σ p_e over the chosen experts as a run computes it, with every step rounded.
double summed_weights(const RunArithmetic& run, const ExpertSpec& experts, const std::vector<double>& logits) {
  const auto stored = [&](double x) { return theory::rounded_to(run.stored, x); };
  const auto summed = [&](double x) { return theory::rounded_to(run.accumulated, x); };
  std::vector<double> weights;
  const double largest = *std::ranges::max_element(logits);
  double denominator = 0.0;
  for (const double z : logits) {
    weights.push_back(summed(std::exp(summed(z - largest))));
    denominator = summed(denominator + weights.back());
  }
  for (double& w : weights) w = summed(w / denominator);
  std::ranges::sort(weights, std::greater());
  weights.resize(static_cast<std::size_t>(experts.per_token));
  double chosen = 0.0;
  for (const double w : weights) chosen = summed(chosen + w);
  double output = 0.0;
  for (const double w : weights) output = stored(output + stored(experts.normalised ? summed(w / chosen) : w));
  return output;
}

TEST_CASE("the sum of computed expert weights stays in its range, which is a few roundings wide") {
  const theory::BoundedSet one = theory::point(theory::Vector::Ones(1));
  std::mt19937_64 random(1);
  for (const NumberFormat& format : {number_formats[1], fp16}) {
    for (const Arithmetic arithmetic : {Arithmetic::mixed, Arithmetic::pure}) {
      for (const ExpertSpec& experts : {ExpertSpec{8, 2, true}, ExpertSpec{8, 2, false}, ExpertSpec{9, 4, true},
                                        ExpertSpec{9, 4, false}, ExpertSpec{8, 8, false}, ExpertSpec{8, 1, true}}) {
        const RunArithmetic run = run_arithmetic(arithmetic, format);
        const theory::BoundedSet range = theory::ComputedOps(run, 64).mixed_experts(experts, 10.0, one);
        const double least = experts.normalised ? 1.0 : 1.0 * experts.per_token / experts.count;
        INFO("format := ", format.name, ", experts.count := ", experts.count, ", range.low := ", range.low[0]);
        CHECK(range.high[0] <= 1.0 + 30.0 * format.unit_roundoff());
        CHECK(range.low[0] >= least - 30.0 * format.unit_roundoff());
        for (int draw = 0; draw < 2000; ++draw) {
          std::vector<double> logits(static_cast<std::size_t>(experts.count));
          // Equal logits give the smallest weights, one large logit gives the largest.
          const double size = std::array{0.0, 0.01, 1.0, 5.0}[static_cast<std::size_t>(draw) % 4];
          for (double& z : logits) z = size * std::normal_distribution()(random);
          const double found = summed_weights(run, experts, logits);
          REQUIRE(found <= range.high[0]);
          REQUIRE(found >= range.low[0]);
        }
      }
    }
  }
  // The largest of 128 weights may round to 0 in FP8, so that the division by their sum gives 0/0.
  theory::ComputedOps narrow(run_arithmetic(Arithmetic::pure, fp8_e4m3), 64);
  CHECK(std::isinf(narrow.mixed_experts({128, 8, true}, 10.0, one).high[0]));
}

}  // namespace
}  // namespace periscope::testing
