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

/// The mean over inputs of their means. Standard errors come from the spread between chains of the same input: inputs
/// are given, not sampled. If they are only some of a larger `population` whose mean is asked for, what the others may
/// differ by is added, s²(1/n − 1/population) with s² the variance of the n inputs' means. Every input must have the
/// same number of chains, at least 2.
Profile combined(const std::vector<ProfileMoments>& inputs, std::size_t population);

}  // namespace periscope::theory
