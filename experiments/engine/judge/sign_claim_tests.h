#pragma once

#include <string>
#include <vector>

#include "experiments/engine/judge/sign_claim.h"

/// The tests that decide claims. Each fills verdict, mean, standard_error, p and detectable; all suppose normal values,
/// independent from seed to seed, and are exact or conservative then, whatever the spreads of what is compared.
namespace periscope::judge {

/// Adds to why a claim was not run, or what else is to be known.
void add_reason(SignClaim& claim, const std::string& reason);

/// Tests `values` by a one-sided t test, at least two values.
void test_positive(SignClaim& claim);

/// Marks a claim as not testable by these runs; keeps its values.
void set_not_testable(SignClaim& claim, const std::string& reason);

/// Tests |mean of `large`| / 2 − |mean of `small`|, whose terms by seed, with the signs of the means, are the
/// claim's values. It is positive where half of `large` less `small` and half of `large` plus `small` both are, or both
/// with the sign of `large` turned: two one-sided t tests (Schuirmann 1987), at half of the level, as the sign of
/// `large` is taken from the same seeds. That it is negative is tested likewise, with the roles exchanged.
void test_alike(SignClaim& claim, const std::vector<double>& large, const std::vector<double>& small);

/// Numbers by row, column and seed.
using SeedTable = std::vector<std::vector<std::vector<double>>>;

/// Tests the claim that some row's true means are all positive. A row is shown to be one if all its t tests reject
/// (they may be of the same seeds: intersection-union, Berger 1982), and the claim is shown if one row is shown at
/// level / rows (Bonferroni): p⁺ = rows · min over rows of max over columns of p. The opposite is that there is a
/// column whose true means are all negative or 0, tested likewise: p⁻ = columns · min over columns of max over rows.
/// That is the claim's full negation if the means are differences x_column − y_row, or if there is one row. So no row
/// or column that was chosen for its size is tested as if it had not been. The claim's values are those of the column
/// with the smallest mean in the row where that is largest. A number without a spread over seeds shows nothing.
void test_some_row_positive(SignClaim& claim, const SeedTable& differences);

/// Tests the claim that the standard deviation over seeds of `first` is larger than that of `second`, two readings of
/// the same seeds, by Pitman's and Morgan's test (1939), exact for two normal variables of any correlation. Their sum
/// and difference have the covariance Var(first) − Var(second), so its sign is that of their correlation, with n − 2
/// degrees of freedom: at least three seeds. The claim's values are the products of the deviations of sum and
/// difference from their means. No detectable effect is computed.
void test_spreads_more(SignClaim& claim, const std::vector<double>& first, const std::vector<double>& second);

/// The mean that a one-sided t test at `level` finds with a probability of 95 %, in units of the standard error of the
/// mean that earlier seeds, as many, have shown. With S and S′ the two sets' standard deviations in units of the true
/// one, S² and S′² as χ²_ν / ν, and a standard normal Z: the c with P(Z + c·S > t·S′) = 0.95. It is 13.4 for 3 seeds at
/// 5 %, where a known spread would ask for 5.5, and comes near t + 1.64 for many.
[[nodiscard]] double detectable_in_errors(std::size_t seeds, double level);

/// Fills `holm`, over all claims that have a p: the chance that any of them would show so much, in either direction, if
/// every true number were 0 (Holm 1979, of twice the smaller of p and 1 − p).
void correct_for_number(std::vector<SignClaim>& claims);

}  // namespace periscope::judge
