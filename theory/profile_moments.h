#pragma once

#include <vector>

#include "sim/spec/profile.h"

namespace periscope::theory {

/// Means over independent chains of one input of all that a profile holds, and the sums of squares of the deviations
/// (Welford). Profiles are added in a fixed order, so that the result does not depend on who computed them.
class ProfileMoments {
 public:
  void add(const Profile& chain);

  [[nodiscard]] int count() const { return count_; }
  /// Values are means; standard_error holds Σ(value − mean)².
  [[nodiscard]] const Profile& sums() const { return sums_; }

 private:
  int count_ = 0;
  Profile sums_;
};

/// The mean over inputs of their means. Standard errors come from the spread between chains of the same input only:
/// inputs are given, not sampled. Every input must have the same number of chains, at least 2.
Profile combined(const std::vector<ProfileMoments>& inputs);

}  // namespace periscope::theory
