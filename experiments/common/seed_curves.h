#pragma once

#include <map>
#include <utility>
#include <vector>

#include "sim/spec/profile.h"

namespace periscope {

/// What verdicts compare of the stream and the modules, a row per seed: sums over depth need how the numbers of a seed
/// depend on each other. Everything else is averaged as it comes (SeedAverage).
class SeedCurves {
 public:
  using Rows = std::vector<std::vector<double>>;

  /// Appends the curves that verdicts compare of one seed's profile.
  void add(const Profile& profile);
  /// Null for what is not compared or was not measured.
  [[nodiscard]] const Rows* find(Statistic statistic, Signal site) const;
  [[nodiscard]] const Rows* find(Statistic statistic, Weight weight) const;

 private:
  std::map<std::pair<Statistic, Signal>, Rows> curves_;
  std::map<std::pair<Statistic, Weight>, Rows> weight_curves_;
};

}  // namespace periscope
