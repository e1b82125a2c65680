#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace periscope::testing {

/// The place where two computations of the same numbers differ most, in units of what is allowed there.
struct Residual {
  double worst = 0.0;  ///< max |actual − expected|/allowed: up to 1 is agreement
  std::size_t at = 0;  ///< index of that entry
  double actual = 0.0;
  double expected = 0.0;
  double allowed = 0.0;
};

/// Compares entry by entry with its own allowed absolute error. NaN agrees with NaN and an infinity with
/// itself; everything else that is not finite, and a difference in length, is infinitely wrong.
Residual residual(std::span<const double> actual, std::span<const double> expected, std::span<const double> allowed);
Residual residual(std::span<const double> actual, std::span<const double> expected, double allowed);

/// A sentence with the residual's numbers.
std::string describe(const Residual& residual);

/// Fails the running test unless the two agree. `what` says which numbers they are; run a test with
/// --success to read the residuals of those that pass.
void check_close(const std::string& what, std::span<const double> actual, std::span<const double> expected,
                 std::span<const double> allowed);
void check_close(const std::string& what, std::span<const double> actual, std::span<const double> expected,
                 double allowed);
/// allowed = relative · max|expected|: for signals whose small entries are differences of large ones.
void check_close_to_scale(const std::string& what, std::span<const double> actual, std::span<const double> expected,
                          double relative);
/// Fails unless the two have the same bits, NaN included.
void check_same_bits(const std::string& what, std::span<const double> actual, std::span<const double> expected);

/// Index of the first entry whose bits differ, or the length if there is none; lengths must be equal.
std::size_t first_difference(std::span<const double> actual, std::span<const double> expected);

}  // namespace periscope::testing
