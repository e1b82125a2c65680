#include "experiments/engine/judge/stack_verdicts.h"

#include <vector>

#include "tests/support/doctest.h"

namespace periscope {
namespace {

/// Contrasts of second moments of the stream at depths 0, 1, 2, …; every tolerated bias equals the predicted error.
std::vector<judge::Test> contrasts_of(const std::vector<double>& errors, const std::vector<double>& scales) {
  const StackSpec spec;
  const theory::Prediction prediction;
  judge::Measurement measured{.profile = {}, .seeds = 4};
  measured.profile.curves[{Statistic::second_moment, Signal::x_out}].value = scales;
  measured.per_seed.assign(4, measured.profile);
  std::vector<judge::Test> tests;
  for (std::size_t i = 0; i < errors.size(); ++i) {
    tests.push_back({.index = static_cast<int>(i),
                     .measured = {scales[i], 0.0},
                     .predicted = {scales[i], errors[i]},
                     .tolerated_bias = errors[i],
                     .scale = scales[i]});
  }
  return judge::contrasts({spec, measured, DType::f64, prediction}, tests, {});
}

TEST_CASE("prediction errors add linearly in a contrast, because predictions share their patterns") {
  const std::vector<judge::Test> two = contrasts_of({0.1, 0.3}, {2.0, 4.0});
  REQUIRE(two.size() == 1);
  CHECK(two[0].contrast == "mean");
  CHECK(two[0].predicted.error == approx(0.5 * 0.1 / 2.0 + 0.5 * 0.3 / 4.0).epsilon(1e-14));
  CHECK(two[0].tolerated_bias == two[0].predicted.error);
  const std::vector<judge::Test> three = contrasts_of({0.1, 0.3, 0.7}, {2.0, 4.0, 1.0});
  REQUIRE(three.size() == 2);
  CHECK(three[0].predicted.error == approx((0.05 + 0.075 + 0.7) / 3.0).epsilon(1e-14));
  CHECK(three[1].contrast == "slope");  // last depth minus first depth: weights -1, 0, 1
  CHECK(three[1].predicted.error == approx(0.05 + 0.7).epsilon(1e-14));
  CHECK(three[1].tolerated_bias == three[1].predicted.error);
}

TEST_CASE("contrasts of modules have the same limit as the stream") {
  judge::Test module{.signal = Signal::f_out, .measured = {1.0, 0.0}, .predicted = {1.0, 0.0}, .limit = 0.5};
  std::vector<judge::Test> tests;
  judge::Measurement measured{.profile = {}, .seeds = 4};
  measured.profile.curves[{Statistic::second_moment, Signal::f_out}].value.assign(6, 1.0);
  for (module.index = 0; module.index < 6; ++module.index) tests.push_back(module);
  measured.per_seed.assign(4, measured.profile);
  const StackSpec spec;
  const theory::Prediction prediction;
  const std::vector<judge::Test> all = judge::contrasts({spec, measured, DType::f64, prediction}, tests, {});
  REQUIRE(all.size() == 4);
  for (const judge::Test& test : all) CHECK(test.limit == (test.contrast.ends_with("mean") ? 0.2 : 0.4));
}

}  // namespace
}  // namespace periscope
