#pragma once

#include <cstddef>
#include <vector>

#include "theory/predict/pattern_level.h"

namespace periscope::theory {

/// The windows of one batch in pairs, one behind the other [2T], or as it is if there is one [T], with their labels, if
/// there are any. The squared gradient of a mean over B windows, Σ_ij ⟨g_i, g_j⟩/B² with g_i that of window i's own
/// loss, has terms of one window and of two, so pairs are enough to know its expectation.
/// These are all pairs if they are at most `most`, else so many of them, which have every window about equally often.
/// Throws std::invalid_argument for windows of different lengths, none at all, labels that are not those of these
/// windows, and tokens without label: then the windows' shares in the loss would differ.
ChainInputs pairs_of_windows(const std::vector<std::vector<int>>& ids, const std::vector<std::vector<int>>& labels,
                             std::size_t most);

}  // namespace periscope::theory
