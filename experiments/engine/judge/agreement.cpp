#include "experiments/engine/judge/agreement.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "experiments/engine/judge/compared_cells.h"
#include "experiments/engine/judge/contrasts.h"
#include "experiments/engine/judge/remedy.h"

namespace periscope::judge {
namespace {

/// Why a comparison cannot be judged, or "".
std::string obstacle(const Comparison& c) {
  if (!c.prediction.refusal.empty()) return c.prediction.refusal;
  if (c.diverged_seeds > 0) return fmt::format("{} of {} seeds diverged", c.diverged_seeds, c.seeds);
  if (c.seeds < fewest_seeds) return fmt::format("a verdict needs {} seeds, found {}", fewest_seeds, c.seeds);
  return {};
}

/// The p-values of all cells: rejections and the worst.
void test(Agreement& agreement) {
  double smallest = 2.0;
  double largest_z = -1.0;
  for (std::size_t j = 0; j < agreement.cells.size(); ++j) {
    const Cell& cell = agreement.cells[j];
    if (!cell.is_finite()) continue;
    const double p = cell.p_value();
    agreement.rejected += p < agreement.level ? 1 : 0;
    if (p > smallest || (p == smallest && std::abs(cell.z()) <= largest_z)) continue;
    smallest = p;
    largest_z = std::abs(cell.z());
    agreement.worst = static_cast<int>(j);
  }
  if (agreement.worst < 0) return;
  const Cell& worst = agreement.worst_cell();
  agreement.critical = critical_excess(worst.degrees(), agreement.level);
  if (agreement.rejected > 0) agreement.by = worst.name();
}

/// Says what would make the verdict decide, by the cells that power counts. Nothing does where a number is
/// missing.
std::string remedy_of(const Agreement& agreement, const config::PowerLimits& limits) {
  std::vector<Wanted> wanted;
  int seeds = 0;
  for (const Cell& cell : agreement.cells) {
    if (!cell.is_finite() && !std::isinf(cell.allowance)) return {};
    if (!cell.contrast.empty()) continue;
    wanted.push_back({cell, limit_of(limits, cell)});
    seeds = std::max(seeds, cell.seeds);
  }
  return seeds > 0 ? remedy(wanted, agreement.level, seeds, agreement.width) : std::string();
}

}  // namespace

void judge_cells(Agreement& agreement, double level, const config::AgreementOptions& options) {
  agreement.level = level;
  test(agreement);
  agreement.power = power_of(agreement.cells, level, options.power_limits);
  if (agreement.rejected == 0) {
    agreement.reason = shortcoming(agreement.cells, agreement.power);
    const std::string way_out = remedy_of(agreement, options.power_limits);
    if (!agreement.reason.empty() && !way_out.empty()) agreement.reason += "; " + way_out;
  }
  agreement.verdict = agreement.rejected > 0     ? Verdict::disagrees
                      : agreement.reason.empty() ? Verdict::agrees
                                                 : Verdict::inconclusive;
}

std::vector<Agreement> agreements_of(const std::vector<Comparison>& comparisons,
                                     const config::AgreementOptions& options) {
  std::vector<Agreement> agreements;
  std::size_t total = 0;
  for (const Comparison& c : comparisons) {
    Agreement agreement;
    agreement.width = c.spec.model.width;
    agreement.reason = obstacle(c);
    if (agreement.reason.empty()) {
      agreement.reason = out_of_range(c.spec, c.prediction.profile, c.dtype);
      if (!agreement.reason.empty()) agreement.verdict = Verdict::inconclusive;
    }
    if (agreement.reason.empty()) {
      agreement.cells = compared_cells(c, options);
      const std::vector<Cell> more = contrasts(c, agreement.cells);
      agreement.cells.insert(agreement.cells.end(), more.begin(), more.end());
      if (agreement.cells.empty()) {
        agreement.verdict = Verdict::inconclusive;
        agreement.reason = "nothing to compare";
      }
    }
    total += agreement.cells.size();
    agreements.push_back(std::move(agreement));
  }
  for (Agreement& agreement : agreements) {
    if (agreement.cells.empty()) continue;
    judge_cells(agreement, sidak_level(options.familywise_error, total), options);
  }
  for (std::size_t i = 0; i < agreements.size(); ++i) {
    const std::string& refusal = comparisons[i].prediction.gradient_refusal;
    const bool measured = comparisons[i].measured.find(Statistic::grad_sq, Signal::x_out) != nullptr;
    if (agreements[i].verdict == Verdict::inconclusive && measured && !refusal.empty())
      agreements[i].reason = "gradients are not predicted: " + refusal;
  }
  return agreements;
}

}  // namespace periscope::judge
