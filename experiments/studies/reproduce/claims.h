#pragma once

#include <functional>
#include <string>
#include <vector>

#include "experiments/engine/judge/sign_claim.h"
#include "experiments/studies/reproduce/readings.h"

namespace periscope::reproduce {

/// A claim and its test.
struct ClaimRow {
  using Runs = std::vector<const GroupRuns*>;

  std::string id, exhibit, statement, quantity;              ///< as in SignClaim
  std::vector<std::string> groups;                           ///< that it needs; if not all of them ran it stays not_run
  std::function<void(judge::SignClaim&, const Runs&)> test;  ///< of the runs of these groups
  /// Number of training tokens within which the source sees it. Shorter runs can confirm the claim but not refute it.
  double within_tokens = 0.0;
};

/// By seed: the reading of the first group less that of the second.
[[nodiscard]] std::vector<double> differences(const GroupRuns& first, const GroupRuns& second, const Reading& reading);

/// R3 and R8: the order and the shape of final losses over sweeps of the learning rate, of those that are among `runs`.
[[nodiscard]] std::vector<ClaimRow> rate_claims(const std::vector<GroupRuns>& runs);

/// Tests every claim whose groups are among `runs`; the others are `not_run`. A claim holds where p ≤ 0.05 and fails
/// where the opposite has p ≤ 0.05; else it is not shown. That is for each alone: `holm` is for all together. A loss
/// that is not finite counts as ln V, that of a guess.
[[nodiscard]] std::vector<judge::SignClaim> judge_claims(const std::vector<GroupRuns>& runs);

}  // namespace periscope::reproduce
