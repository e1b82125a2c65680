#include <fmt/format.h>
#include <fmt/ranges.h>

#include <optional>

#include "experiments/engine/result/table.h"
#include "experiments/engine/settings/json_text.h"
#include "experiments/studies/power/power.h"

namespace periscope::power {
namespace {

using dataset::Table;

std::string in_one_line(const std::vector<std::string>& settings) {
  return fmt::format("{}", fmt::join(settings, " "));
}

/// The excess of a stack that has tests.
std::optional<double> excess_of(const Confrontation& c) {
  return c.by.empty() ? std::nullopt : std::optional(c.excess);
}

std::optional<double> critical_of(const Confrontation& c) {
  return c.by.empty() ? std::nullopt : std::optional(c.critical);
}

/// The stack that says most clearly what a theory is worth.
Table<Confrontation> clearest_table() {
  using C = Confrontation;
  Table<C> table;
  table.column({"by", "row", "", "test nearest to rejection, of the stack that says it most clearly"}, &C::by)
      .column({"margin", "row", "1", "its excess over its limit"}, &C::margin)
      .column({"power_verdict", "row", "", "of that stack"}, [](const C& c) { return judge::name_of(c.verdict); })
      .column({"clearest_placement", "row", "", "normalization placement of that stack (T1)"}, &C::placement)
      .column({"clearest_input", "row", "", "what enters that stack"}, &C::input)
      .column_if_any({"power_excess", "row", "1", "standard errors beyond the tolerated bias, of that test"}, excess_of)
      .column_if_any({"power_critical", "row", "1", "where it is rejected"}, critical_of);
  return table;
}

Table<Confrontation> stack_table() {
  using C = Confrontation;
  Table<C> table;
  const std::string on = "row stack";
  table.column({"stack_placement", on, "", "normalization placement (T1)"}, &C::placement)
      .column({"stack_input", on, "", "what enters the stack"}, &C::input)
      .column({"stack_verdict", on, "", "its verdict on the theory"},
              [](const C& c) { return judge::name_of(c.verdict); })
      .column({"stack_reason", on, "", "why it is inconclusive or was not given"}, &C::reason)
      .column_if_any({"stack_worst", on, "", "its test nearest to rejection"},
                     [](const C& c) { return c.by.empty() ? std::nullopt : std::optional(c.by); })
      .column_if_any({"stack_excess", on, "1", "standard errors beyond the tolerated bias"}, excess_of)
      .column_if_any({"stack_critical", on, "1", "where it is rejected"}, critical_of);
  return table;
}

Table<PowerRow> row_table() {
  using R = PowerRow;
  Table<R> table;
  table.column({"theory", "row", "", "what theory was told; true: the truth"}, &R::theory)
      .column({"theory_is_true", "row", "1", "1 for the right theory"}, &R::is_true)
      .column({"told", "row", "", "the keys that it was told otherwise"},
              [](const R& r) { return in_one_line(r.settings); })
      .column({"configuration", "row", "", "configuration that it was held against"}, &R::config)
      .column({"theory_rejected", "row", "1", "1 if a stack rejects the theory"}, &R::rejected)
      .part(clearest_table(), [](const R& r) { return &r.clearest(); })
      .rows(
          "stack", stack_table(), [](const R& r) -> const auto& { return r.stacks; });
  return table;
}

/// Names of files are text in files, whatever their bytes are.
Table<PowerConfig> listed_table() {
  using C = PowerConfig;
  Table<C> table;
  table.column({"listed_name", "listed", "", "a configuration of the list"}, &C::name)
      .column({"listed_file", "listed", "", "its file"}, [](const C& c) { return config::valid_utf8(c.file); })
      .column({"listed_settings", "listed", "", "the keys that the list sets on top of it"},
              [](const C& c) { return in_one_line(c.settings); });
  return table;
}

const Table<PowerResult>& result_table() {
  using R = PowerResult;
  static const Table<R> all = [] {
    Table<R> table;
    table
        .rows(
            "row", row_table(), [](const R& r) -> const auto& { return r.rows; })
        .column({"as_they_should_be", "", "1", "every wrong theory is rejected, and the right one is not"},
                all_as_they_should_be)
        .rows(
            "listed", listed_table(), [](const R& r) -> const auto& { return r.list.configs; })
        .column({"list", "", "", "file of wrong theories"}, [](const R& r) { return config::valid_utf8(r.list.file); });
    return table;
  }();
  return all;
}

}  // namespace

const dataset::Schema& schema() {
  static const dataset::Schema declared("power", 2, {{"row"}, {"stack"}, {"listed"}}, result_table().specs());
  return declared;
}

dataset::Dataset dataset_of(const PowerResult& result) {
  dataset::Builder builder(schema());
  result_table().put(result, builder.row());
  return builder.finish();
}

}  // namespace periscope::power
