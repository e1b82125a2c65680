#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/engine/judge/cell.h"

namespace periscope::judge {

/// A number that a verdict must be able to refuse an error of (T22).
struct Wanted {
  Cell cell;
  double limit = 0.0;  ///< of its smallest rejected error, in its units
};

/// Returns what a test of `cell` could refuse (Cell::smallest_rejected) with `seeds_times` as many seeds in a stack
/// that is `width_times` as wide, its heads as many times more, judged by the numbers that are there: a measured
/// variance falls as one over seeds and width, a finite-width allowance as one over width, and a prediction keeps its
/// error, but for T25's, which has the same spread as the measurement, and replicates in proportion to seeds unless
/// their number is given.
double foreseen_power(const Cell& cell, double level, double seeds_times, double width_times);

/// The words where neither seeds nor width within 1000 times of what is there would decide.
inline constexpr std::string_view nothing_within_reach = "not even 1000 times the seeds or the width would decide";

/// Says what would make a verdict decide that is inconclusive for lack of power: "about 96 seeds, or width 512,
/// would decide". The fewest seeds with which every wanted error could be refused, and the smallest width: of multiples
/// of `seeds` and of powers of two times `width`, within 1000 times of what is there. Where neither alone is enough
/// both together are named, or the key that makes predictions more precise where it is their own error that is in the
/// way. Empty where nothing is underpowered. A width of 0 is not to be named. It is nothing_within_reach where that is
/// so. `precision_key`, unless it is "", is the key that makes the predictions more precise, of those that [theory] has
/// none for.
std::string remedy(const std::vector<Wanted>& wanted, double level, int seeds, int width,
                   std::string_view precision_key = {});

/// The fewest seeds, from `seeds` to 1024 times as many, of which `enough` is true, which is true of all that are more;
/// 0 if there are none.
int seeds_that_decide(int seeds, const std::function<bool(int)>& enough);

/// A number of seeds to two digits, upwards.
int rounded_up(int seeds);

}  // namespace periscope::judge
