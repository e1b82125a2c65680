#include "experiments/engine/judge/findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "experiments/engine/judge/remedy.h"
#include "experiments/engine/judge/verdict_power.h"
#include "sim/measure/running_moments.h"

namespace periscope::judge {
namespace {

/// Why nothing that was not rejected may be called agreement, or "" (as `shortcoming` of cells).
std::string shortcoming(const Finding& f) {
  if (std::isinf(f.allowance)) return "gradients of the stack fluctuate too much over seeds";
  if (!f.cell().is_finite()) {
    return fmt::format("measured {}, predicted {}", number_words(f.measured.value), number_words(f.predicted.value));
  }
  if (f.underpowered()) return fmt::format("could be off by {}; limit {:.2g}", error_words(f.power), f.power_limit);
  if (!f.precise)
    return fmt::format("rests on predictions less precise than wanted (theory.gradient_tolerance), ± {:.2g}",
                       f.predicted.error);
  return {};
}

/// Verdicts in the order in which one outranks another, then how far within a verdict.
std::pair<int, double> rank(const Finding& f) {
  const double excess = f.critical > 0.0 ? f.cell().excess() / f.critical : 0.0;
  switch (f.verdict) {
    case Verdict::disagrees: return {5, excess};
    case Verdict::inconclusive:
      if (!f.cell().is_finite()) return {4, 0.0};
      return f.underpowered() ? std::pair{3, f.power / f.power_limit} : std::pair{2, f.predicted.error};
    case Verdict::agrees: return {1, excess};
    case Verdict::not_checked: break;
  }
  return {0, 0.0};
}

}  // namespace

Estimate mean_over_seeds(const std::vector<double>& per_seed) {
  RunningMoments running;
  for (const double v : per_seed) running.add(v);
  return {running.mean(), running.standard_error()};
}

Curve SeedRows::curve() const {
  Curve curve;
  const std::size_t length = rows_.empty() ? 0 : rows_.front().size();
  for (std::size_t i = 0; i < length; ++i) {
    RunningMoments running;
    for (const std::vector<double>& row : rows_) running.add(row[i]);
    curve.value.push_back(running.mean());
    curve.standard_error.push_back(running.standard_error());
  }
  return curve;
}

Estimate SeedRows::sum(const std::vector<double>& weights) const {
  std::vector<double> sums;
  for (const std::vector<double>& row : rows_) {
    double& sum = sums.emplace_back(0.0);
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (weights[i] != 0.0) sum += weights[i] * row[i];
    }
  }
  return mean_over_seeds(sums);
}

std::vector<double> slope_weights(const std::vector<double>& x, std::size_t from) {
  double mean = 0.0;
  for (std::size_t i = from; i < x.size(); ++i) mean += x[i] / static_cast<double>(x.size() - from);
  double squares = 0.0;
  for (std::size_t i = from; i < x.size(); ++i) squares += (x[i] - mean) * (x[i] - mean);
  if (!(squares > 0.0)) throw std::invalid_argument("a slope needs two different points");
  std::vector<double> weights(x.size(), 0.0);
  for (std::size_t i = from; i < x.size(); ++i) weights[i] = (x[i] - mean) / squares;
  return weights;
}

Cell Finding::cell() const {
  return {.measured = measured.value,
          .measured_error = measured.error,
          .predicted = predicted.value,
          .predicted_error = predicted.error,
          .allowance = allowance,
          .scale = scale,
          .seeds = seeds,
          .replicates = replicates,
          .precise = precise};
}

Finding finding_of(const SeedRows& measured, const Curve& predicted, const std::vector<bool>& precise, int replicates,
                   const std::vector<double>& weights, const std::vector<double>& bias) {
  Finding finding{
      .measured = measured.sum(weights), .seeds = measured.seeds(), .predicted = {}, .replicates = replicates};
  double drift = 0.0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] == 0.0) continue;
    finding.predicted.value += weights[i] * predicted.value[i];
    finding.predicted.error += std::abs(weights[i]) * predicted.standard_error[i];
    finding.precise = finding.precise && precise[i];
    drift += weights[i] * bias[i];
  }
  finding.allowance = std::abs(drift);
  return finding;
}

void decide(std::span<Finding* const> findings, double familywise_error, int width, std::string_view precision_key) {
  const double each = sidak_level(familywise_error, findings.size());
  for (Finding* finding : findings) {
    const Cell cell = finding->cell();
    if (finding->seeds < fewest_seeds || (std::isnan(cell.measured) && std::isnan(cell.predicted))) continue;
    if (cell.is_finite()) {
      finding->critical = critical_excess(cell.degrees(), each);
      finding->power = cell.smallest_rejected(each);
    }
    const bool rejected = cell.is_finite() && cell.p_value() < each;
    finding->reason = rejected ? std::string() : shortcoming(*finding);
    if (finding->underpowered()) {
      const std::string way_out = remedy({{cell, finding->power_limit}}, each, finding->seeds, width, precision_key);
      if (!finding->reason.empty() && !way_out.empty()) finding->reason += "; " + way_out;
    }
    finding->verdict = rejected                  ? Verdict::disagrees
                       : finding->reason.empty() ? Verdict::agrees
                                                 : Verdict::inconclusive;
  }
}

const Finding* deciding(std::span<const Finding> findings) {
  const auto it = std::ranges::max_element(findings, {}, rank);
  return it == findings.end() ? nullptr : &*it;
}

std::string_view name_of(ClaimVerdict verdict) {
  switch (verdict) {
    case ClaimVerdict::holds: return "holds";
    case ClaimVerdict::holds_with_condition: return "holds-with-condition";
    case ClaimVerdict::fails: return "fails";
    case ClaimVerdict::not_testable: break;
  }
  return "not-testable-here";
}

ClaimVerdict test_claim(const Estimate& measured, int seeds, double claimed, double correction, double error) {
  if (seeds < fewest_seeds || !std::isfinite(measured.value)) return ClaimVerdict::not_testable;
  const double limit = critical_excess(seeds - 1, error) * measured.error;
  if (std::abs(measured.value - claimed) <= limit && std::abs(correction) <= limit) return ClaimVerdict::holds;
  const bool corrected = std::abs(measured.value - correction - claimed) <= limit;
  return corrected ? ClaimVerdict::holds_with_condition : ClaimVerdict::fails;
}

}  // namespace periscope::judge
