#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "experiments/engine/run/token_ids.h"
#include "sim/model/parameters.h"
#include "tests/scales/scaled_stack.h"
#include "tests/support/compare.h"
#include "tests/support/doctest.h"

/// Compares theory with simulation for random weights with a standard deviation per matrix and a gain per channel.
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
    // Gains are large for some features and doubled in some heads.
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

TEST_CASE("scales of the initialisation, and profiles of ones, give its prediction bit for bit") {
  for (const char* placement : {"pre", "peri", "post", "deepnorm"}) {
    StackSpec spec = scaled_stack(placement);
    spec.input.second_moment = 0.25;
    WeightScales same;
    for (const ParameterId& id : gains_of(spec.model)) same.gains[id] = gain_of(spec, id.sublayer, id.weight);
    WeightScales ones;
    for (int l = -1; l <= spec.model.sublayers(); ++l) {
      for (const Weight w : weights_in(spec.model, l)) {
        if (is_norm(w)) continue;
        same.stddev[matrix_id(l / 2, w)] = stddev_of(spec, l / 2, w);
        const auto [fan_out, fan_in] = shape_of(spec.model, w);
        ones.profiles[matrix_id(l / 2, w)] = {.rows = std::vector<double>(static_cast<std::size_t>(fan_out), 1.0),
                                              .columns = std::vector<double>(static_cast<std::size_t>(fan_in), 1.0)};
      }
    }
    ones.stddev = same.stddev;
    ones.gains = same.gains;
    const auto predicted = [&](const StackSpec& of) {
      return theory::predict(of, stacks::distinct_token_ids(of, 0, 2), {.max_samples = 64});
    };
    const theory::Prediction initial = predicted(spec);
    for (const WeightScales& scales : {same, ones}) {
      const theory::Prediction scaled = predicted(with(spec, scales));
      REQUIRE(initial.profile.curves.size() == scaled.profile.curves.size());
      for (const auto& [key, curve] : initial.profile.curves) {
        check_same_bits(std::string(name_of(key.first)), scaled.profile.curves.at(key).value, curve.value);
      }
      CHECK(scaled.finite_width == initial.finite_width);
      CHECK(scaled.profile.angular_distance == initial.profile.angular_distance);
    }
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
