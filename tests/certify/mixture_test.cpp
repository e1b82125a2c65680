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

theory::Certificate certificate_of(EditedCheckpoint& edited, Arithmetic arithmetic) {
  const Checkpoint checkpoint(edited.write(), {}, Checkpoint::TiedCopies::must_be_equal, Checkpoint::Mixtures::read);
  const CheckpointWeights weights(truth(), checkpoint, DType::f64);
  const RunArithmetic run = arithmetic == Arithmetic::exact ? RunArithmetic() : run_arithmetic(arithmetic, fp16);
  return certify(checkpoint.model(), weights, {}, run, 64);
}

TEST_CASE("a mixture of one expert has the certificate of the dense stack with the same weights, bit for bit") {
  for (const std::string name : {"mistral", "qwen3"}) {
    for (const Arithmetic arithmetic : {Arithmetic::exact, Arithmetic::mixed, Arithmetic::pure}) {
      EditedCheckpoint dense(name), mixture(name);
      mixture.make_mixture(1, 1);
      const theory::Certificate found = certificate_of(mixture, arithmetic);
      for (const theory::SignalBound& bound : certificate_of(dense, arithmetic).bounds) {
        INFO("name := ", name, ", signal := ", name_of(bound.signal), ", bound.sublayer := ", bound.sublayer);
        const theory::SignalBound* same = found.find(bound.signal, bound.sublayer);
        REQUIRE(same != nullptr);
        CHECK(same->magnitude == bound.magnitude);
      }
    }
  }
}

TEST_CASE("bounds of a mixture are the maximum over its experts, and name the expert") {
  const auto scale = [](EditedCheckpoint& c, const std::string& tensor, double factor) {
    for (double& w : c.tensors.at(tensor).values) w *= factor;
  };
  const std::vector<std::pair<std::string, Signal>> scaled{
      {"up", Signal::up}, {"down", Signal::f_out}, {"gate", Signal::gate}};  // one matrix of every expert
  for (const std::string name : {"mistral", "qwen3"}) {
    EditedCheckpoint mixture(name);
    // gate = up makes the hidden layer positive. W_down reads one hidden feature with positive entries, so all outputs
    // are positive. Expert 1 has negative outputs, because its W_down is multiplied by a negative factor.
    const auto make_positive = [](EditedCheckpoint& c) {
      const std::string mlp = "model.layers.0.mlp.";
      c.tensors.at(mlp + "gate_proj.weight") = c.tensors.at(mlp + "up_proj.weight");
      std::vector<double>& down = c.tensors.at(mlp + "down_proj.weight").values;
      const std::size_t columns = c.config["intermediate_size"];
      for (std::size_t i = 0; i < down.size(); ++i) down[i] = i % columns == 0 ? std::abs(down[i]) : 0.0;
    };
    make_positive(mixture);
    mixture.make_mixture(3, 2);
    if (name == "qwen3") mixture.config["norm_topk_prob"] = true;
    std::vector<theory::Certificate> dense;
    for (int expert = 0; expert < 3; ++expert) {
      const std::string& matrix = scaled[static_cast<std::size_t>(expert)].first;
      const double factor = matrix == "down" ? -64.0 : 8.0;
      scale(mixture, mixture.mixture_tensor(0, expert, matrix), factor);
      EditedCheckpoint single(name);
      make_positive(single);
      scale(single, "model.layers.0.mlp." + matrix + "_proj.weight", factor);
      dense.push_back(certificate_of(single, Arithmetic::exact));
    }
    const theory::Certificate found = certificate_of(mixture, Arithmetic::exact);
    for (const Signal signal : {Signal::gate, Signal::up, Signal::hidden, Signal::f_out}) {
      INFO("name := ", name, ", signal := ", name_of(signal));
      theory::Vector most = dense[0].find(signal, 1)->magnitude;
      for (const theory::Certificate& c : dense) most = most.cwiseMax(c.find(signal, 1)->magnitude);
      CHECK(found.find(signal, 1)->magnitude == most);
    }
    CHECK(found.find(Signal::up, 1)->expert == 0);
    CHECK(found.find(Signal::gate, 1)->expert == 2);
  }
}

