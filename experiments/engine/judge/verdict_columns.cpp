#include "experiments/engine/judge/verdict_columns.h"

namespace periscope::judge {

dataset::Table<Test> test_columns(const std::string& name, const std::string& on, const std::string& units,
                                  const std::string& meaning) {
  dataset::Table<Test> table;
  const auto add = [&](const std::string& suffix, const std::string& words, Estimate Test::*of,
                       double Estimate::*part) {
    table.column({name + suffix, on, units, meaning + ": " + words}, [=](const Test& t) { return t.*of.*part; });
  };
  const auto add_if_checked = [&](const std::string& suffix, const std::string& suffix_units, const std::string& words,
                                  auto value) {
    table.column({name + suffix, on, suffix_units, meaning + ": " + words}, [value](const Test& t) {
      return t.verdict == Verdict::not_checked ? std::nullopt : std::optional<double>(std::invoke(value, t));
    });
  };
  add("_measured", "mean over seeds", &Test::measured, &Estimate::value);
  add("_stderr", "standard error over seeds", &Test::measured, &Estimate::error);
  add("_predicted", "prediction", &Test::predicted, &Estimate::value);
  add("_predicted_stderr", "standard error of the prediction", &Test::predicted, &Estimate::error);
  add_if_checked("_excess", "1", "standard errors beyond the tolerated bias", &Test::excess);
  add_if_checked("_critical", "1", "excess above which the prediction is rejected", &Test::critical);
  add_if_checked("_power", units, detectable_words, &Test::detectable);
  return table;
}

dataset::Table<StackVerdict> verdict_columns(const std::string& prefix, const std::string& on,
                                             const std::string& question) {
  using V = StackVerdict;
  const std::string nearest = "test nearest to rejection: ";
  dataset::Table<V> worst;
  worst.column({prefix + "worst_test", on, "", nearest + "its name"}, [](const V& v) { return v.worst_test().name(); })
      .column({prefix + "worst_z", on, "1", nearest + "measured - predicted in combined standard errors"},
              [](const V& v) { return v.worst_test().z(); })
      .column({prefix + "worst_excess", on, "1", nearest + "standard errors beyond the tolerated bias"},
              [](const V& v) { return v.worst_test().excess(); })
      .column({prefix + "worst_critical", on, "1", nearest + "excess above which the prediction is rejected"},
              [](const V& v) { return v.worst_test().critical; })
      .column({prefix + "rejected", on, "1", "tests that reject their prediction"}, &V::rejected)
      .column({prefix + "power_worst", on, "1", detectable_words + ": largest over tests"},
              [](const V& v) { return v.power.worst; })
      .column({prefix + "power_median", on, "1", detectable_words + ": median over tests"},
              [](const V& v) { return v.power.median; });
  dataset::Table<V> table = verdict_column<V>(prefix + "verdict", on, question);
  return table.part(worst, [](const V& v) { return v.worst < 0 ? nullptr : &v; });
}

}  // namespace periscope::judge
