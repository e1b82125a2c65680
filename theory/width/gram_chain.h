#pragma once

#include <cstdint>
#include <vector>

#include "sim/spec/model_spec.h"
#include "sim/spec/profile.h"
#include "theory/attention/prediction_progress.h"
#include "theory/modules/fault.h"

namespace periscope::theory {

/// The numbers that name a replicate of the chain.
struct GramReplicate {
  std::uint64_t seed = 0;
  std::uint64_t replicate = 0;
  Fault fault = Fault::none;       ///< an injected mistake
  OnWork on_work = [](double) {};  ///< receives 1 for every sublayer
};

/// One replicate of T25: the Gram matrices of a stack's signals at its own widths, drawn from their exact law, without
/// any matrix of the width's size. For token input `ids` are its ids; none for Gaussian input.
/// The profile holds what one seed of a run would have read: second_moment, variance, mean and token_cosine at every
/// site, branch_ratio and branch_cosine at B_out; no standard errors. Numbers may be infinite or NaN where the stack's
/// are beyond about 1e150.
Profile gram_chain(const StackSpec& spec, const std::vector<int>& ids, const GramReplicate& replicate);

}  // namespace periscope::theory
