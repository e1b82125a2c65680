#pragma once

#include <string>

#include "experiments/engine/judge/judge.h"
#include "experiments/engine/result/table.h"

namespace periscope::judge {

inline const std::string detectable_words = "smallest error that is rejected with 95 % probability (T22)";

/// Returns two columns: `name` with the verdict of a Test or StackVerdict on `question`, and NAME_reason.
template <class Judged = Test>
dataset::Table<Judged> verdict_column(const std::string& name, const std::string& on, const std::string& question) {
  dataset::Table<Judged> table;
  table.column({name, on, "", question}, [](const Judged& j) { return name_of(j.verdict); })
      .column({name + "_reason", on, "", "why the verdict is inconclusive or not-checked"}, &Judged::reason);
  return table;
}

/// Returns the columns of a test: NAME_measured, NAME_stderr, NAME_predicted and NAME_predicted_stderr; and
/// NAME_excess, NAME_critical and NAME_power, which are missing if the test was not checked.
dataset::Table<Test> test_columns(const std::string& name, const std::string& on, const std::string& units,
                                  const std::string& meaning);

/// Returns the columns of a stack's verdict, all with `prefix`: verdict, the answer to `question`, and its reason. If
/// there are tests, also worst_test, worst_z, worst_excess and worst_critical of the test nearest to rejection, the
/// number of rejected tests, and power_worst and power_median (T22).
dataset::Table<StackVerdict> verdict_columns(const std::string& prefix, const std::string& on,
                                             const std::string& question);

}  // namespace periscope::judge
