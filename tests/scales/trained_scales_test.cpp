#include <cmath>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "experiments/engine/run/token_ids.h"
#include "sim/model/parameters.h"
#include "tests/scales/scaled_stack.h"
#include "tests/support/compare.h"
#include "tests/support/doctest.h"

/// Random weights with one standard deviation per matrix and one gain per channel: theory against simulation.
namespace periscope::testing {
namespace {

/// Replaces the gains of every norm by their root mean square, which removes their correlation with channels.
WeightScales without_channels(WeightScales scales) {
  for (auto& [id, gain] : scales.gains) {
    const double squares = std::inner_product(gain.begin(), gain.end(), gain.begin(), 0.0);
    gain.assign(gain.size(), std::sqrt(squares / static_cast<double>(gain.size())));
  }
  return scales;
}

TEST_CASE("different scales of matrices and gains of channels: theory agrees with simulation") {
  for (const char* placement : {"pre", "peri", "post", "b-only", "a+c", "mix", "residual-dual"}) {
    const StackSpec spec = scaled_stack(placement);
    const Measured measured = measure(with(spec, uneven_scales(spec)));
    check_agrees(measured);
    // A theory with mean gains only is rejected where a norm follows the gains of another norm.
    if (spec.model.placement.name == "pre" || spec.model.placement.name == "b-only") continue;
    CAPTURE(std::string(placement));
    CHECK(agreement_of(measured, with(spec, without_channels(uneven_scales(spec)))).verdict ==
          judge::Verdict::disagrees);
  }
}

TEST_CASE("QK-norm with gains, shared or per head: theory agrees with simulation") {
  for (const QkNorm kind : {QkNorm::head, QkNorm::full}) {
    StackSpec spec = scaled_stack("b-only");
    spec.model.qk_norm = kind;
    WeightScales scales = uneven_scales(spec);
    // Strong gains for some features, stronger for some heads.
    for (auto& [id, gain] : scales.gains) {
      if (id.weight != Weight::q_norm && id.weight != Weight::k_norm) continue;
      for (std::size_t k = 0; k < gain.size(); ++k) gain[k] *= (k % 4 == 0 ? 1.3 : 0.2) * (k / 32 % 4 == 0 ? 2.0 : 1.0);
    }
    const Measured measured = measure(with(spec, scales));
    check_agrees(measured);
    WeightScales wrong = without_channels(scales);
    for (auto& [id, gain] : wrong.gains) {
      if (id.weight != Weight::q_norm && id.weight != Weight::k_norm) gain = scales.gains[id];
    }
    CAPTURE(static_cast<int>(kind));
    CHECK(agreement_of(measured, with(spec, wrong)).verdict == judge::Verdict::disagrees);
  }
}

/// Adds biases of 0.3 … 0.8 everywhere.
WeightScales biased_scales(const StackSpec& spec) {
  WeightScales scales = uneven_scales(spec);
  WeightScales all = scales;
  std::uint64_t place = 2000;
  const auto some = [&] { return 0.5 * std::exp(0.3 * normals(++place, 1)[0]); };
  for (const auto& [id, stddev] : scales.stddev) {
    if (!is_table(id.weight)) all.stddev[bias_of(id)] = some();
  }
  for (const auto& [id, gain] : scales.gains) all.stddev[bias_of(id)] = some();
  return all;
}

TEST_CASE("different biases of matrices and norms: theory agrees with simulation") {
  for (const char* placement : {"pre", "peri", "post"}) {
    StackSpec spec = scaled_stack(placement);
    spec.model.norm = NormKind::layer;
    spec.model.mlp = MlpKind::gelu;
    spec.model.rope = false;
    spec.model.embedding_norm = true;
    spec.model.embedding = {.positions = 8, .token_types = 2};
    const WeightScales scales = biased_scales(spec);
    const Measured measured = measure(with(spec, scales));
    check_agrees(measured);
    if (spec.model.placement.name != "pre") continue;
    for (const ParameterId& id : {matrix_id(0, Weight::q), matrix_id(0, Weight::v), matrix_id(0, Weight::o),
                                  matrix_id(0, Weight::up), matrix_id(0, Weight::down)}) {
      WeightScales wrong = scales;
      for (int l = 0; l < spec.model.layers; ++l) {
        wrong.stddev[bias_of(matrix_id(l, id.weight))] = id.weight == Weight::q ? 4.0 : 0.0;
      }
      CAPTURE(std::string(name_of(id.weight)));
      CHECK(agreement_of(measured, with(spec, wrong)).verdict == judge::Verdict::disagrees);
    }
  }
}

TEST_CASE("scales of the initialisation give its prediction, bit for bit") {
  for (const char* placement : {"pre", "peri", "post", "deepnorm"}) {
    StackSpec spec = scaled_stack(placement);
    spec.input.second_moment = 0.25;
    WeightScales same;
    for (int l = -1; l <= spec.model.sublayers(); ++l) {
      for (const Weight w : weights_in(spec.model, l)) {
        if (!is_norm(w)) same.stddev[matrix_id(l / 2, w)] = stddev_of(spec, l / 2, w);
      }
    }
    for (const ParameterId& id : gains_of(spec.model)) same.gains[id] = gain_of(spec, id.sublayer, id.weight);
    const auto curves = [](const StackSpec& of) {
      return theory::predict(of, stacks::distinct_token_ids(of, 0, 2), {.max_samples = 64}).profile;
    };
    const Profile initial = curves(spec);
    const Profile scaled = curves(with(spec, same));
    REQUIRE(initial.curves.size() == scaled.curves.size());
    for (const auto& [key, curve] : initial.curves)
      check_same_bits(std::string(name_of(key.first)), scaled.curves.at(key).value, curve.value);
    CHECK(scaled.angular_distance == initial.angular_distance);
  }
}

TEST_CASE("gradients with given scales are unsupported, with a reason") {
  const StackSpec spec = with(scaled_stack("peri"), uneven_scales(scaled_stack("peri")));
  const theory::Prediction p = theory::predict(spec, stacks::distinct_token_ids(spec, 0, 1),
                                               {.max_samples = 16, .labels = {{1, 2, 3, 4, 5, 6, 7, 8}}});
  CHECK(p.gradient_unsupported.find("loss") != std::string::npos);
  CHECK(p.profile.find(Statistic::grad_sq, Signal::x_out) == nullptr);
  CHECK(p.profile.find(Statistic::second_moment, Signal::x_out) != nullptr);
}

}  // namespace
}  // namespace periscope::testing
