#include "experiments/studies/verify/tally.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace periscope::verify {

void RatioHistogram::add(double ratio) {
  const double last = static_cast<double>(counts_.size()) - 1.0;
  const double bin = ratio > 0.0 ? std::ceil((std::log10(ratio) - lowest) * per_decade_) - 1.0 : 0.0;
  ++counts_[static_cast<std::size_t>(std::clamp(std::isnan(bin) ? last : bin, 0.0, last))];
}

void RatioHistogram::merge(const RatioHistogram& other) {
  for (std::size_t i = 0; i < counts_.size(); ++i) counts_[i] += other.counts_[i];
}

std::uint64_t RatioHistogram::total() const { return std::reduce(counts_.begin(), counts_.end(), std::uint64_t{0}); }

double RatioHistogram::quantile(double q) const {
  const std::uint64_t all = total();
  if (all == 0) return std::numeric_limits<double>::quiet_NaN();
  const double wanted = q * static_cast<double>(all);
  std::uint64_t below = 0;
  std::size_t i = 0;
  while (i + 1 < counts_.size() && static_cast<double>(below + counts_[i]) < wanted) below += counts_[i++];
  const double share = (wanted - static_cast<double>(below)) / std::max(1.0, static_cast<double>(counts_[i]));
  return std::pow(10.0, lowest + (static_cast<double>(i) + std::clamp(share, 0.0, 1.0)) / per_decade_);
}

void Tally::add(std::uint64_t id, const StatementOutcome& o, double scale) {
  ++cases;
  if (o.violates(scale)) {
    ++violations;
    first_violation = std::min(first_violation, id);
  }
  if (o.is_trivial()) {
    ++trivial;
    return;
  }
  if (!o.is_resolved()) {
    ++unresolved;
    return;
  }
  const double ratio = o.violates(1.0) ? o.ratio() : std::min(o.ratio(), 1.0);  // what rounding explains is no excess
  histogram.add(ratio);
  if (ratio > largest || (ratio == largest && id < largest_case)) {
    largest = ratio;
    largest_case = id;
  }
}

void Tally::merge(const Tally& other) {
  cases += other.cases;
  trivial += other.trivial;
  unresolved += other.unresolved;
  violations += other.violations;
  first_violation = std::min(first_violation, other.first_violation);
  if (other.largest > largest || (other.largest == largest && other.largest_case < largest_case)) {
    largest = other.largest;
    largest_case = other.largest_case;
  }
  histogram.merge(other.histogram);
}

}  // namespace periscope::verify
