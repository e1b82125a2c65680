#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "experiments/engine/result/table.h"
#include "experiments/engine/result/text_table.h"
#include "experiments/engine/settings/json_text.h"
#include "experiments/studies/power/power.h"

namespace periscope::power {
namespace {

using dataset::Table;

/// Returns the columns of the verdict and of the test nearest to rejection, with the prefix `name`.
Table<ComparedStack> verdict_table(const std::string& name, const std::string& on) {
  using S = ComparedStack;
  const auto tested = [](double S::*number) {
    return [number](const S& s) { return s.nearest.empty() ? std::nullopt : std::optional(s.*number); };
  };
  Table<S> table;
  table.column({name + "_worst_test", on, "", "test nearest to rejection"}, &S::nearest)
      .column({name + "_verdict", on, "", "verdict of the stack on the theory"},
              [](const S& s) { return judge::name_of(s.verdict); })
      .column_if_any({name + "_excess", on, "1", "that test's excess over the tolerated bias, in standard errors"},
                     tested(&S::excess))
      .column_if_any({name + "_critical", on, "1", "excess above which that test is rejected"}, tested(&S::critical));
  return table;
}

Table<ComparedStack> stack_table() {
  using S = ComparedStack;
  const std::string on = "row stack";
  Table<S> table;
  table.column({"stack_placement", on, "", "normalization placement (T1)"}, &S::placement)
      .column({"stack_input", on, "", "kind of input"}, &S::input)
      .column({"stack_reason", on, "", "why the verdict is inconclusive or missing"}, &S::reason)
      .part(verdict_table("stack", on), [](const S& s) { return &s; });
  return table;
}

Table<PowerRow> row_table() {
  using R = PowerRow;
  Table<R> table;
  table.column({"theory", "row", "", "name of the theory; true: the correct one"}, &R::theory)
      .column({"theory_is_true", "row", "1", "1 for the correct theory"}, &R::is_true)
      .column({"overridden", "row", "", "overridden settings of the theory"},
              [](const R& r) { return fmt::format("{}", fmt::join(r.overridden, " ")); })
      .column({"configuration", "row", "", "configuration with which the theory is compared"}, &R::config)
      .column({"theory_rejected", "row", "1", "1 if a stack rejects the theory"}, &R::rejected)
      .part(verdict_table("power", "row"), [](const R& r) { return &r.clearest(); })
      .rows("stack", stack_table(), &R::stacks);
  return table;
}

/// File names may contain any bytes, but columns are UTF-8.
Table<PowerConfig> listed_table() {
  using C = PowerConfig;
  Table<C> table;
  table.column({"listed_name", "listed", "", "name of a listed configuration"}, &C::name)
      .column({"listed_file", "listed", "", "file of the listed configuration"},
              [](const C& c) { return config::valid_utf8(c.file); })
      .column({"listed_settings", "listed", "", "overrides of the listed configuration"},
              [](const C& c) { return fmt::format("{}", fmt::join(c.settings, " ")); });
  return table;
}

Table<PowerResult> result_table() {
  using R = PowerResult;
  Table<R> table;
  table.rows("row", row_table(), &R::rows)
      .column({"all_as_expected", "", "1", "1: every wrong theory is rejected, and the correct one is not"},
              &R::all_expected)
      .rows(
          "listed", listed_table(), [](const R& r) -> const auto& { return r.list.configs; })
      .column({"list", "", "", "file of wrong theories"}, [](const R& r) { return config::valid_utf8(r.list.file); });
  return table;
}

/// Returns "rejected" or the verdict, with unexpected outcomes in capitals.
std::string outcome(const PowerRow& row) {
  if (row.rejected()) return row.is_true ? "REJECTED" : "rejected";
  const std::string_view words = judge::name_of(row.clearest().verdict);
  return row.is_true ? std::string(words) : fmt::format("PASSES ({})", words);
}

}  // namespace

const dataset::Schema& schema() {
  static const dataset::Schema declared("power", 4, {{"row"}, {"stack"}, {"listed"}}, result_table().specs());
  return declared;
}

dataset::Dataset dataset_of(const PowerResult& result) {
  dataset::Builder builder(schema());
  result_table().put(result, builder.row());
  return builder.finish();
}

std::string table(const PowerResult& result) {
  dataset::TextTable table({"theory", "configuration", "verdict", ">excess / critical", "test nearest to rejection"});
  int rejected = 0;
  for (const PowerRow& row : result.rows) {
    const ComparedStack& c = row.clearest();
    table.add({row.theory, row.config, outcome(row), fmt::format("{:.1f} / {:.1f}", c.excess, c.critical), c.nearest});
    if (!row.is_true && row.rejected()) ++rejected;
  }
  return table.text() +
         fmt::format(
             "{} of {} wrong theories are rejected. A wrong theory is compared with one stack at a time; the "
             "familywise error is {:g} over the whole run.\n",
             rejected, std::ranges::count(result.rows, false, &PowerRow::is_true),
             result.list.configs.front().config.agreement.familywise_error);
}

}  // namespace periscope::power
