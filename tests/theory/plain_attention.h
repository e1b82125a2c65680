#pragma once

#include <vector>

#include "tests/support/hypothesis.h"
#include "theory/attention/attention_pattern.h"

namespace periscope::testing {

/// E_A[A K Aᵀ] of T3 and T4 by a plain Monte Carlo of its own: all heads are drawn, QK-norm over the whole
/// projection is taken over them all, and head 0's pattern is averaged. Row-major, [T, T].
std::vector<Estimate> plain_head_output_kernel(const theory::PatternLaw& law, const theory::Matrix& k, int samples,
                                               unsigned seed);

}  // namespace periscope::testing
