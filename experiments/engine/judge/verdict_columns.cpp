#include "experiments/engine/judge/verdict_columns.h"

namespace periscope::judge {
namespace {

/// Columns of a Test or a StackVerdict.
template <class Judged>
dataset::Table<Judged> verdict_of(const std::string& name, const std::string& on, const std::string& question) {
  dataset::Table<Judged> table;
  table.column({name, on, "", question}, [](const Judged& j) { return name_of(j.verdict); })
      .column({name + "_reason", on, "", "why the verdict is inconclusive or was not given"}, &Judged::reason);
  return table;
}

}  // namespace

dataset::Table<Test> verdict_column(const std::string& name, const std::string& on, const std::string& question) {
  return verdict_of<Test>(name, on, question);
}

dataset::Table<Test> test_columns(const std::string& name, const std::string& on, const std::string& units,
                                  const std::string& meaning) {
  dataset::Table<Test> table;
  const auto number = [&](const std::string& suffix, const std::string& suffix_units, const std::string& words,
                          auto value) {
    table.column({name + suffix, on, suffix_units, meaning + ": " + words}, value);
  };
  const auto if_checked = [](auto value) {
    return [value](const Test& t) {
      return t.verdict == Verdict::not_checked ? std::nullopt : std::optional<double>(std::invoke(value, t));
    };
  };
  number("_measured", units, "mean over seeds", [](const Test& t) { return t.measured.value; });
  number("_stderr", units, "standard error over seeds", [](const Test& t) { return t.measured.error; });
  number("_predicted", units, "prediction", [](const Test& t) { return t.predicted.value; });
  number("_predicted_stderr", units, "standard error of the prediction",
         [](const Test& t) { return t.predicted.error; });
  number("_excess", "1", "standard errors beyond the tolerated bias", if_checked(&Test::excess));
  number("_critical", "1", "excess above which it is rejected", if_checked(&Test::critical));
  number("_power", units, detectable_words, if_checked(&Test::detectable));
  return table;
}

dataset::Table<StackVerdict> verdict_columns(const std::string& prefix, const std::string& on,
                                             const std::string& question) {
  using V = StackVerdict;
  const std::string says = "test nearest to rejection: ";
  dataset::Table<V> worst;
  worst.column({prefix + "worst_cell", on, "", says + "its name"}, [](const V& v) { return v.worst_test().name(); })
      .column({prefix + "worst_z", on, "1", says + "measured - predicted in combined standard errors"},
              [](const V& v) { return v.worst_test().z(); })
      .column({prefix + "worst_excess", on, "1", says + "standard errors beyond the tolerated bias"},
              [](const V& v) { return v.worst_test().excess(); })
      .column({prefix + "worst_critical", on, "1", says + "where it would be rejected"},
              [](const V& v) { return v.worst_test().critical; })
      .column({prefix + "rejected", on, "1", "tests that reject their prediction"}, &V::rejected)
      .column({prefix + "power_worst", on, "1", detectable_words + ": the test that could hide the largest"},
              [](const V& v) { return v.power.worst; })
      .column({prefix + "power_median", on, "1", detectable_words + ": median over tests"},
              [](const V& v) { return v.power.median; });
  dataset::Table<V> table = verdict_of<V>(prefix + "verdict", on, question);
  return table.part(worst, [](const V& v) { return v.worst < 0 ? nullptr : &v; });
}

}  // namespace periscope::judge
