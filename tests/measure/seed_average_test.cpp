#include "sim/measure/seed_average.h"

#include "tests/support/doctest.h"

#include <cmath>
#include <vector>

#include "tests/measure/live_bytes.h"
#include "tests/support/targets.h"

namespace periscope::testing {
namespace {

using Values = std::vector<double>;
constexpr std::pair curve_key{Statistic::variance, Signal::x_out};

/// A reading with one curve, one angular distance and the top magnitudes of one signal.
Reading reading(Values curve, double angle, Values top, int diverged_at = -1) {
  Reading r;
  r.profile.curves[curve_key] = {std::move(curve), {}};
  r.profile.angular_distance = {angle};
  r.top[Signal::f_out] = {std::move(top)};
  r.diverged_at = diverged_at;
  return r;
}

TEST_CASE("seed average: mean and standard error match hand-computed values; one seed gives NaN") {
  SeedAverage average;
  average.add(reading({1, 10}, 0.25, {3}));
  CHECK(std::isnan(average.profile().curves.at(curve_key).standard_error[0]));
  average.add(reading({2, 10}, 0.5, {4}));
  average.add(reading({6, 10}, 0.75, {1}));
  CHECK(average.seeds() == 3);
  const Profile p = average.profile();
  const Curve& curve = p.curves.at(curve_key);
  CHECK(curve.value[0] == approx(3.0));
  CHECK(curve.standard_error[0] == approx(std::sqrt(7.0 / 3.0)));  // variance (4 + 1 + 9)/2
  CHECK(curve.value[1] == 10.0);
  CHECK(curve.standard_error[1] == 0.0);
  CHECK(p.angular_distance[0] == approx(0.5));
}

TEST_CASE("seed average: top magnitudes are the largest over all seeds, in order") {
  SeedAverage average;
  average.add(reading({1, 2}, 0, {9, 5, 1}));
  average.add(reading({1, 2}, 0, {7, 5, 2}));
  CHECK(average.top().at(Signal::f_out)[0] == Values{9, 7, 5, 5, 2, 1});
  // The values 200 … 1, alternating between two seeds.
  Values even, odd;
  for (int i = 200; i > 0; i -= 2) even.push_back(i), odd.push_back(i - 1);
  SeedAverage full;
  full.add(reading({1, 2}, 0, even));
  full.add(reading({1, 2}, 0, odd));
  const Values& top = full.top().at(Signal::f_out)[0];
  REQUIRE(top.size() == top_count);
  for (std::size_t i = 0; i < top.size(); ++i) CHECK(top[i] == 200.0 - static_cast<double>(i));
}

TEST_CASE("seed average: diverged seeds are counted and the earliest sublayer is reported") {
  SeedAverage average;
  average.add(reading({1, 2}, 0, {}));
  CHECK(average.diverged_seeds() == 0);
  CHECK(average.diverged_at() == -1);
  for (const int at : {5, 3, 4}) average.add(reading({1, 2}, 0, {}, at));
  average.add(reading({1, 2}, 0, {}));
  CHECK(average.diverged_seeds() == 3);
  CHECK(average.diverged_at() == 3);
}

TEST_CASE("seed average: memory does not grow with the number of seeds") {
  SeedAverage average;
  const auto add = [&](int seed) {
    Values top(top_count);
    for (std::size_t i = 0; i < top.size(); ++i) top[i] = seed + 1.0 / static_cast<double>(i + 1);
    average.add(reading(Values(50, seed), 0.5, std::move(top)));
  };
  for (int seed = 0; seed < 3; ++seed) add(seed);
  const std::size_t before = live_bytes();
  CHECK(before > top_count * sizeof(double));  // live_bytes is active
  for (int seed = 3; seed < 200; ++seed) add(seed);
  CHECK(live_bytes() <= before);
  CHECK(average.profile().curves.at(curve_key).value.size() == 50);
}

}  // namespace
}  // namespace periscope::testing
