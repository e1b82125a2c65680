#include <fmt/format.h>

#include <algorithm>

#include "experiments/engine/result/text_table.h"
#include "experiments/studies/widths/ladder.h"
#include "sim/numerics/larger.h"

namespace periscope::ladder {
namespace {

/// The quantities of one curve: its entries and its means.
struct Family {
  const stacks::LadderQuantity* worst = nullptr;  ///< the one nearest to rejection, or beyond it
  const stacks::LadderQuantity* least = nullptr;  ///< the one with the least power that is inconclusive
  double power = 0.0;                             ///< of the worst entry
  judge::Verdict verdict = judge::Verdict::not_checked;
};

std::vector<std::pair<std::string, Family>> families(const stacks::LadderStack& stack) {
  std::vector<std::pair<std::string, Family>> all;
  for (const stacks::LadderQuantity& q : stack.quantities) {
    auto it = std::ranges::find(all, q.family(), &std::pair<std::string, Family>::first);
    if (it == all.end()) it = all.insert(all.end(), {q.family(), {}});
    Family& family = it->second;
    if (q.verdict == judge::Verdict::not_checked) continue;
    family.power = larger(family.power, q.power);
    const auto nearness = [](const stacks::LadderQuantity& x) {
      return std::pair(x.verdict == judge::Verdict::disagrees, x.excess / x.critical);
    };
    if (family.worst == nullptr || nearness(*family.worst) < nearness(q)) family.worst = &q;
    if (q.verdict == judge::Verdict::inconclusive && (family.least == nullptr || q.power > family.least->power)) {
      family.least = &q;
    }
    if (q.verdict == judge::Verdict::disagrees || family.verdict == judge::Verdict::disagrees) {
      family.verdict = judge::Verdict::disagrees;
    } else if (q.verdict == judge::Verdict::inconclusive || family.verdict == judge::Verdict::inconclusive) {
      family.verdict = judge::Verdict::inconclusive;
    } else {
      family.verdict = judge::Verdict::agrees;
    }
  }
  return all;
}

}  // namespace

std::string table(const stacks::LadderResult& result, const config::Config& config) {
  dataset::TextTable table({"placement", "input", "nearest to rejection", "at 1/D = 0", "theory", "b",
                            ">excess / limit", ">power", "verdict"});
  for (const stacks::LadderStack& stack : result.stacks) {
    const std::string placement = config::placement_label(stack.spec);
    if (!stack.refusal.empty()) table.add_note(placement, "refused: " + stack.refusal);
    for (const auto& [name, family] : families(stack)) {
      if (family.worst == nullptr) continue;
      const stacks::LadderQuantity& q = *family.worst;
      std::string why;
      if (family.verdict == judge::Verdict::inconclusive) {
        const stacks::LadderQuantity& least = *family.least;
        why = (&least == &q ? "" : least.name() + " ") + least.reason;
      }
      table.add({placement, std::string(input_kind_names[static_cast<std::size_t>(stack.spec.input.kind)]),
                 name + q.name().substr(name.size()), dataset::with_error(q.fit.limit.value, q.fit.limit.error),
                 dataset::with_error(q.predicted.value, q.predicted.error), fmt::format("{:.3g}", q.fit.slope.value),
                 fmt::format("{:.1f} / {:.1f}", q.excess, q.critical), fmt::format("{:.2g}", family.power),
                 std::string(judge::name_of(family.verdict))});
      if (!why.empty()) table.add_note("", why);
    }
  }
  return table.text() +
         fmt::format(
             "m(D) = m + b/D + c/D² fitted over widths {} … {}; m against the theory of infinite width, without "
             "allowance.\nexcess: standard errors between them; limit: Student's t at a familywise error of {:g} "
             "over {} quantities.\npower: the smallest error of theory that is refused with 95 % probability, "
             "worst entry (relative for moments).\n",
             result.widths.front(), result.widths.back(), config.agreement.familywise_error, result.tests);
}

}  // namespace periscope::ladder
