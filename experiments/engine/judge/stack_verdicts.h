#pragma once

#include <vector>

#include "experiments/engine/judge/judge.h"
#include "experiments/engine/judge/stack_tests.h"
#include "experiments/engine/settings/config.h"

namespace periscope::judge {

/// Returns contrasts over depth: for every statistic of the stream, of attention outputs, of MLP outputs and of every
/// kind of matrix, the mean and the slope of the deviations of its tests i. The deviation of a measured value m_i from
/// the prediction t_i is m_i/t_i − 1 for moments and m_i − t_i for cosines, shares and logarithms. Contrasts reject
/// errors that are small at every depth. A contrast Σ_i w_i (m_i − t_i)/scale_i is linear in the measured values, so it
/// has a value for every seed. Their mean is 0 if the theory is right, and their spread gives the standard error for
/// any correlation between depths.
///
/// Mean: w_i = 1/n. Slope: slope of the least-squares line over i, times the range of i (the change from first to
/// last). The error of the prediction is computed from its replicates if available, else as Σ|w_i| s_i/scale_i. The
/// tolerated bias is Σ|w_i| tolerated_bias_i/scale_i, as signs are unknown. Only finite tests with a scale count, at
/// least 2 for a mean and 3 for a slope. Without per-seed curves there are no contrasts. A mean has the limit of its
/// statistic, without the factor for modules, as a common error of all depths must be detected. A slope has twice this
/// limit: the change from end to end if both ends deviate by the limit in opposite directions.
std::vector<Test> contrasts(const Comparison& comparison, const std::vector<Test>& tests,
                            const config::PowerLimits& limits);

/// Judges all stacks of a run together, by the tests of stack_tests() and, with per-seed curves, contrasts(). A stack
/// is not checked without a prediction, if a seed diverged, or with fewer than 4 seeds. The verdict is inconclusive if
/// nothing is compared, a number is out of the dtype's range, or measured gradients are not predicted.
std::vector<StackVerdict> verdicts_of(const std::vector<Comparison>& comparisons,
                                      const config::AgreementOptions& options);

}  // namespace periscope::judge
