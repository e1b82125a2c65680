#pragma once

#include <map>
#include <utility>
#include <vector>

#include "sim/measure/probe.h"
#include "sim/measure/running_moments.h"

namespace periscope {

/// Mean and standard error of readings over seeds. Memory use does not depend on the number of seeds.
class SeedAverage {
 public:
  void add(const Reading& reading);

  /// Returns means over seeds. Curves have standard errors (NaN for a single seed); angular distances have none.
  [[nodiscard]] Profile profile() const;
  /// Largest magnitudes over all seeds.
  [[nodiscard]] const TopMagnitudes& top() const { return top_; }
  [[nodiscard]] int seeds() const { return seeds_; }
  [[nodiscard]] int diverged_seeds() const { return diverged_seeds_; }
  /// First sublayer at which any seed diverged, or −1.
  [[nodiscard]] int diverged_at() const { return diverged_at_; }

 private:
  std::map<std::pair<Statistic, CurvePlace>, std::vector<RunningMoments>> curves_;
  std::vector<RunningMoments> angular_distance_;
  TopMagnitudes top_;
  int seeds_ = 0;
  int diverged_seeds_ = 0;
  int diverged_at_ = -1;
};

}  // namespace periscope
