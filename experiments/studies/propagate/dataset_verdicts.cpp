#include <algorithm>
#include <cmath>
#include <iterator>

#include "experiments/engine/judge/verdict_columns.h"
#include "experiments/studies/propagate/propagate.h"

namespace periscope::propagate {
namespace {

using judge::StackVerdict;
using judge::Test;

/// The detectable error (T22) of the stream's second moment at every depth.
std::vector<double> second_moment_power(const StackVerdict& v) {
  std::vector<double> power;
  for (const Test& test : v.tests) {
    const bool counts = test.statistic == Statistic::second_moment && test.signal == Signal::x_out && !test.weight;
    if (!counts || !test.contrast.empty()) continue;
    power.resize(static_cast<std::size_t>(test.index) + 1, std::nan(""));
    power.back() = test.detectable;
  }
  return power;
}

std::vector<std::pair<std::size_t, judge::GroupPower>> statistics_of(const StackVerdict& v) {
  std::vector<std::pair<std::size_t, judge::GroupPower>> all;
  for (const judge::GroupPower& power : v.power.groups) {
    all.push_back({static_cast<std::size_t>(v.tests[static_cast<std::size_t>(power.test)].statistic), power});
  }
  return all;
}

dataset::Table<Test> contrast_table(const std::string& on) {
  dataset::Table<Test> table;
  table.column({"contrast_name", on, "", "contrast over depth"}, &Test::name)
      .column({"contrast_deviation", on, "1", "its measured value, as a deviation from theory"},
              [](const Test& t) { return t.measured.value; })
      .column({"contrast_stderr", on, "1", "standard error of the deviation"}, &Test::error)
      .column({"contrast_allowance", on, "1", "its tolerated bias (T19)"}, &Test::tolerated_bias)
      .column({"contrast_excess", on, "1", "standard errors beyond the tolerated bias"}, &Test::excess)
      .column({"contrast_power", on, "1", judge::detectable_words}, &Test::detectable);
  return table;
}

std::vector<Test> contrasts_of(const StackVerdict& v) {
  std::vector<Test> all;
  std::ranges::copy_if(v.tests, std::back_inserter(all), [](const Test& t) { return !t.contrast.empty(); });
  return all;
}

}  // namespace

dataset::Table<StackVerdict> verdict_table(const std::string& on) {
  dataset::Table<StackVerdict> tests;
  tests
      .column({"second_moment_power", on + " depth", "1", "second_moment of the stream: " + judge::detectable_words},
              second_moment_power)
      .rows_at("statistic", judge::power_columns("statistic", on + " statistic"), statistics_of)
      .rows("contrast", contrast_table(on + " contrast"), contrasts_of);
  dataset::Table<StackVerdict> table = judge::verdict_columns("", on, "agreement of measurement and theory (T19)");
  table.part(tests, [](const StackVerdict& v) { return v.worst < 0 ? nullptr : &v; });
  return table;
}

}  // namespace periscope::propagate
