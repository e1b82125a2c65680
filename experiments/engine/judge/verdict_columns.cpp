#include "experiments/engine/judge/verdict_columns.h"

namespace periscope::judge {

dataset::Table<StackVerdict> worst_columns(const std::string& on) {
  using V = StackVerdict;
  const std::string says = "test nearest to rejection: ";
  dataset::Table<V> table;
  table.column({"worst_cell", on, "", says + "its name"}, [](const V& v) { return v.worst_test().name(); })
      .column({"worst_excess", on, "1", says + "standard errors beyond the tolerated bias"},
              [](const V& v) { return v.worst_test().excess(); })
      .column({"worst_critical", on, "1", says + "where it would be rejected"},
              [](const V& v) { return v.worst_test().critical; })
      .column({"rejected", on, "1", "tests that reject theory"}, &V::rejected)
      .column({"power_worst", on, "1", detectable_words + ": the test that could hide the largest"},
              [](const V& v) { return v.power.worst; })
      .column({"power_median", on, "1", detectable_words + ": median over tests"},
              [](const V& v) { return v.power.median; });
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
