#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "experiments/engine/judge/stack_tests.h"
#include "experiments/engine/judge/verdict_columns.h"
#include "experiments/engine/result/curves.h"
#include "experiments/studies/propagate/dataset_tables.h"

namespace periscope::propagate {
namespace {

using dataset::text_of;
using dataset::Type;
using Row = dataset::Builder::Row;

/// The columns of T22, one per compared curve.
std::vector<dataset::ColumnSpec> power_columns() {
  std::vector<dataset::ColumnSpec> all;
  for (const auto& [statistic, signal] : judge::compared_curves) {
    all.push_back(
        {.name = dataset::curve_stem(statistic, signal) + "_power",
         .dimensions = on_stack + (runs_over_depth(signal) ? " depth" : " site sublayer"),
         .type = Type::real,
         .units = std::string(statistic == Statistic::log_grad_sq ? units_of(statistic) : "1"),
         .meaning = fmt::format("{} of {}: {}", text_of(statistic), text_of(signal), judge::detectable_words)});
  }
  const std::string name = "weight_log_grad_sq_power";
  all.push_back({.name = name,
                 .dimensions = on_stack + " weight layer",
                 .type = Type::real,
                 .units = "nat",
                 .meaning = "log_grad_sq of every matrix: " + judge::detectable_words});
  return all;
}

/// Puts the detectable error (T22) of every test that is no contrast.
void put_power(const Stack& s, const Row& row) {
  const judge::StackVerdict& v = s.result.judged;
  if (v.worst < 0) return;
  for (const judge::Test& test : v.tests) {
    if (!test.contrast.empty()) continue;
    const auto at = static_cast<std::size_t>(test.index);
    if (test.weight) {
      if (test.statistic != Statistic::log_grad_sq) continue;
      row.at("weight", dataset::weight_index(*test.weight))
          .at("layer", at)
          .put("weight_log_grad_sq_power", test.detectable);
    } else if (std::ranges::find(judge::compared_curves, std::pair(test.statistic, test.signal)) !=
               judge::compared_curves.end()) {
      dataset::curve_row(row, test.signal)
          .at(runs_over_depth(test.signal) ? "depth" : "sublayer", at)
          .put(dataset::curve_stem(test.statistic, test.signal) + "_power", test.detectable);
    }
  }
}

/// The worst test of a verdict that was given.
dataset::Table<judge::StackVerdict> worst_table() {
  using V = judge::StackVerdict;
  dataset::Table<V> table = judge::worst_columns(on_stack);
  const std::string says = "test nearest to rejection: ";
  table
      .column({"worst_statistic", on_stack, "", says + "its statistic"},
              [](const V& v) { return text_of(v.worst_test().statistic); })
      .column({"worst_place", on_stack, "", says + "its site or matrix"},
              [](const V& v) {
                const judge::Test& test = v.worst_test();
                return test.weight ? text_of(*test.weight) : text_of(test.signal);
              })
      .column({"worst_index", on_stack, "1", says + "its depth, sublayer or layer"},
              [](const V& v) { return v.worst_test().index; })
      .column({"worst_z", on_stack, "1", says + "measured - predicted in combined standard errors"},
              [](const V& v) { return v.worst_test().z(); })
      .column({"rejected_by", on_stack, "", "test that rejected theory"},
              [](const V& v) { return v.rejected > 0 ? v.worst_test().name() : ""; });
  return table;
}

/// The detectable errors of one statistic.
struct PowerOfStatistic {
  const judge::GroupPower& power;
  const judge::Test& worst;
};

dataset::Table<PowerOfStatistic> statistic_table() {
  using P = PowerOfStatistic;
  const std::string each = on_stack + " statistic";
  dataset::Table<P> table;
  table.part(judge::power_columns("statistic", each), [](const P& p) { return &p.power; })
      .column({"statistic_power_at", each, "", "that worst test"}, [](const P& p) { return p.worst.name(); });
  return table;
}

std::vector<std::pair<std::size_t, PowerOfStatistic>> statistics_of(const Stack& s) {
  std::vector<std::pair<std::size_t, PowerOfStatistic>> all;
  for (const judge::GroupPower& power : s.result.judged.power.groups) {
    const judge::Test& worst = s.result.judged.tests[static_cast<std::size_t>(power.test)];
    all.push_back({static_cast<std::size_t>(worst.statistic), {power, worst}});
  }
  return all;
}

dataset::Table<judge::Test> contrast_table() {
  using T = judge::Test;
  dataset::Table<T> table;
  const std::string each = on_stack + " contrast";
  table.column({"contrast_name", each, "", "contrast over depth"}, &T::name)
      .column({"contrast_deviation", each, "1", "its measured value, as a deviation from theory"},
              [](const T& t) { return t.measured.value; })
      .column({"contrast_stderr", each, "1", "standard error of the deviation"}, &T::error)
      .column({"contrast_allowance", each, "1", "its tolerated bias (T19)"}, &T::tolerated_bias)
      .column({"contrast_excess", each, "1", "standard errors beyond the tolerated bias"}, &T::excess)
      .column({"contrast_power", each, "1", judge::detectable_words}, &T::detectable);
  return table;
}

std::vector<judge::Test> contrasts_of(const Stack& s) {
  std::vector<judge::Test> all;
  if (s.result.judged.worst < 0) return all;
  std::ranges::copy_if(s.result.judged.tests, std::back_inserter(all),
                       [](const judge::Test& t) { return !t.contrast.empty(); });
  return all;
}

}  // namespace

dataset::Table<Stack> power_table() {
  dataset::Table<Stack> table;
  table.family(power_columns(), put_power);
  return table;
}

dataset::Table<Stack> verdict_table() {
  const auto verdict = [](const Stack& s) { return s.result.judged.worst < 0 ? nullptr : &s.result.judged; };
  dataset::Table<Stack> table;
  table
      .column_if_any({"verdict", on_stack, "", "agreement of measurement and theory (T19)"},
                     [](const Stack& s) {
                       return s.measured() != nullptr ? std::optional(judge::name_of(s.result.judged.verdict))
                                                      : std::nullopt;
                     })
      .column_if_any(
          {"verdict_reason", on_stack, "", "why the verdict is inconclusive or was not given"},
          [](const Stack& s) { return s.measured() != nullptr ? std::optional(s.result.judged.reason) : std::nullopt; })
      .part(worst_table(), verdict)
      .rows_at("statistic", statistic_table(), statistics_of)
      .rows("contrast", contrast_table(), contrasts_of);
  return table;
}

}  // namespace periscope::propagate
