#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/reproduce/study.h"
#include "experiments/train/cell.h"

namespace periscope::reproduce {

/// The trained seeds of one group, in the order of the seeds.
struct GroupRuns {
  Group group;
  std::vector<train::TrainedCell> cells;
};

/// What the runs say about a claim.
enum class ClaimVerdict { holds, fails, not_shown, not_run };
inline constexpr std::array<std::string_view, 4> claim_verdict_names{"holds", "fails", "not-shown", "not-run"};

/// One claim of the sources, as one number that it says is positive, and its test over seeds.
struct Claim {
  std::string id;         ///< in the ledger of claims: "F4", "R1"; several tests of one have letters behind
  std::string exhibit;    ///< the figure or table
  std::string statement;  ///< in our words
  std::string quantity;   ///< the number that the claim says is positive, for one seed
  ClaimVerdict verdict = ClaimVerdict::not_run;
  std::vector<double> values;  ///< by seed; twins, so that differences are of pairs
  double mean = 0.0;
  double standard_error = 0.0;
  /// Chance of such a mean or a larger one if the true one were 0 (Student's t, one-sided); 0.5 where nothing says of
  /// which sign it is.
  double p = 1.0;
  double detectable = 0.0;  ///< the smallest true mean that would have been found with 95 % probability
  std::string reason;       ///< why it was not run, or what else is to be known
};

/// Tests every claim whose groups are among `runs`; the others are `not_run`. A claim holds where p ≤ 0.05 and fails
/// where the opposite has p ≤ 0.05; else it is not shown. A loss that is not finite counts as ln V, that of a guess.
[[nodiscard]] std::vector<Claim> judge_claims(const std::vector<GroupRuns>& runs);

}  // namespace periscope::reproduce
