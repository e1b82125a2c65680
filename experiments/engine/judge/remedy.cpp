#include "experiments/engine/judge/remedy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace periscope::judge {
namespace {

constexpr double most_times = 1024.0;

bool is_of_chain(const Test& test) { return test.spread_degrees >= 1; }

/// A count, which stays an int.
int multiple(int n, double factor) {
  constexpr int most = std::numeric_limits<int>::max() / 2;
  return static_cast<int>(std::lround(std::min<double>(n * factor, most)));
}

/// A test whose prediction has `sharper` times its error, by the key that says how precise predictions are.
Test sharpened(Test test, double sharper) {
  if (is_of_chain(test) && !test.replicates_given) return test;
  test.predicted.error *= sharper;
  if (is_of_chain(test)) {
    test.replicates = multiple(test.replicates, 1.0 / (sharper * sharper));
    test.spread_degrees = multiple(test.spread_degrees, 1.0 / (sharper * sharper));
  }
  return test;
}

std::string_view key_of_precision(const Test& test) {
  if (!test.precision_key.empty()) return test.precision_key;
  if (is_of_chain(test)) return "theory.replicates";
  return is_gradient(test.statistic) ? "theory.gradient_tolerance" : "theory.tolerance";
}

/// True if every test could detect an error of its limit, with predictions of `sharper` times their error.
bool decides(const std::vector<Test>& tests, double level, double seeds_times, double width_times, double sharper) {
  return std::ranges::all_of(tests, [&](const Test& t) {
    return projected_error(sharpened(t, sharper), level, seeds_times, width_times) <= t.limit;
  });
}

/// The keys of those predictions that stay in the way of any number of seeds at any width.
std::string keys_in_the_way(const std::vector<Test>& tests, double level, int width) {
  std::vector<std::string_view> keys;
  for (const Test& t : tests) {
    if (projected_error(t, level, most_times, width > 0 ? most_times : 1.0) <= t.limit) continue;
    const std::string_view key = key_of_precision(t);
    if (std::ranges::find(keys, key) == keys.end()) keys.push_back(key);
  }
  return fmt::format("{}", fmt::join(keys, ", "));
}

/// A number of seeds to two digits, upwards.
int rounded_up(int seeds) {
  if (seeds < 100) return seeds;
  const int unit = static_cast<int>(std::pow(10.0, std::floor(std::log10(seeds)) - 1.0));
  return (seeds + unit - 1) / unit * unit;
}

/// Returns the fewest seeds, from `seeds` to 1024 times as many, with which all tests decide; 0 if there are none.
int fewest(const std::vector<Test>& tests, double level, int seeds, double width_times, double sharper) {
  const auto too_few = [&](int n) {
    return !decides(tests, level, static_cast<double>(n) / seeds, width_times, sharper);
  };
  // Doubling, not std::partition_point: with many seeds the error of a prediction from few replicates dominates, and
  // its few degrees of freedom can make the detectable error larger again.
  int high = seeds;
  for (; too_few(high); high *= 2) {
    if (high >= most_times * seeds || high > std::numeric_limits<int>::max() / 2) return 0;
  }
  int low = std::max(seeds - 1, high / 2);  // too few
  while (low + 1 < high) {
    const int middle = low + (high - low) / 2;
    (too_few(middle) ? low : high) = middle;
  }
  return high;
}

/// The smallest width, in powers of two times this one, at which `condition(times)` holds, or 0.
template <class Condition>
int narrowest(int width, const Condition& condition) {
  for (double times = 2.0; width > 0 && times <= most_times; times *= 2.0) {
    if (condition(times)) return static_cast<int>(times) * width;
  }
  return 0;
}

/// Seeds alone, width alone, or the two together; "" if nothing within reach decides.
std::string words_for(const std::vector<Test>& tests, double level, int seeds, int width, double sharper) {
  const int more = fewest(tests, level, seeds, 1.0, sharper);
  const int wider = narrowest(width, [&](double times) { return decides(tests, level, 1.0, times, sharper); });
  if (more > 0 && wider > 0) return fmt::format("about {} seeds, or width {},", rounded_up(more), wider);
  if (more > 0) return fmt::format("about {} seeds", rounded_up(more));
  if (wider > 0) return fmt::format("about width {}, but not more seeds,", wider);
  int both = 0;
  const int at = narrowest(width, [&](double times) {
    both = fewest(tests, level, seeds, times, sharper);
    return both > 0 && both <= 32 * times * seeds;
  });
  return at > 0 ? fmt::format("about {} seeds at width {}", rounded_up(both), at) : std::string();
}

}  // namespace

double projected_error(const Test& test, double level, double seeds_times, double width_times) {
  Test then = test;
  then.measured.error /= std::sqrt(seeds_times * width_times);
  then.seeds = multiple(test.seeds, seeds_times);
  then.measured_degrees *= seeds_times;
  if (is_of_chain(test)) {  // seeds and replicates are draws of one law, and nothing is allowed for width
    const double replicates_times = test.replicates_given ? 1.0 : seeds_times;
    then.predicted.error /= std::sqrt(replicates_times * width_times);
    then.spread /= std::sqrt(width_times);
    then.replicates = multiple(test.replicates, replicates_times);
    then.spread_degrees = multiple(test.spread_degrees, replicates_times);
  } else {
    then.tolerated_bias /= width_times;
  }
  return then.detectable_at(level);
}

std::string remedy(const std::vector<Test>& all, double level, int width) {
  std::vector<Test> tests;
  int seeds = 1;
  for (const Test& t : all) {
    if (!t.is_finite() && !std::isinf(t.tolerated_bias)) return {};
    if (std::isinf(t.limit)) continue;
    seeds = std::max(seeds, t.seeds);
    Test& numbers = tests.emplace_back(t);  // copied often below
    for (std::string* words : {&numbers.contrast, &numbers.quantity, &numbers.label, &numbers.reason}) words->clear();
  }
  if (decides(tests, level, 1.0, 1.0, 1.0)) return {};
  double fluctuation = 0.0;  // in units of what it may be
  for (const Test& t : tests) {
    if (!std::isinf(t.tolerated_bias)) continue;
    if (!(t.fluctuation > 0.0)) return "a wider stack would decide";
    // Half of it is granted, on both sides of the number: a quarter of the limit leaves room for the rest.
    fluctuation = std::max(fluctuation, t.fluctuation / std::min(largest_fluctuation, 0.25 * t.limit));
  }
  if (fluctuation > 0.0) {
    const int wider = narrowest(width, [&](double times) { return fluctuation / times < 1.0; });
    return wider > 0 ? fmt::format("about width {}, but not more seeds, would decide", wider)
                     : std::string(nothing_within_reach);
  }
  constexpr double sharpest = 1.0 / 64.0;
  for (double sharper = 1.0; sharper >= sharpest; sharper /= 2.0) {
    const std::string words = words_for(tests, level, seeds, width, sharper);
    if (words.empty()) continue;
    if (sharper == 1.0) return words + " would decide";
    const std::string keys = keys_in_the_way(tests, level, width);
    return fmt::format("{} would decide, with predictions {:g} times as precise{}", words, 1.0 / sharper,
                       keys.empty() ? keys : " (" + keys + ")");
  }
  return std::string(nothing_within_reach);
}

}  // namespace periscope::judge
