#include <cmath>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "sim/measure/gradient_probe.h"
#include "sim/measure/probe.h"
#include "sim/model/input.h"
#include "sim/model/loss.h"
#include "sim/model/matrix_free.h"
#include "tests/support/doctest.h"
#include "tests/support/recorded_stack.h"
#include "tests/support/significance.h"

/// Matrix-free and dense stacks have the same distribution at finite width: statistics agree in mean and in variance
/// over seeds.
namespace periscope::testing {
namespace {

/// One value per statistic and seed.
using Samples = std::map<std::string, std::vector<double>>;

void add_curves(const Profile& profile, Samples& samples) {
  for (const auto& [key, curve] : profile.curves) {
    const auto [statistic, place] = key;
    if (std::holds_alternative<Weight>(place)) {
      if (statistic != Statistic::log_grad_sq || !std::isfinite(curve.value.front())) continue;
      samples["gradient of " + std::string(name_of(place))].push_back(curve.value.front());
      continue;
    }
    const Signal signal = std::get<Signal>(place);
    const bool wanted = statistic == Statistic::second_moment || statistic == Statistic::token_cosine ||
                        statistic == Statistic::log_grad_sq || statistic == Statistic::branch_cosine;
    if (!std::isfinite(curve.value.front())) continue;  // the cosine of a single token is NaN
    if (!wanted || signal == Signal::r_out || signal == Signal::A_out) continue;
    const std::string name = std::string(name_of(statistic)) + " " + std::string(name_of(signal));
    samples[name + ", first"].push_back(curve.value.front());
    samples[name + ", last"].push_back(curve.value.back());
  }
}

Samples samples_of(const StackSpec& spec, bool matrix_free, int seeds) {
  const Target& target = targets().front();
  const Backend& ops = *target.backend;
  Samples samples;
  for (int seed = 0; seed < seeds; ++seed) {
    const auto number = static_cast<std::uint64_t>(seed);
    std::unique_ptr<WeightSource> weights;
    if (matrix_free) {
      weights = std::make_unique<MatrixFreeWeights>(ops, spec, target.dtype, number);
    } else {
      weights = std::make_unique<GeneratedWeights>(ops, spec, target.dtype, number);
    }
    const StackContext context{.ops = ops, .model = spec.model, .weights = *weights};
    Probe probe(context);
    GradientProbe gradients(context);
    std::vector<int> labels;
    for (int t = 0; t < spec.input.tokens; ++t) labels.push_back(3 * t % spec.model.vocab);
    // Different inputs make the two samples independent.
    const Tensor input = gaussian_input(ops, spec, target.dtype, number + (matrix_free ? 1'000'000 : 0));
    backpropagate(context, input, labels, {.recorders = {&probe, &gradients}, .gradients = {&gradients}});
    Reading reading = probe.take();
    gradients.take_into(reading.profile);
    add_curves(reading.profile, samples);
  }
  return samples;
}

/// Returns squared deviations from the mean.
std::vector<double> squared_distances(const std::vector<double>& samples) {
  const double mean = std::accumulate(samples.begin(), samples.end(), 0.0) / static_cast<double>(samples.size());
  std::vector<double> squares;
  for (const double s : samples) squares.push_back((s - mean) * (s - mean));
  return squares;
}

void check_same_law(const std::string& what, const StackSpec& spec, int seeds) {
  const Samples dense = samples_of(spec, false, seeds);
  const Samples free = samples_of(spec, true, seeds);
  REQUIRE(dense.size() == free.size());
  for (const auto& [name, samples] : dense) {
    const std::string where = what + ", " + name;
    const std::vector<double>& others = free.at(name);
    check_consistent(where, estimate(others), estimate(samples));
    check_consistent(where + ", spread", estimate(squared_distances(others)), estimate(squared_distances(samples)));
  }
}

StackSpec narrow(std::string_view placement) {
  StackSpec spec = placed(tiny_stack(), placement);
  spec.init.qk_factor = 2.0;  // avoids uniform attention
  return spec;
}

TEST_CASE("matrix-free and dense stacks have the same distribution for every placement" * doctest::test_suite("slow")) {
  for (const Placement& placement : rows_of_t1()) {
    check_same_law(std::string(placement.name), narrow(placement.name), 500);
  }
  for (const char* name : {"parallel", "x0", "hyper"}) check_same_law(name, narrow(name), 300);
}

TEST_CASE("matrix-free and dense stacks have the same distribution for 20, 1 and nearly equal tokens" *
          doctest::test_suite("slow")) {
  StackSpec many = narrow("peri");
  many.input.tokens = 20;
  check_same_law("20 tokens", many, 300);
  StackSpec one = narrow("pre");
  one.input.tokens = 1;
  check_same_law("one token", one, 500);
  StackSpec correlated = narrow("pre");
  correlated.input.correlation = 0.999;
  check_same_law("correlated tokens", correlated, 500);
}

TEST_CASE("matrix-free: rows and columns of a matrix, and different matrices, are normal and independent") {
  StackSpec spec = tiny_stack();
  spec.model.width = spec.model.mlp_width = 4000;
  spec.model.heads = spec.model.kv_heads = 4;
  spec.model.head_dim = 1000;
  const Target& target = targets().front();
  const Backend& ops = *target.backend;
  const MatrixFreeWeights weights(ops, spec, target.dtype, 7);
  std::map<std::string, std::vector<double>> drawn;
  for (const int layer : {0, 1}) {
    const SublayerWeights fetched = weights.fetch(2 * layer);
    for (const Weight weight : {Weight::q, Weight::v}) {
      // X = (1, 0, …) gives the first column of W, dY = (0, 1, 0, …) its second row.
      std::vector<double> first(4000, 0.0);
      first[0] = 1.0;
      std::vector<double> second(4000, 0.0);
      second[1] = 1.0;
      const Tensor x = ops.from_host(1, 4000, target.dtype, first);
      const auto reading = fetched.matrix(weight).map->product(ops, x, Save::for_backward);
      const std::string name = std::string(name_of(weight)) + std::to_string(layer);
      drawn[name + " column"] = ops.to_host(reading->output());
      drawn[name + " row"] = ops.to_host(reading->backward(ops.from_host(1, 4000, target.dtype, second)));
      // The entry at which the row and the column cross.
      CHECK(drawn[name + " row"][0] == approx(drawn[name + " column"][1]));
      drawn[name + " row"][0] = drawn[name + " column"][0];
    }
  }
  const double stddev = stddev_of(spec, 0, Weight::q);
  for (auto it = drawn.begin(); it != drawn.end(); ++it) {
    for (auto other = it; other != drawn.end(); ++other) {
      std::vector<double> products;
      for (std::size_t i = 1; i < 4000; ++i) products.push_back(it->second[i] * other->second[i] / (stddev * stddev));
      check_consistent(it->first + " with " + other->first, estimate(products), it == other ? 1.0 : 0.0);
    }
  }
}

}  // namespace
}  // namespace periscope::testing
