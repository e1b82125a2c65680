#include "experiments/engine/judge/claims.h"

#include <cmath>

#include "experiments/engine/judge/judge.h"

namespace periscope::judge {

Test test_of_claim(const Test& measured, double claimed) {
  return {.measured = measured.measured, .predicted = {claimed, 0.0}, .limit = measured.limit, .seeds = measured.seeds};
}

void judge(const std::vector<Claim*>& claims, double familywise_error) {
  std::vector<Test*> tests;
  for (Claim* claim : claims) tests.push_back(&claim->test);
  judge(tests, {familywise_error});
  for (Claim* claim : claims) {
    const Test& test = claim->test;
    if (test.verdict == Verdict::not_checked || !test.is_finite()) continue;
    const double limit = test.critical * test.error();
    const auto within = [&](double off) { return std::abs(test.measured.value - off - claim->claimed) <= limit; };
    const bool unconditional = within(0.0) && std::abs(claim->correction) <= limit;
    claim->verdict = !unconditional && !within(claim->correction) ? ClaimVerdict::fails
                     : test.underpowered()                        ? ClaimVerdict::not_shown
                     : unconditional                              ? ClaimVerdict::holds
                                                                  : ClaimVerdict::holds_with_condition;
  }
}

}  // namespace periscope::judge
