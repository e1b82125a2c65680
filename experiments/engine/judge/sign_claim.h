#pragma once

#include <limits>
#include <string>
#include <vector>

#include "experiments/engine/judge/claims.h"

namespace periscope::judge {

/// The chance of a false decision of one claim, on each of its two sides.
inline constexpr double sign_claim_level = 0.05;

/// One claim of the sources, as one number that it says is positive, and its test over seeds.
struct SignClaim {
  std::string id;         ///< in the ledger of claims: "F4", "R1"; several tests of one have letters behind
  std::string exhibit;    ///< the figure or table
  std::string statement;  ///< in our words
  std::string quantity;   ///< the number that the claim says is positive, for one seed
  ClaimVerdict verdict = ClaimVerdict::not_run;
  std::vector<double> values;  ///< by seed; twins, so that differences are of pairs
  double mean = 0.0;
  double standard_error = 0.0;
  /// Chance of such values if the number were 0 and not positive, one-sided, by the claim's own test
  /// (sign_claim_tests.h); 0.5 where nothing says of which sign it is.
  double p = 1.0;
  /// The chance that any of the run's tested claims would show so much, in either direction: Holm's correction.
  double holm = std::numeric_limits<double>::quiet_NaN();
  /// The true mean that as many further seeds would show with 95 % probability (sign_claim_tests.h). It is proportional
  /// to the standard error, which from three seeds is 0.23 to 1.73 times the true one in 90 % of the cases, and so is
  /// this.
  double detectable = 0.0;
  std::string reason;                    ///< why it was not run or cannot be tested, or what else is to be known
  std::vector<std::string> regime = {};  ///< the settings of the runs that it was tested on, part by part
};

}  // namespace periscope::judge
