#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "experiments/studies/verify/statements.h"

namespace periscope::verify {

/// Counts of log10(ratio) in equal bins, upper ends included. What lies outside goes into the outermost ones. Counts
/// are whole numbers, so that the order in which cases come does not matter.
class RatioHistogram {
 public:
  static constexpr double lowest = -12.0, highest = 4.0;

  explicit RatioHistogram(int bins_per_decade)
      : per_decade_(bins_per_decade), counts_(static_cast<std::size_t>(16 * bins_per_decade)) {}

  void add(double ratio);
  void merge(const RatioHistogram& other);
  [[nodiscard]] std::uint64_t total() const;
  /// The ratio below which a share q of the counts lies, interpolated in log10 inside its bin; NaN without counts.
  [[nodiscard]] double quantile(double q) const;
  [[nodiscard]] const std::vector<std::uint64_t>& counts() const { return counts_; }
  /// log10 of the middle of bin i.
  [[nodiscard]] double centre(std::size_t i) const { return lowest + (static_cast<double>(i) + 0.5) / per_decade_; }

 private:
  int per_decade_;
  std::vector<std::uint64_t> counts_;
};

/// The outcomes of one statement, over all cases or over those of one width. Of several extremes the case with the
/// smallest id is named: the result does not depend on the order.
struct Tally {
  static constexpr std::uint64_t none = std::numeric_limits<std::uint64_t>::max();
  /// Quantiles are accurate to one bin: 0.4 % for all cases, 8 % for those of one width (30 bins per decade).
  explicit Tally(int bins_per_decade = 600) : histogram(bins_per_decade) {}

  std::uint64_t cases = 0;
  std::uint64_t trivial = 0;     ///< the bound was infinite, or zero and met
  std::uint64_t unresolved = 0;  ///< checked, but rounding is too large beside the bound for a ratio
  std::uint64_t violations = 0;
  std::uint64_t first_violation = none;
  double largest = 0.0;  ///< ratio
  std::uint64_t largest_case = none;
  RatioHistogram histogram;

  void add(std::uint64_t id, const StatementOutcome& outcome, double scale);
  void merge(const Tally& other);
  /// The histogram's quantile, and never more than the largest ratio.
  [[nodiscard]] double quantile(double q) const { return std::min(histogram.quantile(q), largest); }
};

}  // namespace periscope::verify
