#include "experiments/agreement/remedy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace periscope {
namespace {

constexpr double most_times = 1024.0;

/// True if every error that is wanted could be refused, with predictions of `sharper` times their error.
bool decides(const std::vector<Wanted>& wanted, double level, double seeds_times, double width_times, double sharper) {
  return std::ranges::all_of(wanted, [&](const Wanted& w) {
    Cell cell = w.cell;
    if (cell.spread_degrees < 1) cell.predicted_error *= sharper;
    return foreseen_power(cell, level, seeds_times, width_times) <= w.limit;
  });
}

/// The fewest seeds with which it decides at this width, or 0.
int fewest(const std::vector<Wanted>& wanted, double level, int seeds, double width_times, double sharper) {
  return seeds_that_decide(
      seeds, [&](int n) { return decides(wanted, level, static_cast<double>(n) / seeds, width_times, sharper); });
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
std::string words_for(const std::vector<Wanted>& wanted, double level, int seeds, int width, double sharper) {
  const int more = fewest(wanted, level, seeds, 1.0, sharper);
  const int wider = narrowest(width, [&](double times) { return decides(wanted, level, 1.0, times, sharper); });
  if (more > 0 && wider > 0) return fmt::format("about {} seeds, or width {},", rounded_up(more), wider);
  if (more > 0) return fmt::format("about {} seeds", rounded_up(more));
  if (wider > 0) return fmt::format("about width {}", wider);
  for (double times = 2.0; width > 0 && times <= most_times; times *= 2.0) {
    const int both = fewest(wanted, level, seeds, times, sharper);
    if (both > 0 && both <= 32 * times * seeds) {
      return fmt::format("about {} seeds at width {}", rounded_up(both), static_cast<int>(times) * width);
    }
  }
  return {};
}

}  // namespace

int seeds_that_decide(int seeds, const std::function<bool(int)>& enough) {
  int high = seeds;
  while (!enough(high)) {
    if (high >= most_times * seeds) return 0;
    high *= 2;
  }
  int low = high == seeds ? seeds - 1 : high / 2;  // too few, or not less than there are
  while (high - low > 1) {
    const int middle = low + (high - low) / 2;
    (enough(middle) ? high : low) = middle;
  }
  return high;
}

int rounded_up(int seeds) {
  if (seeds < 100) return seeds;
  const int unit = static_cast<int>(std::pow(10.0, std::floor(std::log10(seeds)) - 1.0));
  return (seeds + unit - 1) / unit * unit;
}

double foreseen_power(const Cell& cell, double level, double seeds_times, double width_times) {
  Cell then = cell;
  then.measured_error /= std::sqrt(seeds_times * width_times);
  then.seeds = static_cast<int>(std::lround(cell.seeds * seeds_times));
  if (cell.spread_degrees >= 1) {  // T25: seeds and replicates are draws of one law, and nothing is allowed for width
    then.predicted_error /= std::sqrt(seeds_times * width_times);
    then.spread /= std::sqrt(width_times);
    then.replicates = static_cast<int>(std::lround(cell.replicates * seeds_times));
    then.spread_degrees = static_cast<int>(std::lround(cell.spread_degrees * seeds_times));
  } else {
    then.allowance /= width_times;
  }
  return then.smallest_rejected(level);
}

std::string remedy(const std::vector<Wanted>& wanted, double level, int seeds, int width) {
  if (decides(wanted, level, 1.0, 1.0, 1.0)) return {};
  double fluctuation = 0.0;
  for (const Wanted& w : wanted) {
    if (!std::isinf(w.cell.allowance)) continue;
    if (!(w.cell.fluctuation > 0.0)) return "a wider stack would decide";
    fluctuation = std::max(fluctuation, w.cell.fluctuation);
  }
  if (fluctuation > 0.0) {
    const int wider = narrowest(width, [&](double times) { return fluctuation / times < largest_fluctuation; });
    return wider > 0 ? fmt::format("about width {} would have one", wider) : std::string();
  }
  constexpr double sharpest = 1.0 / 64.0;
  for (double sharper = 1.0; sharper >= sharpest; sharper /= 2.0) {
    const std::string words = words_for(wanted, level, seeds, width, sharper);
    if (words.empty()) continue;
    if (sharper == 1.0) return words + " would decide";
    return fmt::format("{} would decide, with predictions {:g} times as precise (theory.gradient_tolerance)", words,
                       1.0 / sharper);
  }
  return {};
}

}  // namespace periscope
