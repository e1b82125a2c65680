#include "experiments/ledger/verdicts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "experiments/engine/judge/seed_rows.h"
#include "experiments/ledger/reading.h"
#include "sim/base/error.h"
#include "sim/base/mapped.h"

namespace periscope::ledger {
namespace {

using judge::ClaimVerdict;
using judge::SignClaim;

/// Words for verdicts of studies other than those of claim_verdict_names.
constexpr std::pair<std::string_view, ClaimVerdict> verdict_words[] = {{"agrees", ClaimVerdict::holds},
                                                                       {"passed", ClaimVerdict::holds},
                                                                       {"disagrees", ClaimVerdict::fails},
                                                                       {"failed", ClaimVerdict::fails},
                                                                       {"violated", ClaimVerdict::fails},
                                                                       {"inconclusive", ClaimVerdict::not_shown},
                                                                       {"not-checked", ClaimVerdict::not_testable}};

ClaimVerdict verdict_of(const std::string& word) {
  const auto known = std::ranges::find(judge::claim_verdict_names, word);
  if (known != judge::claim_verdict_names.end()) {
    return static_cast<ClaimVerdict>(known - judge::claim_verdict_names.begin());
  }
  const auto* const found = std::ranges::find(verdict_words, word, &std::pair<std::string_view, ClaimVerdict>::first);
  if (found == std::end(verdict_words)) throw InputError(fmt::format("unknown verdict {}", word));
  return found->second;
}

ClaimVerdict holds_if(bool holds) { return holds ? ClaimVerdict::holds : ClaimVerdict::fails; }

/// Decides a claim about numbers without a test: all equal `expected`, or none exceeds a bound.
void decide_exactly(const ClaimRow& row, const Numbers& numbers, SignClaim& claim) {
  const auto deviation = [&](double x) { return row.kind == Kind::bound ? x : std::abs(x - row.expected); };
  const auto worst = std::ranges::max_element(numbers.values, {}, deviation);
  claim.mean.value = *worst;
  const bool finite = std::ranges::all_of(numbers.values, [](double x) { return std::isfinite(x); });
  if (!finite) return set_not_testable(claim, "a number is missing or infinite");
  claim.verdict = holds_if(deviation(*worst) <= row.threshold);
}

/// Tests a claim over seeds.
void test(const ClaimRow& row, const Numbers& numbers, SignClaim& claim) {
  if (numbers.seeds == 0 || numbers.length != 1) {
    throw InputError(fmt::format("{}: expected one number per seed", row.read));
  }
  if (row.kind == Kind::positive) return test_some_row_positive(claim, {{numbers.values}});
  const auto above = mapped(numbers.values, [&](double x) { return row.threshold + (x - row.expected); });
  const auto below = mapped(numbers.values, [&](double x) { return row.threshold - (x - row.expected); });
  test_some_row_positive(claim, {{above, below}});
  claim.values = numbers.values;
  claim.mean = judge::mean_over_seeds(claim.values);
}

/// Returns the condition of a claim, else the study's reason for its verdict: for claim_verdict[claim=F3] the text in
/// the column claim_verdict_reason or claim_reason at the same labels; "" if there is none.
std::string reason_of(const ClaimRow& row, ClaimVerdict verdict, const dataset::Dataset& result) {
  if (verdict == ClaimVerdict::holds_with_condition && !row.condition.empty()) return text_at(row.condition, result);
  const std::string& reference = row.verdict;
  const std::size_t name_end = std::min(reference.find('['), reference.size());
  const std::string column_name = reference.substr(0, name_end);
  const std::string name = column_name.substr(0, column_name.rfind("_verdict"));
  for (const std::string& column : {column_name + "_reason", name + "_reason"}) {
    if (result.find(column) != nullptr) return text_at(column + reference.substr(name_end), result);
  }
  return "";
}

}  // namespace

SignClaim not_run(const ClaimRow& row) {
  SignClaim claim{.id = row.id, .statement = row.statement};
  claim.p = claim.mean.value = claim.mean.error = claim.detectable = std::numeric_limits<double>::quiet_NaN();
  return claim;
}

SignClaim decide(const ClaimRow& row, const dataset::Dataset* data) {
  SignClaim claim = not_run(row);
  if (row.kind == Kind::not_testable) {
    claim.verdict = ClaimVerdict::not_testable;
    return claim;
  }
  static const dataset::Dataset nothing;
  const dataset::Dataset& result = data == nullptr ? nothing : *data;
  const bool is_text = !row.expected_text.empty();
  if (!row.read.empty() && !is_text) {
    const Numbers numbers = evaluate(row.read, result);
    claim.values = numbers.seeds > 0 && numbers.length == 1 ? numbers.values : std::vector<double>();
    if (!row.verdict.empty()) {
      if (claim.values.empty()) {
        claim.mean.value = numbers.values.front();
      } else {
        claim.mean = judge::mean_over_seeds(claim.values);
      }
    } else if (row.kind == Kind::exact || row.kind == Kind::bound || row.kind == Kind::fact) {
      decide_exactly(row, numbers, claim);
    } else {
      test(row, numbers, claim);
    }
  }
  if (is_text) claim.verdict = holds_if(text_at(row.read, result).find(row.expected_text) != std::string::npos);
  if (!row.verdict.empty()) {
    claim.verdict = verdict_of(text_at(row.verdict, result));
    if (const std::string reason = reason_of(row, claim.verdict, result); !reason.empty())
      judge::add_reason(claim, reason);
  }
  if (!row.quantity.empty()) claim.quantity = text_at(row.quantity, result);
  if (!row.p.empty()) claim.p = evaluate(row.p, result).values.front();
  return claim;
}

}  // namespace periscope::ledger
