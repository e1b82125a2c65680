#pragma once

#include <limits>
#include <string>
#include <vector>

#include "experiments/engine/judge/claims.h"

/// Claims that a number is positive. All tests suppose normal values, independent from seed to seed, and are exact or
/// conservative then, whatever the spreads of what is compared.
namespace periscope::judge {

/// The chance of a false decision of one claim, on each of its two sides.
inline constexpr double sign_claim_level = 0.05;

/// One claim of the sources, as one number that it says is positive, and its test over seeds.
struct SignClaim {
  std::string id = {};         ///< in the ledger of claims: "F4", "R1"; several tests of one have letters behind
  std::string exhibit = {};    ///< the figure or table
  std::string statement = {};  ///< in our words
  std::string quantity = {};   ///< the number that the claim says is positive, for one seed
  ClaimVerdict verdict = ClaimVerdict::not_run;
  std::vector<double> values = {};  ///< by seed; twins, so that differences are of pairs
  Estimate mean = {};
  /// Chance of such values if the number were 0 and not positive, one-sided; 0.5 where nothing says of which sign it
  /// is.
  double p = 1.0;
  /// The chance that any of the run's tested claims would show so much, in either direction: Holm's correction.
  double holm = std::numeric_limits<double>::quiet_NaN();
  double detectable = 0.0;               ///< Test::detectable_at the level of the t test of `values`
  std::string reason = {};               ///< why it was not run or cannot be tested, or what else is to be known
  std::vector<std::string> regime = {};  ///< the settings of the runs that it was tested on, part by part
};

/// Appends to `reason`.
void add_reason(SignClaim& claim, const std::string& reason);

/// Marks a claim as not testable by these runs; keeps its values.
void set_not_testable(SignClaim& claim, const std::string& reason);

/// Numbers by row, column and seed.
using SeedTable = std::vector<std::vector<std::vector<double>>>;

/// Tests the claim that in some row all true means are positive. A table of one entry is Student's one-sided t test.
/// With p of an entry's t test: p⁺ = rows · min over rows of max over columns of p, because all entries of a row have
/// to reject (intersection-union test, Berger 1982) and there are so many rows to choose from (Bonferroni). The
/// opposite is that in some column no true mean is positive: p⁻ = columns · min over columns of max over rows. It is
/// the negation of the claim if the table has one row, or if its means are differences x_column − y_row. `values` are
/// those of the entry that decides: of every row the smallest mean, of these the largest. An entry without spread over
/// seeds counts as p = 1.
void test_some_row_positive(SignClaim& claim, const SeedTable& table);

/// Returns the table of the claim that |mean of `large`| / 2 − |mean of `small`| is positive, terms by seed: half of
/// `large`, with either sign, less and plus `small` (two one-sided tests, Schuirmann 1987).
SeedTable alike(const std::vector<double>& large, const std::vector<double>& small);

/// Tests the claim that the standard deviation over seeds of `first` is larger than that of `second`, two readings of
/// the same seeds, by Pitman's and Morgan's test (1939), exact for two normal variables of any correlation. Their sum
/// and difference have the covariance Var(first) − Var(second), so its sign is that of their correlation, with n − 2
/// degrees of freedom: at least three seeds. The claim's values are the products of the deviations of sum and
/// difference from their means. No detectable effect is computed.
void test_spreads_more(SignClaim& claim, const std::vector<double>& first, const std::vector<double>& second);

/// Fills `holm`, over all claims that have a p: the chance that any of them would show so much, in either direction, if
/// every true number were 0 (Holm 1979, of twice the smaller of p and 1 − p).
void correct_for_number(std::vector<SignClaim>& claims);

}  // namespace periscope::judge
