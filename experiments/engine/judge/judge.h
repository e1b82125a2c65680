#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "experiments/engine/judge/test.h"

namespace periscope::judge {

/// Detectable errors (T22) of finite tests with a limit; 0 if there are none.
struct Power {
  double worst = 0.0;
  double median = 0.0;
  double limit = 0.0;  ///< limit of the worst test
};

/// Returns the power of judged tests, optionally restricted to one quantity.
Power power_of(const std::vector<Test>& tests, std::string_view quantity = {});

/// Tests of one stack and their joint verdict.
struct StackVerdict {
  Verdict verdict = Verdict::not_checked;
  std::string reason = {};  ///< why the stack was not checked or the verdict is inconclusive
  std::vector<Test> tests = {};
  double level = 0.0;  ///< significance level of a test (Šidák correction over all stacks of the run)
  int rejected = 0;
  int worst = -1;  ///< index of the test with the largest excess relative to its critical excess; −1: no finite test
  Power power = {};
  int width = 0;  ///< width of the stack, for remedies; 0: remedies do not suggest a width

  /// Requires `worst` ≥ 0.
  [[nodiscard]] const Test& worst_test() const { return tests[static_cast<std::size_t>(worst)]; }
};

struct Options {
  double familywise_error = 0.01;
  int width = 0;                    ///< width of the stacks; 0: remedies do not suggest a width
  std::string_view seeds_key = {};  ///< key that remedies name after a number of seeds
};

/// Judges the tests of a run together and returns the significance level of each (Šidák correction over finite tests
/// with enough seeds). A test disagrees if its excess is larger than `critical`, Student's t at this level. Otherwise
/// it is inconclusive in any of these cases: a number is not finite; the detectable error exceeds its limit (the reason
/// then ends with a remedy, see remedy.h); the tolerated bias is as large as the number itself; the prediction is less
/// precise than requested. Not checked with fewer than 4 seeds, or if measured and predicted values are both NaN.
double judge(const std::vector<Test*>& tests, const Options& options);

/// Judges the tests of all stacks together and sets the verdict of every stack with tests: disagrees if a test does,
/// else inconclusive if a test is, else agrees. The remedy applies to all tests of the stack.
void judge(const std::vector<StackVerdict*>& stacks, double familywise_error);

/// Returns the test that decides a joint verdict, by precedence of verdicts; null for an empty list. Among tests that
/// disagree or agree, it is the one with the largest excess / critical. Among inconclusive tests it is the first that
/// is not finite, else the one with the largest detectable error relative to its limit.
const Test* deciding(const std::vector<Test>& tests);

/// Returns "agrees", "disagrees (EXCESS / CRITICAL)" or "inconclusive (REASON)".
std::string verdict_words(const Test& test);

}  // namespace periscope::judge
