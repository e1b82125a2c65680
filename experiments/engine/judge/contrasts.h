#pragma once

#include <vector>

#include "experiments/engine/judge/stack_tests.h"

namespace periscope::judge {

/// Contrasts over depth, declared before anything is measured: for every statistic of the stream, of attention's and of
/// the MLP's outputs, and of every kind of matrix, the mean and the slope of the relative deviation m_i/t_i − 1 (of
/// moments) or of the deviation m_i − t_i (of cosines, shares and logarithms) over its tests i. A contrast is linear in
/// the measured numbers, Σ_i w_i m_i/scale_i − Σ_i w_i t_i/scale_i, so that every seed has its own value of it, whose
/// mean is 0 if theory is right, however the depths depend on each other; its standard error is that value's over
/// seeds. Single tests miss what is wrong everywhere a little.
///
/// mean: w_i = 1/n. slope: that of the least-squares line over i, times the range of i: the change from first to last.
/// The prediction's error is that of the same sum over its replicates where it has kept them, else as if the errors of
/// all points were one, Σ|w_i| s_i/scale_i. The tolerated bias is Σ|w_i| tolerated_bias_i/scale_i: the bias of no test
/// is known to have the sign of another's. Only tests of `tests` that are numbers with a scale take part; a mean needs
/// 2 of them, a slope 3. None without per-seed curves.
/// The limit of a mean is that of its statistic, for modules' outputs too: no error that all depths have in common may
/// pass. That of a slope is twice as large, the change between ends that are off by the limit in opposite directions.
std::vector<Test> contrasts(const Comparison& comparison, const std::vector<Test>& tests,
                            const config::PowerLimits& limits);

}  // namespace periscope::judge
