#pragma once

#include <cstdint>
#include <vector>

#include "sim/spec/model_spec.h"
#include "sim/spec/profile.h"
#include "theory/attention/prediction_progress.h"
#include "theory/modules/fault.h"

namespace periscope::theory {

/// Parameters of one replicate of the finite-width chain.
struct GramReplicate {
  std::uint64_t seed = 0;
  std::uint64_t index = 0;  ///< number of the replicate
  Fault fault = Fault::none;
  OnWork on_work = [](double) {};  ///< receives 1 for every sublayer
};

/// Runs one replicate of the finite-width chain (T25): Gram matrices of a stack's signals, sampled from their exact
/// distribution without forming any [D, D] matrix. `ids`: token ids; empty for Gaussian input.
/// The profile holds the statistics that one seed of a simulation would measure: second_moment, variance, mean and
/// token_cosine at every site, branch_ratio and branch_cosine at B_out; no standard errors. Values may be infinite or
/// NaN where signals exceed about 1e150.
Profile gram_chain(const StackSpec& spec, const std::vector<int>& ids, const GramReplicate& replicate);

}  // namespace periscope::theory
