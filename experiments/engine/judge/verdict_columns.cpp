#include "experiments/engine/judge/verdict_columns.h"

namespace periscope::judge {

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
  dataset::Table<V> table;
  table.column({prefix + "verdict", on, "", question}, [](const V& v) { return name_of(v.verdict); })
      .column({prefix + "verdict_reason", on, "", "why the verdict is inconclusive or was not given"}, &V::reason)
      .part(worst, [](const V& v) { return v.worst < 0 ? nullptr : &v; });
  return table;
}

dataset::Table<GroupPower> power_columns(const std::string& name, const std::string& on) {
  dataset::Table<GroupPower> table;
  table.column({name + "_power_worst", on, "1", detectable_words + ": worst test of a " + name}, &GroupPower::worst)
      .column({name + "_power_median", on, "1", detectable_words + ": median over a " + name + "'s tests"},
              &GroupPower::median)
      .column({name + "_power_limit", on, "1", "what that may be in an agreement"}, &GroupPower::limit);
  return table;
}

}  // namespace periscope::judge
