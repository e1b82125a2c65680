#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace periscope::testing {

/// Largest difference between found and expected values, in units of the allowed error.
struct Residual {
  double worst = 0.0;  ///< max |actual − expected|/allowed; at most 1 if they agree
  std::size_t at = 0;  ///< index of the entry with the largest error
  double actual = 0.0;
  double expected = 0.0;
  double allowed = 0.0;
};

/// Compares entry by entry with absolute tolerances. NaN equals NaN, and an infinity equals itself; other non-finite
/// differences and different lengths give an infinite residual.
Residual residual(std::span<const double> actual, std::span<const double> expected, std::span<const double> allowed);
Residual residual(std::span<const double> actual, std::span<const double> expected, double allowed);

std::string describe(const Residual& residual);

/// Fails the running test unless both agree. `what` names the values; --success prints residuals of passing checks.
void check_close(const std::string& what, std::span<const double> actual, std::span<const double> expected,
                 std::span<const double> allowed);
void check_close(const std::string& what, std::span<const double> actual, std::span<const double> expected,
                 double allowed);
/// Allows errors of relative · max|expected|, since small entries may be differences of large numbers.
void check_close_to_scale(const std::string& what, std::span<const double> actual, std::span<const double> expected,
                          double relative);
/// Fails the running test unless both arrays have the same bits, including those of NaN.
void check_same_bits(const std::string& what, std::span<const double> actual, std::span<const double> expected);

/// Index of the first entry whose bits differ, or the length if there is none; lengths must be equal.
std::size_t first_difference(std::span<const double> actual, std::span<const double> expected);

}  // namespace periscope::testing
