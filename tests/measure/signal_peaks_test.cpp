#include "sim/measure/signal_peaks.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "tests/support/doctest.h"
#include "tests/support/recorded_stack.h"
#include "tests/support/targets.h"

namespace periscope::testing {
namespace {

std::vector<int> ids_of(const StackSpec& spec) {
  std::vector<int> ids(static_cast<std::size_t>(spec.input.tokens));
  for (std::size_t t = 0; t < ids.size(); ++t)
    ids[t] = static_cast<int>(t % static_cast<std::size_t>(spec.model.vocab));
  return ids;
}

/// Reads a pass over a stack with random weights.
ModelReading reading_of(const StackSpec& spec) {
  const GeneratedWeights weights(truth(), spec, DType::f64, 1);
  const StackContext context{truth(), spec.model, weights, 1};
  return read_model(context, {.ids = ids_of(spec), .labels = ids_of(spec)});
}

TEST_CASE("signal peaks equal every recorded maximum, including a second stream") {
  for (const Placement& placement : placement_table()) {
    INFO(std::string(placement.name));
    const ModelReading reading = reading_of(placed(tiny_stack(), placement.name));
    const std::vector<SignalPeaks> peaks = signal_peaks(reading);
    bool has_second_stream = false;
    for (const auto& [key, curve] : reading.reading.profile.curves) {
      if (key.first != Statistic::maximum) continue;
      const Signal signal = std::get<Signal>(key.second);
      has_second_stream = has_second_stream || signal == Signal::r_out;
      CAPTURE(name_of(signal));
      const auto found = std::ranges::find(peaks, signal, &SignalPeaks::signal);
      REQUIRE(found != peaks.end());
      const std::size_t first = signal == Signal::sum ? 1 : 0;  // depth 0 has no residual sum
      REQUIRE(found->values.size() + first == curve.value.size());
      for (std::size_t i = 0; i < found->values.size(); ++i) {
        const double expected = curve.value[i + first];
        CHECK((found->values[i] == expected || (std::isnan(found->values[i]) && std::isnan(expected))));
      }
    }
    CHECK(has_second_stream == (placement.wiring == Wiring::dual));
    if (placement.name == "post") CHECK(std::ranges::is_sorted(peaks, {}, &SignalPeaks::signal));
  }
}

TEST_CASE("signal peaks: NaN in the stream counts as infinite") {
  ModelReading reading = reading_of(placed(tiny_stack(), "pre"));
  reading.extremes.depths[2].top.front().value = std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> largest = largest_by_sublayer(reading);
  CHECK(std::isinf(largest[1]));
  CHECK(std::isfinite(largest[0]));
}

TEST_CASE("signal peaks: a planted maximum is attributed to its sublayer, or in the stream to the writing sublayer") {
  for (const char* placement : {"post", "peri", "residual-dual", "parallel", "parallel-two"}) {
    INFO(std::string(placement));
    const ModelReading plain = reading_of(placed(tiny_stack(), placement));
    const std::size_t sublayers = plain.growth.size();
    const std::size_t steps = plain.extremes.depths.size() - 1;
    const std::vector<double> before = largest_by_sublayer(plain);
    std::size_t planted = 0;
    for (const SignalPeaks& peaks : signal_peaks(plain)) {
      INFO(name_of(peaks.signal));
      const bool by_depth = peaks.signal == Signal::x_out || peaks.signal == Signal::r_out;
      REQUIRE(peaks.values.size() == (by_depth ? steps + 1 : sublayers));
      for (std::size_t i = 0; i < peaks.values.size(); ++i) {
        if (std::isnan(peaks.values[i])) continue;  // an MLP has no queries
        ModelReading reading = plain;
        const auto inside = reading.extremes.inside.find(peaks.signal);
        if (inside != reading.extremes.inside.end()) {
          inside->second[i] = 1e9;
        } else {
          const std::size_t first = peaks.signal == Signal::sum ? 1 : 0;  // depth 0 has no residual sum
          reading.reading.profile.curves.at({Statistic::maximum, peaks.signal}).value[i + first] = 1e9;
        }
        ++planted;
        // Depth d is written by the last sublayer of step d − 1; depth 0 is attributed to the first sublayer.
        const std::size_t owner = by_depth && i > 0 ? i * sublayers / steps - 1 : i;
        const std::vector<double> largest = largest_by_sublayer(reading);
        for (std::size_t l = 0; l < sublayers; ++l) CHECK(largest[l] == (l == owner ? 1e9 : before[l]));
        const Margin margin = smallest_margin(signal_peaks(reading), 1e10);
        CHECK(margin.value == 10.0);
        CHECK(margin.signal == name_of(peaks.signal));
        CHECK(margin.index == static_cast<int>(i));
      }
    }
    CHECK(planted > 8 * sublayers);
  }
}

}  // namespace
}  // namespace periscope::testing