/// Σ p_e over the chosen experts as a run computes it, with every step rounded.
double summed_weights(const RunArithmetic& run, const ExpertSpec& experts, const std::vector<double>& logits) {
  const auto stored = [&](double x) { return theory::rounded_to(run.stored, x); };
  const auto summed = [&](double x) { return theory::rounded_to(run.accumulated, x); };
  const auto sum_of = [](const std::vector<double>& terms, const auto& rounded) {
    double sum = 0.0;
    for (const double x : terms) sum = rounded(sum + x);
    return sum;
  };
  std::vector<double> weights;
  for (const double z : logits) weights.push_back(summed(std::exp(summed(z - *std::ranges::max_element(logits)))));
  const double denominator = sum_of(weights, summed);
  for (double& w : weights) w = summed(w / denominator);
  std::ranges::sort(weights, std::greater());
  weights.resize(static_cast<std::size_t>(experts.per_token));
  const double chosen = experts.normalised ? sum_of(weights, summed) : 1.0;
  for (double& w : weights) w = stored(summed(w / chosen));
  return sum_of(weights, stored);
}

TEST_CASE("the sum of computed expert weights stays in its range, which is a few roundings wide") {
  const theory::BoundedSet one = theory::point(theory::Vector::Ones(1));
  std::mt19937_64 random(1);
  for (const Arithmetic arithmetic : {Arithmetic::mixed, Arithmetic::pure}) {
    const RunArithmetic run = run_arithmetic(arithmetic, fp16);
    for (const ExpertSpec& experts : {ExpertSpec{8, 2, true}, ExpertSpec{8, 2, false}, ExpertSpec{9, 4, true},
                                      ExpertSpec{9, 4, false}, ExpertSpec{8, 8, false}, ExpertSpec{8, 1, true}}) {
      const theory::BoundedSet range = theory::ComputedOps(run, 64).mixed_experts(experts, 10.0, one);
      const double least = experts.normalised ? 1.0 : 1.0 * experts.per_token / experts.count;
      CHECK(range.high[0] <= 1.0 + 30.0 * fp16.unit_roundoff());
      CHECK(range.low[0] >= least - 30.0 * fp16.unit_roundoff());
      for (int draw = 0; draw < 2000; ++draw) {
        std::vector<double> logits(static_cast<std::size_t>(experts.count));  // equal, nearly equal, or far apart
        const double size = std::array{0.0, 0.01, 1.0, 5.0}[static_cast<std::size_t>(draw) % 4];
        for (double& z : logits) z = size * std::normal_distribution()(random);
        const double found = summed_weights(run, experts, logits);
        REQUIRE(found <= range.high[0]);
        REQUIRE(found >= range.low[0]);
      }
    }
  }
  // 63 of 64 addends are lost in the denominator. Weighted with slightly larger outputs, all are rounded up.
  const RunArithmetic pure = run_arithmetic(Arithmetic::pure, fp16);
  const auto stored = [&](double x) { return theory::rounded_to(pure.stored, x); };
  const double u = fp16.unit_roundoff(), tiny = stored(std::exp(-7.625)), larger = 1.0 + 4.0 * u;
  double denominator = 1.0, found = 1.0;
  for (int expert = 1; expert < 64; ++expert) {
    denominator = stored(denominator + tiny);
    found = stored(found + stored(tiny * larger));
  }
  CHECK(denominator == 1.0);
  CHECK(found == 1.0 + 126.0 * u);
  for (const bool normalised : {true, false}) {
    CAPTURE(normalised);
    theory::ComputedOps ops(pure, 64);
    CHECK(found <= ops.mixed_experts({64, 64, normalised}, 7.625, {one.low, larger * one.high, {}}).high[0]);
  }
  // In exact arithmetic the 2 largest of 8 weights have a sum from 1/4 to 1.
  const theory::BoundedSet exact =
      theory::ComputedOps({}, 64).mixed_experts({8, 2, false}, 10.0, {2.0 * one.low, 3.0 * one.high, {}});
  CHECK(exact.low[0] == approx(0.5));
  CHECK(exact.high[0] == approx(3.0));
  // The largest of 128 weights may round to 0 in FP8, so that the division by their sum gives 0/0.
  theory::ComputedOps narrow(run_arithmetic(Arithmetic::pure, fp8_e4m3), 64);
  CHECK(std::isinf(narrow.mixed_experts({128, 8, true}, 10.0, one).high[0]));
}

}  // namespace
}  // namespace periscope::testing
