#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/engine/judge/test.h"
#include "sim/base/enumerators.h"

namespace periscope::judge {

/// The verdict of the data on a claim of the literature.
enum class ClaimVerdict { holds, holds_with_condition, fails, not_shown, not_testable, not_run };
inline constexpr std::array<std::string_view, 6> claim_verdict_names{"holds",     "holds-with-condition", "fails",
                                                                     "not-shown", "not-testable-here",    "not-run"};
static_assert(are_names_of<ClaimVerdict>(claim_verdict_names));
[[nodiscard]] constexpr std::string_view name_of(ClaimVerdict verdict) {
  return claim_verdict_names[static_cast<std::size_t>(verdict)];
}

/// A number that the literature claims.
struct Claim {
  std::string id = {};  ///< "G8"
  double claimed = 0.0;
  Test test = {};           ///< of a measured number against the claimed one
  double correction = 0.0;  ///< what theory says that the claim's limit (such as L → ∞) leaves out
  ClaimVerdict verdict = ClaimVerdict::not_testable;
};

/// Tests the measured number of `measured` against `claimed`, with the same limit.
Test test_of_claim(const Test& measured, double claimed);

/// Judges claims together: one holds if its test does not reject it. It holds with a condition if the corrected number
/// is not rejected, and either the number itself is, or the correction is larger than what the test rejects, so that
/// only the noise hides it. What does not fail is not shown if the detectable error exceeds its limit. Not testable
/// with fewer than 4 seeds, or if the measured number is not finite.
void judge(const std::vector<Claim*>& claims, double familywise_error);

}  // namespace periscope::judge
