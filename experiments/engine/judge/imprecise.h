#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "theory/predict/predict.h"

namespace periscope::judge {

/// The entries of a predicted curve that miss the standard error that was wanted, of gradients and score_share, which
/// verdicts ask it of; no entry is missed by other statistics or by what is no number. `curve` may be null.
std::vector<std::size_t> imprecise_entries(const theory::Prediction& prediction, Statistic statistic,
                                           const Curve* curve);

/// Names the imprecise entries of a whole prediction, one text per curve: "log_grad_sq q[0-5]", "score_share A_out[0,
/// 2]". A squared gradient is imprecise where its logarithm is, and is not named by itself.
std::vector<std::string> imprecise_names(const theory::Prediction& prediction);

}  // namespace periscope::judge
