#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "experiments/engine/judge/test.h"

namespace periscope::judge {

/// Detectable errors (T22) of the tests that are finite and have a limit; 0 of none.
struct Power {
  double worst = 0.0;
  double median = 0.0;
  double limit = 0.0;  ///< of the worst test
};

/// Returns the power of judged tests: of all, or of those of one quantity.
Power power_of(const std::vector<Test>& tests, std::string_view quantity = {});

/// The tests of one stack, and their joint verdict.
struct StackVerdict {
  Verdict verdict = Verdict::not_checked;
  std::string reason = {};  ///< why it was not checked or is inconclusive
  std::vector<Test> tests = {};
  double level = 0.0;  ///< p-value below which a test is rejected (Šidák over all stacks of the run)
  int rejected = 0;
  int worst = -1;  ///< index of the test nearest to rejection, or farthest beyond it
  Power power = {};
  int width = 0;  ///< of the stack, for remedies; 0: not named

  /// Requires `worst` ≥ 0.
  [[nodiscard]] const Test& worst_test() const { return tests[static_cast<std::size_t>(worst)]; }
};

struct Options {
  double familywise_error = 0.01;
  int width = 0;                    ///< of the stacks, for remedies; 0: not named
  std::string_view seeds_key = {};  ///< the key that remedies name next to a number of seeds
};

/// Judges the tests of a run together, and returns the level of each: Šidák's, over the tests that are finite and have
/// enough seeds. A test is rejected if its excess is larger than `critical`, Student's t at that level. Otherwise it is
/// inconclusive if a number is not finite, if its detectable error exceeds its limit, in which case the reason ends
/// with a remedy (remedy.h), if it tolerates a bias as large as the number itself, or if the prediction is less precise
/// than asked for. Not checked with fewer than 4 seeds, or if neither side is a number.
double judge(const std::vector<Test*>& tests, const Options& options);

/// Judges the tests of all stacks together, and sums up those of every stack that has any: it disagrees if a test is
/// rejected, is inconclusive if one is, and agrees else. The remedy is for all of its tests together.
void judge(const std::vector<StackVerdict*>& stacks, double familywise_error);

/// The test that decides a joint verdict: of the largest verdict, the one farthest beyond its critical excess or
/// nearest to it; of inconclusive ones the first that is not finite, the least powerful, or the first. Null for none.
const Test* deciding(const std::vector<Test>& tests);

/// "agrees", "disagrees (5.1 / 3.9)" with excess and critical excess, or "inconclusive (REASON)".
std::string verdict_words(const Test& test);

}  // namespace periscope::judge
