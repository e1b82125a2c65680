#pragma once

#include <map>
#include <string>
#include <vector>

#include "experiments/engine/judge/cell.h"
#include "experiments/engine/judge/compared_cells.h"
#include "experiments/engine/judge/verdict_power.h"
#include "experiments/engine/settings/config.h"
#include "sim/spec/profile.h"
#include "theory/predict/predict.h"

namespace periscope::judge {

/// The judgement of one stack.
struct Agreement {
  Verdict verdict = Verdict::not_checked;
  std::string reason;  ///< why it was not checked or is inconclusive
  std::vector<Cell> cells;
  double level = 0.0;     ///< p-value below which a cell is rejected (Šidák over all stacks of the run)
  double critical = 0.0;  ///< excess at which the worst cell is rejected (Student's t)
  int rejected = 0;
  int worst = -1;  ///< cell with the smallest p-value
  std::string by;  ///< its name if it was rejected: what theory was refused by
  Power power;     ///< what the test could have refused (T22)
  int width = 0;   ///< of the stack, for what would make an inconclusive verdict decide; 0: not to be named

  /// Only where there is one: `worst` ≥ 0.
  [[nodiscard]] const Cell& worst_cell() const { return cells[static_cast<std::size_t>(worst)]; }
};

/// A stack's two profiles.
struct Comparison {
  const StackSpec& spec;
  const Profile& measured;
  int seeds;
  int diverged_seeds;
  DType dtype;
  const theory::Prediction& prediction;
  double rounding = 0.0;                 ///< relative, what rounding beyond that of dtype may do to a forward statistic
  const SeedCurves* per_seed = nullptr;  ///< for contrasts over depth; none are tested without
};

/// Tests the cells of one agreement, each at the p-value `level`, and gives its verdict.
void judge_cells(Agreement& agreement, double level, const config::AgreementOptions& options);

/// Compares prediction and measurement: the cells of `compared_cells` and, with per-seed curves, the contrasts of
/// `contrasts`. Needs 4 seeds. A cell is rejected when its two-sided p-value under Student's t, for the part of the
/// difference beyond its allowance, falls below 1 − (1 − familywise_error)^(1/n), n being the number of cells and
/// contrasts of all comparisons together: then the verdict is `disagrees`. Otherwise it is `inconclusive` if a
/// statistic's worst cell could be off by more than the statistic's limit unnoticed (T22), if a prediction misses its
/// precision, if a number is not finite or measured but not predicted, or if there is nothing to compare, else
/// `agrees`.
std::vector<Agreement> agreements_of(const std::vector<Comparison>& comparisons,
                                     const config::AgreementOptions& options);

}  // namespace periscope::judge
