#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "experiments/engine/judge/compared_cells.h"
#include "experiments/engine/result/curves.h"
#include "experiments/studies/propagate/dataset_tables.h"

namespace periscope::propagate {
namespace {

using dataset::text_of;
using dataset::Type;
using Row = dataset::Builder::Row;

const std::string hidden = "error that would have been rejected with 95 % probability (T22)";

/// The columns of T22, one per compared curve.
std::vector<dataset::ColumnSpec> power_columns() {
  std::vector<dataset::ColumnSpec> all;
  for (const auto& [statistic, signal] : judge::compared_curves) {
    all.push_back({.name = dataset::curve_stem(statistic, signal) + "_power",
                   .dimensions = on_stack + (runs_over_depth(signal) ? " depth" : " site sublayer"),
                   .type = Type::real,
                   .units = std::string(statistic == Statistic::log_grad_sq ? units_of(statistic) : "1"),
                   .meaning = fmt::format("{} of {}: {}", text_of(statistic), text_of(signal), hidden)});
  }
  const std::string name = "weight_log_grad_sq_power";
  all.push_back({.name = name,
                 .dimensions = on_stack + " weight layer",
                 .type = Type::real,
                 .units = "nat",
                 .meaning = "log_grad_sq of every matrix: " + hidden});
  return all;
}

/// Puts, for every cell that is no contrast, the smallest error of the prediction that its test would have rejected
/// (T22).
void put_power(const Stack& s, const Row& row) {
  const judge::Agreement& a = s.result.agreement;
  if (a.worst < 0) return;
  for (const judge::Cell& cell : a.cells) {
    const double smallest = cell.smallest_rejected(a.level);
    if (!cell.contrast.empty() || std::isnan(smallest)) continue;
    const auto at = static_cast<std::size_t>(cell.index);
    if (cell.weight) {
      if (cell.statistic != Statistic::log_grad_sq) continue;
      row.at("weight", dataset::weight_index(*cell.weight)).at("layer", at).put("weight_log_grad_sq_power", smallest);
    } else if (std::ranges::find(judge::compared_curves, std::pair(cell.statistic, cell.signal)) !=
               judge::compared_curves.end()) {
      dataset::curve_row(row, cell.signal)
          .at(runs_over_depth(cell.signal) ? "depth" : "sublayer", at)
          .put(dataset::curve_stem(cell.statistic, cell.signal) + "_power", smallest);
    }
  }
}

/// The worst cell of a verdict that was given.
dataset::Table<judge::Agreement> worst_table() {
  dataset::Table<judge::Agreement> table;
  table
      .column({"worst_cell", on_stack, "", "worst cell or contrast: its name"},
              [](const judge::Agreement& a) { return a.worst_cell().name(); })
      .column({"worst_statistic", on_stack, "", "worst cell: its statistic"},
              [](const judge::Agreement& a) { return text_of(a.worst_cell().statistic); })
      .column({"worst_place", on_stack, "", "worst cell: its site or matrix"},
              [](const judge::Agreement& a) {
                const judge::Cell& cell = a.worst_cell();
                return cell.weight ? text_of(*cell.weight) : text_of(cell.signal);
              })
      .column({"worst_index", on_stack, "1", "worst cell: its depth, sublayer or layer"},
              [](const judge::Agreement& a) { return a.worst_cell().index; })
      .column({"worst_z", on_stack, "1", "worst cell: measured - predicted in combined standard errors"},
              [](const judge::Agreement& a) { return a.worst_cell().z(); })
      .column({"worst_excess", on_stack, "1", "worst cell: standard errors beyond its allowance"},
              [](const judge::Agreement& a) { return a.worst_cell().excess(); })
      .column({"worst_critical", on_stack, "1", "worst cell: where it would be rejected"},
              [](const judge::Agreement& a) { return a.critical; })
      .column({"rejected", on_stack, "1", "cells and contrasts that reject theory"},
              [](const judge::Agreement& a) { return a.rejected; })
      .column({"rejected_by", on_stack, "", "cell that rejected theory"},
              [](const judge::Agreement& a) { return a.by; })
      .column({"power_worst", on_stack, "1", hidden + ": the cell that could hide the largest"},
              [](const judge::Agreement& a) { return a.power.worst; })
      .column({"power_median", on_stack, "1", hidden + ": median over cells"},
              [](const judge::Agreement& a) { return a.power.median; });
  return table;
}

struct PowerOfStatistic {
  const judge::StatisticPower& power;
  const judge::Agreement& agreement;
};

dataset::Table<PowerOfStatistic> statistic_table() {
  using P = PowerOfStatistic;
  dataset::Table<P> table;
  const std::string each = on_stack + " statistic";
  table
      .column({"statistic_power_worst", each, "1", hidden + ": worst cell of a statistic"},
              [](const P& p) { return p.power.worst; })
      .column({"statistic_power_median", each, "1", hidden + ": median over a statistic's cells"},
              [](const P& p) { return p.power.median; })
      .column({"statistic_power_limit", each, "1", "what that may be in an agreement"},
              [](const P& p) { return p.power.limit; })
      .column({"statistic_power_at", each, "", "that worst cell"},
              [](const P& p) { return p.agreement.cells[static_cast<std::size_t>(p.power.cell)].name(); });
  return table;
}

std::vector<std::pair<std::size_t, PowerOfStatistic>> statistics_of(const Stack& s) {
  std::vector<std::pair<std::size_t, PowerOfStatistic>> all;
  const judge::Agreement& a = s.result.agreement;
  if (a.worst < 0) return all;
  for (const judge::StatisticPower& power : a.power.statistics) {
    all.push_back({static_cast<std::size_t>(power.statistic), {power, a}});
  }
  return all;
}

struct Contrast {
  const judge::Cell& cell;
  double level;
};

dataset::Table<Contrast> contrast_table() {
  using C = Contrast;
  dataset::Table<C> table;
  const std::string each = on_stack + " contrast";
  table.column({"contrast_name", each, "", "contrast over depth"}, [](const C& c) { return c.cell.name(); })
      .column({"contrast_deviation", each, "1", "its measured value, as a deviation from theory"},
              [](const C& c) { return c.cell.measured; })
      .column({"contrast_stderr", each, "1", "standard error of the deviation"},
              [](const C& c) { return c.cell.error(); })
      .column({"contrast_allowance", each, "1", "what it may be for free (T19)"},
              [](const C& c) { return c.cell.allowance; })
      .column({"contrast_excess", each, "1", "standard errors beyond the allowance"},
              [](const C& c) { return c.cell.excess(); })
      .column({"contrast_power", each, "1", hidden}, [](const C& c) { return c.cell.smallest_rejected(c.level); });
  return table;
}

std::vector<Contrast> contrasts_of(const Stack& s) {
  std::vector<Contrast> all;
  const judge::Agreement& a = s.result.agreement;
  if (a.worst < 0) return all;
  for (const judge::Cell& cell : a.cells) {
    if (!cell.contrast.empty()) all.push_back({cell, a.level});
  }
  return all;
}

}  // namespace

dataset::Table<Stack> power_table() {
  dataset::Table<Stack> table;
  table.family(power_columns(), put_power);
  return table;
}

dataset::Table<Stack> verdict_table() {
  const auto verdict = [](const Stack& s) { return s.result.agreement.worst < 0 ? nullptr : &s.result.agreement; };
  dataset::Table<Stack> table;
  table
      .column_if_any({"verdict", on_stack, "", "agreement of measurement and theory (T19)"},
                     [](const Stack& s) {
                       return s.measured() != nullptr ? std::optional(judge::name_of(s.result.agreement.verdict))
                                                      : std::nullopt;
                     })
      .column_if_any({"verdict_reason", on_stack, "", "why the verdict is inconclusive or was not given"},
                     [](const Stack& s) {
                       return s.measured() != nullptr ? std::optional(s.result.agreement.reason) : std::nullopt;
                     })
      .part(worst_table(), verdict)
      .rows_at("statistic", statistic_table(), statistics_of)
      .rows("contrast", contrast_table(), contrasts_of);
  return table;
}

}  // namespace periscope::propagate
