#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "experiments/engine/judge/judge.h"
#include "experiments/engine/result/table.h"
#include "experiments/engine/settings/config.h"
#include "sim/base/error.h"

/// The columns of which results of gradient experiments consist. Where several
/// columns are about one quantity, `says` has the name N and the meaning of the quantity.
namespace periscope::gradients {

using dataset::ColumnText;
using dataset::Table;

/// "placement", of an S with a `spec`.
template <class S>
void add_placement(Table<S>& table, const std::string& row) {
  table.column({"placement", row, "", "normalization placement (T1)"},
               [](const S& s) { return config::placement_label(s.spec); });
}

/// "refusal", of an S that has one.
template <class S>
void add_refusal(Table<S>& table, const std::string& row) {
  table.column({"refusal", row, "", "why there is no prediction"}, &S::refusal);
}

/// The values and the standard errors of the curve `curve(s)`, which may be shorter than its dimension is long.
template <class S, class F>
void add_series(Table<S>& table, ColumnText values, ColumnText errors, F curve) {
  table.column(std::move(values), [curve](const S& s) { return curve(s).value; });
  table.column(std::move(errors), [curve](const S& s) { return curve(s).standard_error; });
}

/// N_suffix, its meaning followed by `words`.
ColumnText version_of(const ColumnText& says, const std::string& suffix, const std::string& words);
/// N_measured, N_stderr, N_predicted and N_predicted_stderr.
ColumnText measured_of(const ColumnText& says);
ColumnText measured_error_of(const ColumnText& says);
ColumnText predicted_of(const ColumnText& says);
ColumnText predicted_error_of(const ColumnText& says);

/// These four, of the curves `from_seeds(s)` and `from_theory(s)`.
template <class S, class M, class P>
void add_curve(Table<S>& table, const ColumnText& says, M from_seeds, P from_theory) {
  add_series(table, measured_of(says), measured_error_of(says), std::move(from_seeds));
  add_series(table, predicted_of(says), predicted_error_of(says), std::move(from_theory));
}

/// These four, N_power, N_verdict and N_verdict_reason.
Table<judge::Test> test_table(const ColumnText& says);
/// Adds the columns of the test `find(s)`, a reference.
template <class S, class F>
void add_test(Table<S>& table, const ColumnText& says, F find) {
  table.part(test_table(says), [find](const S& s) { return &find(s); });
}

/// Names the verdict of a test, which is null where there is none to judge.
std::string_view verdict_of(const judge::Test* test);
std::string reason_of(const judge::Test* test);
/// N and N_reason, of the test `find(s)`, a pointer.
template <class S, class F>
void add_verdict(Table<S>& table, const ColumnText& says, F find) {
  table.column(says, [find](const S& s) { return verdict_of(find(s)); });
  table.column(version_of(says, "reason", "why it is inconclusive"), [find](const S& s) { return reason_of(find(s)); });
}

/// The rows of a result, in their order on the dimension `row`.
template <class S>
void put_rows(dataset::Builder& builder, const Table<S>& table, const std::string& row, const std::vector<S>& rows) {
  for (std::size_t i = 0; i < rows.size(); ++i) table.put(rows[i], builder.at(row, i));
}

}  // namespace periscope::gradients
