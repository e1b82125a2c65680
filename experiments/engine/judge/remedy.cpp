#include "experiments/engine/judge/remedy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace periscope::judge {
namespace {

constexpr double max_factor = 1024.0;

bool uses_chain(const Test& test) { return test.spread_degrees >= 1; }

/// Returns n * factor, rounded and limited to half the range of int.
int multiple(int n, double factor) {
  constexpr int most = std::numeric_limits<int>::max() / 2;
  return static_cast<int>(std::lround(std::min<double>(n * factor, most)));
}

/// Returns the test with the error of its prediction multiplied by `error_factor`.
Test with_prediction_error(Test test, double error_factor) {
  if (uses_chain(test) && !test.replicates_given) return test;
  test.predicted.error *= error_factor;
  if (uses_chain(test)) {
    test.replicates = multiple(test.replicates, 1.0 / (error_factor * error_factor));
    test.spread_degrees = multiple(test.spread_degrees, 1.0 / (error_factor * error_factor));
  }
  return test;
}

std::string_view precision_key_of(const Test& test) {
  if (!test.precision_key.empty()) return test.precision_key;
  if (uses_chain(test)) return "theory.replicates";
  return is_gradient(test.statistic) ? "theory.gradient_tolerance" : "theory.tolerance";
}

/// Returns true if no detectable error would exceed its limit, with prediction errors multiplied by `error_factor`.
bool is_powerful(const std::vector<Test>& tests, double level, double seeds_times, double width_times,
                 double error_factor) {
  return std::ranges::all_of(tests, [&](const Test& t) {
    return projected_error(with_prediction_error(t, error_factor), level, seeds_times, width_times) <= t.limit;
  });
}

/// Returns the precision keys of predictions that are too imprecise for any number of seeds and any width.
std::string limiting_keys(const std::vector<Test>& tests, double level, int width) {
  std::vector<std::string_view> keys;
  for (const Test& t : tests) {
    if (projected_error(t, level, max_factor, width > 0 ? max_factor : 1.0) <= t.limit) continue;
    const std::string_view key = precision_key_of(t);
    if (std::ranges::find(keys, key) == keys.end()) keys.push_back(key);
  }
  return fmt::format("{}", fmt::join(keys, ", "));
}

/// Rounds a number of seeds up to two significant digits.
int rounded_up(int seeds) {
  if (seeds < 100) return seeds;
  const int unit = static_cast<int>(std::pow(10.0, std::floor(std::log10(seeds)) - 1.0));
  return (seeds + unit - 1) / unit * unit;
}

/// Returns the smallest sufficient number of seeds, from `seeds` to 1024 times as many, or 0.
int needed_seeds(const std::vector<Test>& tests, double level, int seeds, double width_times, double error_factor) {
  const auto too_few = [&](int n) {
    return !is_powerful(tests, level, static_cast<double>(n) / seeds, width_times, error_factor);
  };
  // Doubling, not std::partition_point, as the detectable error is not monotonic. With many seeds the prediction's
  // error dominates, and it has few degrees of freedom if there are few replicates.
  int high = seeds;
  for (; too_few(high); high *= 2) {
    if (high >= max_factor * seeds || high > std::numeric_limits<int>::max() / 2) return 0;
  }
  int low = std::max(seeds - 1, high / 2);  // too few, or less than `seeds`
  while (low + 1 < high) {
    const int middle = low + (high - low) / 2;
    (too_few(middle) ? low : high) = middle;
  }
  return high;
}

/// Returns times · `width` for the smallest power of two `times` such that `condition(times)` holds, or 0.
template <class Condition>
int needed_width(int width, const Condition& condition) {
  for (double times = 2.0; width > 0 && times <= max_factor; times *= 2.0) {
    if (condition(times)) return static_cast<int>(times) * width;
  }
  return 0;
}

/// Returns a remedy with more seeds, a larger width, or both; "" if neither is sufficient.
std::string words_for(const std::vector<Test>& tests, double level, int seeds, int width, double error_factor) {
  const int more = needed_seeds(tests, level, seeds, 1.0, error_factor);
  const int wider =
      needed_width(width, [&](double times) { return is_powerful(tests, level, 1.0, times, error_factor); });
  if (more > 0 && wider > 0) return fmt::format("use about {} seeds, or width {}", rounded_up(more), wider);
  if (more > 0) return fmt::format("use about {} seeds", rounded_up(more));
  if (wider > 0) return fmt::format(more_seeds_useless, wider);
  int both = 0;
  const int at = needed_width(width, [&](double times) {
    both = needed_seeds(tests, level, seeds, times, error_factor);
    return both > 0 && both <= 32 * times * seeds;
  });
  return at > 0 ? fmt::format("use about {} seeds at width {}", rounded_up(both), at) : std::string();
}

}  // namespace

double projected_error(const Test& test, double level, double seeds_times, double width_times) {
  Test then = test;
  then.measured.error /= std::sqrt(seeds_times * width_times);
  then.seeds = multiple(test.seeds, seeds_times);
  then.measured_degrees *= seeds_times;
  if (uses_chain(test)) {  // seeds and replicates have the same distribution; no bias of finite width is tolerated
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
    Test& numbers = tests.emplace_back(t);  // without its strings, as it is copied often
    for (std::string* words : {&numbers.contrast, &numbers.quantity, &numbers.label, &numbers.reason}) words->clear();
  }
  if (is_powerful(tests, level, 1.0, 1.0, 1.0)) return {};
  double fluctuation = 0.0;  // relative to the largest acceptable fluctuation
  for (const Test& t : tests) {
    if (!std::isinf(t.tolerated_bias)) continue;
    if (!(t.fluctuation > 0.0)) return "use a wider stack";
    // The detectable error includes the fluctuation. A quarter of the limit leaves a margin for noise and other biases.
    fluctuation = std::max(fluctuation, t.fluctuation / std::min(largest_fluctuation, 0.25 * t.limit));
  }
  if (fluctuation > 0.0) {
    const int wider = needed_width(width, [&](double times) { return fluctuation / times < 1.0; });
    return wider > 0 ? fmt::format(more_seeds_useless, wider) : std::string(nothing_within_reach);
  }
  constexpr double smallest_factor = 1.0 / 64.0;
  for (double error_factor = 1.0; error_factor >= smallest_factor; error_factor /= 2.0) {
    const std::string words = words_for(tests, level, seeds, width, error_factor);
    if (words.empty()) continue;
    if (error_factor == 1.0) return words;
    const std::string keys = limiting_keys(tests, level, width);
    return fmt::format("{}, with predictions {:g} times as precise{}", words, 1.0 / error_factor,
                       keys.empty() ? keys : " (" + keys + ")");
  }
  return std::string(nothing_within_reach);
}

}  // namespace periscope::judge
