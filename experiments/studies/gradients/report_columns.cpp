#include "experiments/studies/gradients/report_columns.h"

namespace periscope::gradients {

ColumnText version_of(const ColumnText& says, const std::string& suffix, const std::string& words) {
  ColumnText version = says;
  version.name += "_" + suffix;
  version.meaning += ": " + words;
  return version;
}

ColumnText measured_of(const ColumnText& says) { return version_of(says, "measured", "mean over seeds"); }
ColumnText measured_error_of(const ColumnText& says) { return version_of(says, "stderr", "standard error over seeds"); }
ColumnText predicted_of(const ColumnText& says) { return version_of(says, "predicted", "prediction"); }
ColumnText predicted_error_of(const ColumnText& says) {
  return version_of(says, "predicted_stderr", "standard error of the prediction");
}

Table<judge::Test> test_table(const ColumnText& says) {
  ColumnText text = says;
  text.units.clear();
  Table<judge::Test> table;
  table.column(measured_of(says), [](const judge::Test& t) { return t.measured.value; });
  table.column(measured_error_of(says), [](const judge::Test& t) { return t.measured.error; });
  table.column(predicted_of(says), [](const judge::Test& t) { return t.predicted.value; });
  table.column(predicted_error_of(says), [](const judge::Test& t) { return t.predicted.error; });
  table.column(version_of(says, "power", "error that would have been rejected with 95 % probability (T22)"),
               [](const judge::Test& t) { return t.detectable; });
  table.column(version_of(text, "verdict", "agreement with theory (T19)"),
               [](const judge::Test& t) { return verdict_of(&t); });
  table.column(version_of(text, "verdict_reason", "why it is inconclusive"),
               [](const judge::Test& t) { return reason_of(&t); });
  return table;
}

std::string_view verdict_of(const judge::Test* test) {
  return judge::name_of(test != nullptr ? test->verdict : judge::Verdict::not_checked);
}

std::string reason_of(const judge::Test* test) { return test != nullptr ? test->reason : ""; }

}  // namespace periscope::gradients
