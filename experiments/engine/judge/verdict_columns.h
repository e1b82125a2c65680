#pragma once

#include <string>

#include "experiments/engine/judge/judge.h"
#include "experiments/engine/result/table.h"

namespace periscope::judge {

inline const std::string detectable_words = "smallest error that is rejected with 95 % probability (T22)";

/// NAME, the verdict of a Test or a StackVerdict as the answer to `question`, and NAME_reason.
template <class Judged = Test>
dataset::Table<Judged> verdict_column(const std::string& name, const std::string& on, const std::string& question) {
  dataset::Table<Judged> table;
  table.column({name, on, "", question}, [](const Judged& j) { return name_of(j.verdict); })
      .column({name + "_reason", on, "", "why the verdict is inconclusive or was not given"}, &Judged::reason);
  return table;
}

/// A test's numbers: NAME_measured, NAME_stderr, NAME_predicted, NAME_predicted_stderr; and NAME_excess, NAME_critical
/// and NAME_power, which a test that was not checked lacks.
dataset::Table<Test> test_columns(const std::string& name, const std::string& on, const std::string& units,
                                  const std::string& meaning);

/// PREFIXverdict, the answer to `question`, and its reason; where there are tests, worst_test, _z, _excess and
/// _critical of the one nearest to rejection, the number of rejected ones, and power_worst and power_median (T22).
dataset::Table<StackVerdict> verdict_columns(const std::string& prefix, const std::string& on,
                                             const std::string& question);

}  // namespace periscope::judge
