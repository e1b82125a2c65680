#pragma once

#include <vector>

#include "experiments/engine/judge/judge.h"
#include "experiments/engine/judge/stack_tests.h"
#include "experiments/engine/settings/config.h"

namespace periscope::judge {

/// Returns contrasts over depth, for every statistic of the stream, of attention's and of the MLP's outputs, and of
/// every kind of matrix: the mean and the slope of the relative deviation m_i/t_i − 1 (of moments) or of m_i − t_i (of
/// cosines, shares and logarithms) over its tests i. They reject errors that are small everywhere. A contrast
/// Σ_i w_i (m_i − t_i)/scale_i is linear in the measured numbers, so every seed has a value of it, whose mean is 0 if
/// theory is right and whose spread over seeds gives the standard error, however the depths are correlated.
///
/// mean: w_i = 1/n. slope: that of the least-squares line over i, times the range of i: the change from first to last.
/// The prediction's error is that of the same sum over its replicates if it has them, else Σ|w_i| s_i/scale_i; the
/// tolerated bias is Σ|w_i| tolerated_bias_i/scale_i, as signs are unknown. Only finite tests with a scale take part:
/// at least 2 for a mean, 3 for a slope. None without per-seed curves. The limit of a mean is that of its statistic,
/// for modules' outputs too, so that no error common to all depths passes; that of a slope is twice as large, the
/// change between ends that are off by the limit in opposite directions.
std::vector<Test> contrasts(const Comparison& comparison, const std::vector<Test>& tests,
                            const config::PowerLimits& limits);

/// Compares predictions and measurements, of all stacks together: the tests of stack_tests() and, with per-seed curves,
/// contrasts(). Not checked without a prediction, if a seed diverged, or with fewer than 4 seeds; inconclusive if
/// nothing is compared, if a number is out of the dtype's range, or if gradients were measured and are not predicted.
std::vector<StackVerdict> verdicts_of(const std::vector<Comparison>& comparisons,
                                      const config::AgreementOptions& options);

}  // namespace periscope::judge
