#pragma once

#include <cstddef>
#include <vector>

#include "theory/predict/pattern_level.h"

namespace periscope::theory {

/// The windows of one batch in pairs, one after the other [2T], with their labels if there are any; a single window
/// stays single. The squared gradient of a mean over B windows, Σ_ij ⟨g_i, g_j⟩/B², has terms of one window and of two,
/// so pairs determine its expectation. Of more than `most` pairs as many are taken, each window about equally often.
/// Throws std::invalid_argument without windows, for windows of different lengths, labels of other windows, and tokens
/// without label: then the windows' shares in the loss would differ.
ChainInputs pairs_of_windows(const std::vector<std::vector<int>>& ids, const std::vector<std::vector<int>>& labels,
                             std::size_t most);

}  // namespace periscope::theory
