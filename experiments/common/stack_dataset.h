#pragma once

#include "experiments/common/netcdf_file.h"
#include "experiments/common/stack_result.h"

namespace periscope {

/// The results of one run on the dimensions (input, placement, …): for every statistic S
///   S_measured, S_stderr, S_predicted, S_predicted_stderr   on (…, depth), the stream at x_out, 2L+1 depths;
///   site_S_…                                                on (…, site, sublayer);
///   weight_grad_sq_…, weight_log_grad_sq_…                  on (…, weight, layer), if gradients are there;
/// then angular_distance_… on (…, depth, other_depth), top_magnitudes on (…, site, sublayer, rank), the
/// finite-width factor on depth, what theory refuses and what it predicts less precisely than wanted (theory_imprecise,
/// in words: "log_grad_sq q[0-5]; …"), and each verdict with its worst cell. Measured variables are left out when
/// nothing was measured; what a placement lacks is NaN. Provenance goes into the attributes.
NetcdfDataset stack_dataset(const Config& config, const std::vector<StackResult>& results);

}  // namespace periscope
