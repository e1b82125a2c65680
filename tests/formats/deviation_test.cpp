#include "experiments/studies/formats/deviation.h"

#include <cmath>

#include "sim/model/input.h"
#include "tests/formats/stack.h"
#include "tests/support/doctest.h"

/// Measures of a pass in a format, compared with hand-computed values and invariants.
namespace periscope::testing {
namespace {

using formats::FormatsConfig;
using formats::Measure;
using formats::SeedReading;

constexpr formats::Site stream_site{Pass::forward, Signal::x_out};

TEST_CASE("every measure matches hand-computed values") {
  // Two tokens: (3, 4) is rounded to (4, 3), and (1, 2) to (0, 2).
  const auto m = formats::measures_of({4.0, 3.0, 0.0, 2.0}, {3.0, 4.0, 1.0, 2.0}, 2);
  const auto of = [&](Measure measure) { return m[static_cast<std::size_t>(measure)]; };
  CHECK(of(Measure::sqnr) == approx(10.0 * std::log10(30.0 / 3.0)));
  CHECK(of(Measure::second_moment) == approx(29.0 / 4.0));
  CHECK(of(Measure::variance) == approx((0.25 + 1.0) / 2.0));
  CHECK(of(Measure::maximum) == 4.0);
  CHECK(of(Measure::underflow) == 0.25);
  CHECK(of(Measure::overflow) == 0.0);
  CHECK(of(Measure::second_moment_drift) == approx(29.0 / 30.0 - 1.0));
  CHECK(of(Measure::variance_drift) == approx(0.625 / 0.25 - 1.0));
  const auto bad = formats::measures_of({HUGE_VAL, 1.0, std::nan(""), 0.0}, {3.0, 4.0, 1.0, 0.0}, 2);
  CHECK(bad[static_cast<std::size_t>(Measure::overflow)] == 0.5);
  CHECK(bad[static_cast<std::size_t>(Measure::underflow)] == 0.0);
  CHECK(std::isnan(bad[static_cast<std::size_t>(Measure::maximum)]));
}

TEST_CASE("a loss scale that is a power of two changes no gradient and prevents underflow of gradients in FP8") {
  FormatsConfig config = small_config("post", {"bf16", "fp8_e5m2"});
  config.covers = {"stream", "norms", "modules"};
  config.base.model.vocab = 16384;  // 2^-14 per class, divided by 12 tokens, is below E5M2's smallest number 2^-16
  const SeedReading plain = reading_of(config);
  config.loss_scale = 4096.0;
  const SeedReading scaled = reading_of(config);
  CHECK(scaled[0][1].numbers.size() == plain[0][1].numbers.size());
  for (const auto& [site, values] : plain[0][1].numbers) {
    for (std::size_t place = 0; place < values.size(); ++place) {
      const double a = values[place];
      const double b = scaled[0][1].numbers.at(site)[place];
      CHECK((a == b || (std::isnan(a) && std::isnan(b))));
    }
  }
  const formats::Site logits{Pass::backward, Signal::logits};
  CHECK(number_of(plain[0][2], logits, Measure::underflow, 4) > 0.5);
  CHECK(number_of(scaled[0][2], logits, Measure::underflow, 4) == 0.0);
}

TEST_CASE("the first overflow is found, forward and backward") {
  FormatsConfig config = small_config("peri", {"fp8_e4m3", "fp16"});
  config.covers = {"stream", "norms", "modules"};
  config.base.model.gamma = 300.0;
  const SeedReading reading = reading_of(config);
  const formats::PassReading& e4m3 = reading[0][1];
  REQUIRE(e4m3.forward.found);
  CHECK(e4m3.forward.sublayer == 0);  // norm outputs are up to √32·300 = 1697, beyond E4M3's largest number 448
  CHECK(e4m3.forward.signal == Signal::A_out);
  CHECK_FALSE(reading[0][0].forward.found);
  config.saturates = true;
  CHECK_FALSE(reading_of(config)[0][1].forward.found);
  config = small_config("peri", {"fp16"});
  config.loss_scale = 1e9;
  const SeedReading back = reading_of(config);
  CHECK_FALSE(back[0][1].forward.found);
  REQUIRE(back[0][1].backward.found);
  CHECK(back[0][1].backward.signal == Signal::logits);
  CHECK(back[0][1].backward.sublayer == 4);
}

TEST_CASE("massive features are the first features of the input times the factor, in all runs") {
  FormatsConfig config = small_config("pre", {"int8"});
  config.massive = 50.0;
  config.massive_features = 2;
  const SeedReading reading = reading_of(config);
  const std::vector<double> input = quick().to_host(gaussian_input(quick(), config.base, DType::f64, 0));
  double plain = 0.0, massive = 0.0;
  for (std::size_t i = 0; i < input.size(); ++i) {
    plain += input[i] * input[i];
    massive += std::pow(input[i] * (i % 32 < 2 ? 50.0 : 1.0), 2.0);
  }
  for (const std::size_t variant : {0, 1}) {
    const double expected = (variant == 0 ? plain : massive) / static_cast<double>(input.size());
    for (const std::size_t format : {0, 1}) {
      CHECK(number_of(reading.at(variant)[format], stream_site, Measure::second_moment, -1) ==
            approx(expected).epsilon(format == 0 ? 1e-12 : 0.01));
    }
  }
}

}  // namespace
}  // namespace periscope::testing
