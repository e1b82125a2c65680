#pragma once

#include <functional>
#include <random>
#include <string>
#include <vector>

#include "sim/spec/model_spec.h"
#include "sim/spec/profile.h"

/// A stack of dense matrices in plain Eigen, written from T1 and the definitions of Statistic, to hold the chain T25
/// against: it shares no code with the program.
namespace periscope::testing {

/// What one may get wrong about a stack.
enum class Mistake { none, values_not_shared, mean_not_removed, heads_normalised_singly };

/// One seed's readings: second_moment, variance, mean and token_cosine at every site, branch_ratio and branch_cosine.
Profile dense_reading(const StackSpec& spec, const std::vector<int>& ids, std::mt19937_64& random,
                      Mistake mistake = Mistake::none);

/// One profile per replicate, in parallel.
std::vector<Profile> readings(int replicates, const std::function<Profile(int)>& reading);

/// Cells, means and standard deviations alike, by which the readings of two laws differ by more than `limit` standard
/// errors, each in words. Cells that no replicate moves by more than rounding are compared to 1e-9.
std::vector<std::string> differences(const std::vector<Profile>& a, const std::vector<Profile>& b, double limit);

}  // namespace periscope::testing
