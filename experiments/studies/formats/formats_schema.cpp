#include <fmt/format.h>

#include "experiments/studies/formats/formats.h"

namespace periscope::formats {
namespace {

struct MeasureText {
  std::string_view units, meaning;
};

constexpr std::array<MeasureText, measure_names.size()> measure_texts{
    {{"dB", "signal-to-quantisation-noise ratio 10 log10(sum r^2 / sum (x - r)^2), r being the value in f64"},
     {"1", "relative error ||x - r|| / ||r||"},
     {"1", "angle between x and r over pi, mean over tokens"},
     {"1", "mean of x^2"},
     {"1", "population variance over features, mean over tokens"},
     {"1", "largest |x|, mean over seeds"},
     {"1", "share of entries that are 0 in the format and not in f64"},
     {"1", "share of entries that are not finite"}}};

std::vector<ColumnSpec> all_columns() {
  const std::string cell = "cells/[stack]/";
  const std::string format = cell + "formats/{format}/";
  const std::string of = "stack format";
  const std::string with = of + " features";
  const std::string features = format + "{features}/";
  std::vector<ColumnSpec> all{
      {"placement", "stack", "", "normalization placement (T1)", "", "JSON has the name or the table"},
      json_only("placement_value", cell + "placement", "name or table of the placement", "files have its label"),
      {"input", "stack", "", "what enters the stack", cell + "input"},
      {"second_moment_predicted", "stack depth", "1", "mean square of the stream, predicted at this width (T25)",
       cell + "second_moment_predicted"},
      {"second_moment_predicted_stderr", "stack depth", "1", "its standard error",
       cell + "second_moment_predicted_stderr"},
      {"maximum_predicted", "stack depth", "1", "about the largest |x| of the stream (T18)",
       cell + "maximum_predicted"},
      {"verdict", of, "", "does the stream's second moment and variance over depth agree with theory (T12, T25)?",
       format + "law/verdict"},
      {"verdict_reason", of, "", "why the verdict is inconclusive or was not given", format + "law/reason"},
      {"worst_cell", of, "", "worst cell or contrast of the law", format + "law/worst/name"},
      {"worst_z", of, "1", "worst cell: measured - predicted in combined standard errors", format + "law/worst/z"},
      {"worst_excess", of, "1", "worst cell: standard errors beyond rounding", format + "law/worst/excess"},
      {"worst_critical", of, "1", "worst cell: where it would be rejected", format + "law/worst/critical"},
      {"power_worst", of, "1", "relative error that would have been rejected with 95 % probability (T22): worst cell",
       format + "law/power/worst"},
      {"power_median", of, "1", "the same: median over cells", format + "law/power/median"},
      {"drift_verdict", of, "",
       "are second moment and variance over depth those in f64, but for one rounding of the stream? paired by seeds",
       format + "drift/verdict"},
      {"drift_reason", of, "", "why that verdict is inconclusive or was not given", format + "drift/reason"},
      {"drift_worst", of, "", "worst cell of the drift", format + "drift/worst/name"},
      {"drift_worst_value", of, "1", "its relative drift", format + "drift/worst/value"},
      {"drift_worst_stderr", of, "1", "its standard error", format + "drift/worst/stderr"},
      {"drift_allowance", of, "1", "what one rounding of the stream may do", format + "drift/allowance"},
      {"drift_power", of, "1", "relative drift that would have been rejected with 95 % probability (T22): worst cell",
       format + "drift/power"},
      {"certified", of, "1", "1: no input can overflow this format with the first seed's weights (T24)",
       format + "certificate/certified"},
      {"certificate_signal", of, "", "signal that may overflow first", format + "certificate/signal"},
      {"certificate_sublayer", of, "1", "its sublayer", format + "certificate/sublayer"},
      {"certificate_bound", of, "1", "its bound", format + "certificate/bound"},
      {"margin_predicted", of, "1", "largest number of the format over the largest predicted |x| of the stream (T18)",
       format + "margin_predicted"},
      {"massive_branch_cost", of, "dB", "SQNR of modules' outputs, mean over sublayers: plain minus massive",
       format + "massive_cost/branch/loss"},
      {"massive_branch_cost_stderr", of, "dB", "its standard error", format + "massive_cost/branch/stderr"},
      {"massive_branch", of, "", "hurts, helps or no difference seen", format + "massive_cost/branch/verdict"},
      {"massive_stream_cost", of, "dB", "SQNR of the stream behind the last sublayer: plain minus massive",
       format + "massive_cost/stream/loss"},
      {"massive_stream_cost_stderr", of, "dB", "its standard error", format + "massive_cost/stream/stderr"},
      {"massive_stream", of, "", "hurts, helps or no difference seen", format + "massive_cost/stream/verdict"},
      {"rounding_sqnr", of + " part place", "dB",
       "SQNR of single roundings, mean over the tensors of a part, forward, plain", format + "rounding/{part}/sqnr"},
      {"rounding_sqnr_stderr", of + " part place", "dB", "its standard error over seeds",
       format + "rounding/{part}/stderr"},
      {"weights_sqnr_predicted", of + " place", "dB", "the same of weights, predicted (T26)",
       format + "rounding/weights/predicted"},
      {"stream_sqnr_predicted", with + " depth", "dB", "SQNR of the stream by first-order propagation (T27)",
       features + "x_out/sqnr_predicted"},
      {"stream_sqnr_predicted_stderr", with + " depth", "dB", "its standard error over seeds",
       features + "x_out/sqnr_predicted_stderr"}};
  for (const auto& [prefix, way] : {std::pair("overflow", "forward"), std::pair("grad_overflow", "on the way back")}) {
    const std::string at = fmt::format("{}{}/", features, prefix);
    const std::string name = prefix;
    all.insert(
        all.end(),
        {{name + "_seeds", with, "1", fmt::format("seeds with a signal that is not finite, {}", way), at + "seeds"},
         {name + "_signal", with, "", "the first such signal of a pass over all seeds", at + "signal"},
         {name + "_sublayer", with, "1", "its sublayer", at + "sublayer"},
         {name + "_seed", with, "1", "its seed", at + "seed"}});
  }
  const std::string everywhere = with + " site place";
  const std::string site = features + "{site}/";
  const auto add = [&](const std::string& name, std::string_view units, const std::string& meaning, bool in_json) {
    const std::string only = in_json ? "" : "a number per place; JSON has SQNR, error, mean square and its drift";
    all.push_back(
        {name, everywhere, std::string(units), meaning + ", mean over seeds", in_json ? site + name : "", only});
    all.push_back({name + "_stderr", everywhere, std::string(units), "standard error of " + name + " over seeds",
                   in_json ? site + name + "_stderr" : "", only});
  };
  for (std::size_t m = 0; m < measure_names.size(); ++m) {
    const auto measure = static_cast<Measure>(m);
    const bool in_json = measure == Measure::sqnr || measure == Measure::error || measure == Measure::second_moment;
    add(std::string(measure_names[m]), measure_texts[m].units, std::string(measure_texts[m].meaning), in_json);
  }
  add("second_moment_drift", "1", "mean of x^2 over that in f64, minus 1, seed by seed", true);
  add("variance_drift", "1", "the same of the variance", false);
  return all;
}

}  // namespace

const Schema& schema() {
  static const Schema schema("formats", 1,
                             {{"stack"},
                              {"format", "", "number format"},
                              {"features", "", "what enters: plain, or with massive features"},
                              {"site", "", "signal, or grad and the signal whose gradient it is"},
                              {"place", "1", "sublayer; -1: before the first, 2L: after the last"},
                              {"depth", "1", "sublayers passed; 0 is the stack's input"},
                              {"part", "", "what is rounded"}},
                             all_columns());
  return schema;
}

}  // namespace periscope::formats
