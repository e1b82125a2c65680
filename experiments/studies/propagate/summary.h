#pragma once

#include <array>
#include <string>
#include <vector>

#include "experiments/engine/result/table.h"
#include "experiments/engine/run/stacks.h"
#include "sim/numerics/number_format.h"

namespace periscope::propagate {

/// Key figures of a predicted or measured profile. NaN if the profile lacks a curve.
struct Summary {
  double variance = 0.0;  ///< of the stream at the top
  /// Rms over tokens of ‖∂loss/∂x‖ at the stack's input over its value at the top.
  double gradient_ratio = 0.0;
  double largest = 0.0;      ///< largest |x| of the stream at any depth, and of the sums before norm C
  std::string largest_at{};  ///< its signal and depth, such as "x[12]" or "sum[12]"; "overflow" if it is not finite
  /// Largest log₂ of rms(α x)/rms(β b) over sublayers, at least 0, with x the stream and b the branch. Their sum has
  /// the precision of the larger term, so b loses this many of its bits.
  double bits_lost = 0.0;
  std::array<double, number_formats.size()> margins{};  ///< largest number of each format over `largest`
};

[[nodiscard]] Summary summary_of(const Profile& profile);

/// Returns the columns of summaries, with names that end in `version`: "predicted" or "measured".
[[nodiscard]] dataset::Table<Summary> summary_table(const std::string& version);

/// Returns a report: a row per stack and version, followed by the keys in which the stacks differ.
[[nodiscard]] std::string comparison(const std::vector<stacks::StackResult>& results);

}  // namespace periscope::propagate
