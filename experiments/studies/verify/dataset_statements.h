#pragma once

#include <vector>

#include "experiments/engine/result/table.h"
#include "experiments/studies/verify/verify.h"

namespace periscope::verify {

/// The outcomes of every statement, over all cases and at each width: on the dimensions statement, log_ratio and width.
dataset::Table<VerifyResult> statement_columns();

/// The coordinate log_ratio: the middles of the bins that the columns have of such a histogram.
std::vector<double> histogram_bins(const RatioHistogram& histogram);

}  // namespace periscope::verify
