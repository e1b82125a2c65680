#include "sim/train/spikes.h"

#include <cmath>
#include <limits>
#include <random>

#include "tests/support/doctest.h"

namespace periscope::testing {
namespace {

using Series = std::vector<double>;
using Steps = std::vector<int>;

/// Returns 1, −1, 1, …, which has median 0 and median absolute deviation 1 over any even number of steps.
Series wave(std::size_t length) {
  Series series(length);
  for (std::size_t i = 0; i < length; ++i) series[i] = i % 2 == 0 ? 1.0 : -1.0;
  return series;
}

/// Returns the wave with `value` at `step`, counted from 1.
Series wave_with(std::size_t length, int step, double value) {
  Series series = wave(length);
  series.at(static_cast<std::size_t>(step - 1)) = value;
  return series;
}

Series exponential(Series series) {
  for (double& x : series) x = std::exp(x);
  return series;
}

TEST_CASE("robust spikes exceed the median of 16 to 128 earlier logarithms by 6 · 1.4826 median absolute deviations") {
  Series consecutive = wave_with(600, 201, 100.0);
  consecutive[202] = 10.0;
  Series old_noise = wave(400);  // the window has 128 steps
  for (std::size_t i = 0; i < 200; ++i) old_noise[i] *= 100.0;
  Series recent_noise = old_noise;
  old_noise[200 + 128] = 10.0;
  recent_noise[200 + 50] = 10.0;
  const auto even = [](double last) {  // eight logarithms 0 and eight 2: median 1, every deviation 1
    Series series(16, 0.0);
    std::fill(series.begin() + 8, series.end(), 2.0);
    series.push_back(1.0 + last);
    return series;
  };
  const std::pair<Series, Steps> rows[] = {
      {wave(400), {}},
      {wave_with(400, 201, 8.896), {201}},
      {wave_with(400, 201, 8.895), {}},
      {wave_with(400, 201, -50.0), {}},
      {wave_with(100, 16, 50.0), {}},
      {wave_with(100, 17, 50.0), {17}},
      {consecutive, {201, 203}},
      {old_noise, {329}},
      {recent_noise, {}},
      {even(8.895), {}},
      {even(8.896), {17}},
  };
  for (std::size_t i = 0; i < std::size(rows); ++i) {
    CAPTURE(i);
    CHECK(robust_spikes(exponential(rows[i].first)) == rows[i].second);
  }
}

TEST_CASE("robust spikes: non-finite values are spikes, values <= 0 are not; the window excludes both") {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  Series series = exponential(wave(100));
  series[0] = NAN;
  series[1] = -infinity;
  CHECK(robust_spikes(series) == Steps{1, 2});
  series = exponential(wave(100));
  Steps expected;
  for (int step = 21; step <= 60; ++step) {  // half of the steps before 81
    series[static_cast<std::size_t>(step - 1)] = step % 4 == 0 ? NAN : infinity;
    expected.push_back(step);
  }
  series[70] = std::exp(8.0);
  series[80] = std::exp(9.5);
  expected.push_back(81);
  CHECK(robust_spikes(series) == expected);
  for (std::size_t i = 20; i < 60; ++i) series[i] = i % 2 == 0 ? 0.0 : -1.0;
  CHECK(robust_spikes(series) == Steps{81});
  CHECK(robust_spikes(Series(100, 0.0)).empty());
}

TEST_CASE("largest_jump is the largest ratio of a value to the median of the 4 to 16 values before it") {
  CHECK(largest_jump(std::vector<double>{1.0, 1.0, 1.0, 50.0}).step == 0);
  const Jump early = largest_jump(std::vector<double>{8.0, 4.0, 2.0, 1.0, 30.0, 2.0});
  CHECK(early.step == 5);
  CHECK(early.factor == approx(10.0));
  std::vector<double> series(40, 100.0);
  std::fill(series.begin() + 10, series.end(), 2.0);
  series[19] = 14.0;  // nine of the 16 values before it are 2
  CHECK(largest_jump(series).step == 20);
  CHECK(largest_jump(series).factor == approx(7.0));
  series[5] = std::nan("");
  series[6] = 0.0;
  CHECK(largest_jump(series).step == 20);
  CHECK(largest_jump({}).step == 0);
  CHECK(largest_jump(std::vector<double>{9.0, 8.0, 7.0, 6.0, 5.0, 4.0, 3.0}).step == 0);  // no increase
}

/// Independent lognormal values; `deviation` is the standard deviation of the logarithm.
Series lognormal(std::size_t length, double deviation, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<double> normal;
  Series series;
  for (std::size_t i = 0; i < length; ++i) series.push_back(2.0 * std::exp(deviation * normal(generator)));
  return series;
}

/// Adds `count` spikes of `steps` steps every `apart` steps, each 12 standard deviations high in the logarithm.
Series planted(double deviation, int count, int steps, int apart) {
  Series series = lognormal(2000, deviation, 5);
  for (int i = 0; i < count; ++i) {
    for (int s = 0; s < steps; ++s)
      series.at(static_cast<std::size_t>(100 + apart * i + s)) *= std::exp(12.0 * deviation);
  }
  return series;
}

TEST_CASE("robust spikes have a low false-alarm rate on lognormal noise of any width" * doctest::test_suite("slow")) {
  // A simulation of 900 000 steps found at most 1 spike in 10 000 steps for windows of 16 to 128 steps.
  constexpr int series = 500;
  constexpr std::size_t steps = 240;
  std::vector<int> found;
  for (const double deviation : {0.1, 0.2, 0.3, 0.5, 0.7, 1.5}) {
    int count = 0;
    for (unsigned seed = 0; seed < series; ++seed)
      count += static_cast<int>(robust_spikes(lognormal(steps, deviation, seed)).size());
    CAPTURE(deviation);
    CHECK(count <= series * static_cast<int>(steps) / 10000);
    found.push_back(count);
  }
  // For each seed, logarithms differ between deviations only by a factor, so the spikes must be equal.
  for (const int count : found) CHECK(count == found.front());
}

TEST_CASE("a planted spike of any length is detected as one event" * doctest::test_suite("slow")) {
  for (const double deviation : {0.05, 0.3, 0.7}) {
    CAPTURE(deviation);
    for (const int steps : {1, 3, 16}) {
      CAPTURE(steps);
      for (const int count : {0, 1, 7, 20})
        CHECK(spike_events(robust_spikes(planted(deviation, count, steps, 90))).size() ==
              static_cast<std::size_t>(count));
    }
  }
}

TEST_CASE("spike_events merges steps that are at most 16 apart") {
  CHECK(spike_events({}).empty());
  CHECK(spike_events({40}) == Steps{40});
  CHECK(spike_events({40, 56, 72, 89}) == Steps{40, 89});
  CHECK(spike_events({89, 40, 40, 72, 56}) == Steps{40, 89});  // the steps come from two series
}

TEST_CASE("events of a run merge nearby spikes of the loss and of the gradient norm") {
  const Series calm = exponential(wave(400));
  const auto with = [](int step) { return exponential(wave_with(400, step, 20.0)); };
  CHECK(events_of_run(with(201), calm) == Steps{201});
  CHECK(events_of_run(calm, with(201)) == Steps{201});
  CHECK(events_of_run(with(201), with(210)) == Steps{201});
  CHECK(events_of_run(with(301), with(201)) == Steps{201, 301});
}

}  // namespace
}  // namespace periscope::testing
