#pragma once

#include <array>
#include <limits>
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
  double correction = 0.0;  ///< theory's estimate of what the claim's limit (such as L → ∞) neglects
  ClaimVerdict verdict = ClaimVerdict::not_testable;
};

/// Judges claims together: a claim holds if its test does not reject it. It holds with a condition if the corrected
/// number is not rejected, and either the number itself is, or the correction exceeds what the test rejects. A claim
/// that does not fail is not shown if the detectable error exceeds its limit. Not testable with fewer than 4 seeds, or
/// if the measured number is not finite.
void judge(const std::vector<Claim*>& claims, double familywise_error);

/// The chance of a false decision of one claim, on each of its two sides.
inline constexpr double sign_claim_level = 0.05;

/// A claim of the sources that a number is positive, and its test over seeds. All tests assume normal values,
/// independent over seeds; they are exact or conservative then, for any spreads of the compared numbers.
struct SignClaim {
  std::string id = {};         ///< in the ledger of claims: "F4", "R1", with a letter if it has several tests
  std::string exhibit = {};    ///< the figure or table
  std::string statement = {};  ///< in our words
  std::string quantity = {};   ///< the number that the claim says is positive, of one seed
  ClaimVerdict verdict = ClaimVerdict::not_run;
  std::vector<double> values = {};  ///< by seed; differences are of pairs (twins)
  Estimate mean = {};
  /// One-sided p-value under the null hypothesis that the number is 0; 0.5 if both signs are equally likely.
  double p = 1.0;
  /// Two-sided p-value with Holm's correction for the run's tested claims.
  double holm = std::numeric_limits<double>::quiet_NaN();
  double detectable = 0.0;               ///< Test::detectable_at the level of the t test of `values`
  std::string reason = {};               ///< why it was not run or cannot be tested, or a remark
  std::vector<std::string> regime = {};  ///< settings of the tested runs, part by part
};

/// Appends to `reason`.
void add_reason(SignClaim& claim, const std::string& reason);

/// Marks a claim as not testable by these runs; keeps its values.
void set_not_testable(SignClaim& claim, const std::string& reason);

/// Numbers by row, column and seed.
using SeedTable = std::vector<std::vector<std::vector<double>>>;

/// Tests the claim that in some row all true means are positive; one entry gives Student's one-sided t test. With p of
/// an entry's t test, p⁺ = rows · min over rows of max over columns of p: all entries of a row have to reject
/// (intersection-union test, Berger 1982), of any row (Bonferroni). The opposite is that in some column no true mean is
/// positive, p⁻ = columns · min over columns of max over rows; it negates the claim if the table has one row, or if its
/// means are differences x_column − y_row. `values` are those of the deciding entry: of every row the smallest mean, of
/// these the largest. An entry without spread over seeds counts as p = 1.
void test_some_row_positive(SignClaim& claim, const SeedTable& table);

/// Returns the table of the claim that |mean of `large`| / 2 − |mean of `small`| is positive, terms by seed: half of
/// `large`, with either sign, less and plus `small` (two one-sided tests, Schuirmann 1987).
SeedTable alike(const std::vector<double>& large, const std::vector<double>& small);

/// Tests the claim that the standard deviation over seeds of `first` is larger than that of `second`, two readings of
/// the same seeds, by Pitman's and Morgan's test (1939), exact for two normal variables of any correlation. Their sum
/// and difference have the covariance Var(first) − Var(second), so its sign is that of their correlation, with n − 2
/// degrees of freedom: at least three seeds. The claim's values are the products of the deviations of sum and
/// difference from their means. Computes no detectable error.
void test_spreads_more(SignClaim& claim, const std::vector<double>& first, const std::vector<double>& second);

/// Fills `holm` over all claims that have a p (Holm 1979, of twice the smaller of p and 1 − p).
void apply_holm_correction(std::vector<SignClaim>& claims);

}  // namespace periscope::judge
