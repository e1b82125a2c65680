#pragma once

#include <string>
#include <vector>

#include "theory/predict/predict.h"

namespace periscope::judge {

/// Names the entries that miss the wanted standard error, of logarithms of gradients and of score_share, one text per
/// curve: "log_grad_sq q[0-5]", "score_share A_out[0, 2]".
std::vector<std::string> imprecise_names(const theory::Prediction& prediction);

}  // namespace periscope::judge
