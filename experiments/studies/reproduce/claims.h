#pragma once

#include <vector>

#include "experiments/engine/judge/claims.h"
#include "experiments/studies/reproduce/readings.h"

namespace periscope::reproduce {

/// Tests every claim whose groups are among `runs`; the others are `not_run`. A claim holds where p ≤ 0.05 and fails
/// where the opposite has p ≤ 0.05; else it is not shown. That is for each alone: `holm` is for all together. A loss
/// that is not finite counts as ln V, that of a guess.
[[nodiscard]] std::vector<judge::SignClaim> judge_claims(const std::vector<GroupRuns>& runs);

}  // namespace periscope::reproduce
