#pragma once

#include "experiments/engine/judge/claims.h"
#include "experiments/engine/result/dataset.h"
#include "experiments/ledger/claims.h"

namespace periscope::ledger {

/// Returns a claim that was not run: without value and p.
judge::SignClaim not_run(const ClaimRow& claim);

/// Decides a claim from a result; null for claims without a run. Tests over seeds have a level of
/// judge::sign_claim_level, and their `values` are the numbers read, by seed. Throws ConfigError for an invalid
/// expression, InputError for a column or label that the result does not have.
judge::SignClaim decide(const ClaimRow& claim, const dataset::Dataset* data);

}  // namespace periscope::ledger
