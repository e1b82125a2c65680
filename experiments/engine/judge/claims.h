#pragma once

#include <array>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/engine/judge/test.h"
#include "sim/base/enumerators.h"

namespace periscope::judge {

/// Verdict on a claim of the literature.
enum class ClaimVerdict { holds, holds_with_condition, fails, not_shown, not_testable, not_run };
inline constexpr std::array<std::string_view, 6> claim_verdict_names{"holds",     "holds-with-condition", "fails",
                                                                     "not-shown", "not-testable-here",    "not-run"};
static_assert(are_names_of<ClaimVerdict>(claim_verdict_names));
[[nodiscard]] constexpr std::string_view name_of(ClaimVerdict verdict) {
  return claim_verdict_names[static_cast<std::size_t>(verdict)];
}

/// A claim of the literature about a value.
struct Claim {
  std::string id = {};      ///< identifier of the claim, such as "G8"
  double claimed = 0.0;     ///< the claimed value
  Test test = {};           ///< compares the measured with the claimed value
  double correction = 0.0;  ///< theory's estimate of the terms neglected in the claim's limit, such as L → ∞
  ClaimVerdict verdict = ClaimVerdict::not_testable;
};

/// Judges claims together. A claim holds if its test does not reject it and the correction is at most the critical
/// deviation. It holds with a condition if only the corrected value passes the test; otherwise it fails. If it does not
/// fail, but the detectable error exceeds its limit, it is not shown. It is not testable with fewer
/// than 4 seeds or if a number is not finite.
void judge(const std::vector<Claim*>& claims, double familywise_error);

/// Significance level of each of the two one-sided tests of a claim.
inline constexpr double sign_claim_level = 0.05;

/// A claim that a number is positive, and its test over seeds. The tests assume values that are normal and independent
/// over seeds. Under this assumption they are exact or conservative, for any spreads of the compared numbers.
struct SignClaim {
  std::string id = {};         ///< claim, such as "F4", followed by a letter if it has several tests
  std::string exhibit = {};    ///< figure or table of the paper
  std::string statement = {};  ///< the claim in one sentence
  std::string quantity = {};   ///< the number, measured per seed, that is claimed to be positive
  ClaimVerdict verdict = ClaimVerdict::not_run;
  std::vector<double> values = {};  ///< by seed; differences are between twins (stacks with the same random numbers)
  Estimate mean = {};
  /// One-sided p-value under the null hypothesis that the number is 0; 0.5 if both signs are equally likely.
  double p = 1.0;
  /// Two-sided p-value with Holm's correction for all tested claims of the run.
  double holm = std::numeric_limits<double>::quiet_NaN();
  double detectable = 0.0;               ///< detectable error of the t test of `values`
  std::string reason = {};               ///< why it was not run or is not testable, or a remark
  std::vector<std::string> regime = {};  ///< settings of the tested runs, one string per setting
};

/// Appends `reason` to claim.reason, after "; " if that is not empty.
void add_reason(SignClaim& claim, const std::string& reason);

/// Marks a claim as not testable without changing its values.
void set_not_testable(SignClaim& claim, const std::string& reason);

/// Values indexed by row, column and seed.
using SeedTable = std::vector<std::vector<std::vector<double>>>;

/// Tests the claim that in some row all true means are positive; for a single entry this is Student's one-sided t test.
/// If p is the p-value of an entry, p⁺ = rows · min over rows of max over columns of p: all tests of a row have to
/// reject (intersection-union test, Berger 1982), in any row (Bonferroni). The opposite claim is that in some column no
/// true mean is positive, with p⁻ = columns · min over columns of max over rows. It is the negation if the table has
/// one row, or if its means are differences x_column − y_row. claim.values are the values of the deciding entry: the
/// largest, over rows, of the smallest means. An entry without spread over seeds has p = 1.
void test_some_row_positive(SignClaim& claim, const SeedTable& table);

/// Returns the table for the claim that |mean of `large`| / 2 − |mean of `small`| is positive: one row with the columns
/// large/2 ∓ small, one with −large/2 ∓ small (two one-sided tests, Schuirmann 1987).
SeedTable equivalence_table(const std::vector<double>& large, const std::vector<double>& small);

/// Tests the claim that `first` has a larger standard deviation over seeds than `second`, measured with the same seeds
/// (Pitman and Morgan 1939). The test is exact for two normal variables of any correlation. Their sum and difference
/// have the covariance Var(first) − Var(second), so the test is Student's t test of their correlation, with n − 2
/// degrees of freedom, and needs three seeds. claim.values are products of the sum's and the difference's deviations.
void test_spreads_more(SignClaim& claim, const std::vector<double>& first, const std::vector<double>& second);

/// Sets `holm` of all claims with a p-value (Holm 1979, applied to 2 min(p, 1 − p)).
void apply_holm_correction(std::vector<SignClaim>& claims);

}  // namespace periscope::judge
