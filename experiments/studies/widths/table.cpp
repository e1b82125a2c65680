#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "experiments/engine/judge/judge.h"
#include "experiments/engine/result/text_table.h"
#include "experiments/studies/widths/ladder.h"
#include "sim/numerics/larger.h"

namespace periscope::ladder {
namespace {

/// The tests of one curve: of its entries, and of their mean.
struct Family {
  std::string name;
  std::vector<judge::Test> tests;
  const stacks::LadderQuantity* nearest = nullptr;  ///< largest excess / critical; rejected tests first
};

std::vector<Family> families(const stacks::LadderStack& stack) {
  std::vector<Family> all;
  for (const stacks::LadderQuantity& q : stack.quantities) {
    if (q.test.verdict == judge::Verdict::not_checked) continue;
    const std::string name = q.test.curve_name();
    auto it = std::ranges::find(all, name, &Family::name);
    if (it == all.end()) it = all.insert(all.end(), {.name = name, .tests = {}});
    it->tests.push_back(q.test);
    const auto nearness = [](const judge::Test& t) { return std::pair(judge::disagrees(t), t.excess() / t.critical); };
    if (it->nearest == nullptr || nearness(it->nearest->test) < nearness(q.test)) it->nearest = &q;
  }
  return all;
}

std::string exponent(const FittedLaw& law) {
  if (!law.is_fitted()) return "-";
  const judge::PowerLaw& fit = law.fit;
  const bool bounded = std::isfinite(fit.exponent_error);
  return fmt::format("{:.2f} ± {}", fit.exponent, bounded ? fmt::format("{:.2f}", fit.exponent_error) : "inf");
}

}  // namespace

std::string table(const stacks::LadderResult& result, const config::Config& config) {
  dataset::TextTable table({"placement", "input", "nearest to rejection", "at 1/D = 0", "theory", "b",
                            ">excess / critical", ">detectable", "verdict"});
  for (const stacks::LadderStack& stack : result.stacks) {
    const std::string placement = config::placement_label(stack.spec);
    if (!stack.unsupported.empty()) table.add_note(placement, "unsupported: " + stack.unsupported);
    for (const Family& family : families(stack)) {
      const judge::Test& nearest = family.nearest->test;
      const judge::Test& decides = *judge::deciding(family.tests);
      double detectable = 0.0;
      for (const judge::Test& t : family.tests) detectable = larger(detectable, t.detectable);
      table.add({placement, std::string(input_kind_names[static_cast<std::size_t>(stack.spec.input.kind)]),
                 nearest.name(), dataset::with_error(nearest.measured.value, nearest.measured.error),
                 dataset::with_error(nearest.predicted.value, nearest.predicted.error),
                 fmt::format("{:.3g}", family.nearest->fit.slope.value),
                 fmt::format("{:.1f} / {:.1f}", nearest.excess(), nearest.critical), fmt::format("{:.2g}", detectable),
                 std::string(judge::name_of(decides.verdict))});
      if (decides.verdict == judge::Verdict::inconclusive)
        table.add_note("", (decides.name() == nearest.name() ? "" : decides.name() + " ") + decides.reason);
    }
  }
  return table.text() +
         fmt::format(
             "m(D) = m + b/D + c/D² fitted over widths {} … {}; m is compared with the theory of infinite width, "
             "without a tolerated bias.\nexcess: deviation in standard errors; critical: Student's t at a familywise "
             "error of {:g} over {} tests.\ndetectable: smallest error of the theory that is rejected with 95 % "
             "probability, worst entry (relative for moments).\n",
             result.widths.front(), result.widths.back(), config.agreement.familywise_error, result.tests);
}

std::string table(const std::vector<Convergence>& fits) {
  dataset::TextTable table({"placement", "statistic", ">bias over width: -1", "verdict", ">noise: -1/2", "verdict"});
  for (const Convergence& c : fits) {
    table.add({config::placement_label(c.spec), std::string(name_of(c.statistic)), exponent(c.bias),
               judge::verdict_words(c.bias.test), exponent(c.noise), judge::verdict_words(c.noise.test)});
  }
  return table.text() +
         "exponents of fitted power laws: bias (measured − theory of infinite width, mean over depth) against width; "
         "noise (spread of means) against the number of seeds.\n";
}

}  // namespace periscope::ladder
