#pragma once

#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/engine/judge/agreement.h"

namespace periscope::judge {

/// A mean over seeds and its standard error.
struct Estimate {
  double value = 0.0;
  double error = 0.0;
};

Estimate mean_over_seeds(const std::vector<double>& per_seed);

/// One row of numbers per seed. Sums of a row's numbers get their standard error from their spread over seeds, so that
/// it does not matter how the numbers of a seed depend on each other.
class SeedRows {
 public:
  void add(std::vector<double> row) { rows_.push_back(std::move(row)); }
  [[nodiscard]] int seeds() const { return static_cast<int>(rows_.size()); }
  [[nodiscard]] const std::vector<std::vector<double>>& rows() const { return rows_; }
  /// Mean and standard error of every number.
  [[nodiscard]] Curve curve() const;
  /// Mean and standard error of Σ_i weights_i row_i.
  [[nodiscard]] Estimate sum(const std::vector<double>& weights) const;

 private:
  std::vector<std::vector<double>> rows_;
};

/// Weights a_i with which the slope of the least-squares line through (x_i, y_i) is Σ a_i y_i. They are zero for the
/// first `from` points, which take no part. Throws std::invalid_argument for fewer than two different x.
std::vector<double> slope_weights(const std::vector<double>& x, std::size_t from = 0);

/// A measured number beside its prediction (T19).
struct Finding {
  Estimate measured;
  int seeds = 0;
  Estimate predicted;
  int replicates = 0;
  double allowance = 0.0;  ///< finite width and rounding: what |measured − predicted| may be for free
  double scale = 1.0;      ///< what an error is relative to: 1 of logarithms and shares
  bool precise = true;     ///< every prediction that it rests on has the standard error that was wanted
  double power_limit = std::numeric_limits<double>::infinity();  ///< of the smallest rejected error
  Verdict verdict = Verdict::not_checked;
  std::string reason = {};                                 ///< why it is inconclusive
  double critical = 0.0;                                   ///< excess at which it is rejected
  double power = std::numeric_limits<double>::infinity();  ///< T22: smallest error that would have been rejected

  [[nodiscard]] Cell cell() const;
  [[nodiscard]] bool underpowered() const { return power > power_limit; }
};

/// Σ weights_i y_i of rows against the same sum of a predicted curve. The prediction's error is taken as if those of
/// all points were one; the finite-width term is that of a bias that has one sign, |Σ weights_i bias_i|. `precise` says
/// of every point of the prediction whether it is; those of weight 0 do not count.
Finding finding_of(const SeedRows& measured, const Curve& predicted, const std::vector<bool>& precise, int replicates,
                   const std::vector<double>& weights, const std::vector<double>& bias);

/// Judges every finding as `agreements_of` judges cells: Student's t, Šidák's level over all of them; `inconclusive`,
/// with its reason, where one side alone has a number, where it could not have refused an error of power_limit, or
/// where it rests on a prediction that misses its precision. Of one that could not refuse such an error the reason
/// names what would make it decide (remedy.h), in a stack of `width`, 0 where that is not to be named, with predictions
/// of `precision_key`. Not checked with fewer than 4 seeds, or without any number.
void decide(std::span<Finding* const> findings, double familywise_error, int width = 0,
            std::string_view precision_key = {});

/// The finding that decides the verdict of them all: the one farthest beyond its limit if one is rejected, else of the
/// inconclusive ones one without a number, the least powerful or an imprecise one, else the one nearest to its limit.
/// Null for none.
const Finding* deciding(std::span<const Finding> findings);

/// The verdict of the data on a claim of the literature.
enum class ClaimVerdict { holds, holds_with_condition, fails, not_testable };
[[nodiscard]] std::string_view name_of(ClaimVerdict verdict);

/// A number that somebody claims, held against a measured one.
struct Claim {
  std::string id;  ///< "G8"
  double claimed = 0.0;
  ClaimVerdict verdict = ClaimVerdict::not_testable;
};

/// `holds` if the measured number is within Student's limit of the claimed one; `holds_with_condition` if
/// measured − correction is, where `correction` is what theory says that the claim's limit (such as L → ∞) leaves out,
/// and either the measured number itself is not, or the correction is larger than the limit, so that only the noise
/// hides it; else `fails`. The two-sided level is `error`, the number of claims taken into account by the caller.
ClaimVerdict test_claim(const Estimate& measured, int seeds, double claimed, double correction, double error);

}  // namespace periscope::judge
