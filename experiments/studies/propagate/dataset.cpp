#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "experiments/core/config/weights_choice.h"
#include "experiments/core/dataset/curves.h"
#include "experiments/core/dataset/table.h"
#include "experiments/core/judge/compared_cells.h"
#include "experiments/core/judge/imprecise.h"
#include "experiments/studies/propagate/propagate.h"

namespace periscope::propagate {
namespace {

using dataset::Builder;
using dataset::CurvePlace;
using dataset::Place;
using dataset::text_of;
using dataset::Type;
using Row = Builder::Row;

/// One stack of a run.
struct Stack {
  const stacks::StackResult& result;
  const config::RunOptions& run;

  [[nodiscard]] const Profile* measured() const { return result.measurement ? &result.measurement->profile : nullptr; }
  [[nodiscard]] const Profile& predicted() const { return result.prediction.profile; }
};

const std::string on = "input placement";
const Place at_cell = Place("cells").each({"input", "placement"});
const std::string hidden = "error that would have been rejected with 95 % probability (T22)";

/// The columns of T22, one per compared curve: "second_moment_power", "f_out_second_moment_power".
std::string power_name(Statistic statistic, Signal signal) {
  return (signal == Signal::x_out ? "" : text_of(signal) + "_") + text_of(statistic) + "_power";
}

std::vector<double> z_scores(const Curve& measured, const Curve& predicted) {
  std::vector<double> z;
  for (std::size_t i = 0; i < measured.value.size(); ++i) {
    z.push_back(judge::Cell{.measured = measured.value[i],
                            .measured_error = measured.standard_error[i],
                            .predicted = predicted.value[i],
                            .predicted_error = predicted.standard_error[i]}
                    .z());
  }
  return z;
}

/// A verdict compares the logarithm of a squared gradient, whose mean over seeds a few large ones do not decide: the
/// z beside the square is that one's, so that no z contradicts the verdict.
template <class At>
void use_compared(const judge::Agreement& agreement, At at, std::vector<double>& z) {
  for (const judge::Cell& cell : agreement.cells) {
    if (cell.statistic != Statistic::log_grad_sq || !cell.contrast.empty()) continue;
    const auto i = static_cast<std::size_t>(cell.index);
    if constexpr (std::is_same_v<At, Signal>) {
      if (!cell.weight && cell.signal == at && i < z.size()) z[i] = cell.z();
    } else {
      if (cell.weight == at && i < z.size()) z[i] = cell.z();
    }
  }
}

template <class At>
void put_curve(const Stack& s, const Row& row, Statistic statistic, At at) {
  const CurvePlace place(row, statistic, at);
  const Curve* measured = s.measured() == nullptr ? nullptr : s.measured()->find(statistic, at);
  const Curve* predicted = s.predicted().find(statistic, at);
  if (measured != nullptr) {
    place.put("measured", measured->value);
    place.put("stderr", measured->standard_error);
  }
  if (predicted != nullptr) {
    place.put("predicted", predicted->value);
    place.put("predicted_stderr", predicted->standard_error);
  }
  if constexpr (std::is_same_v<At, Signal>) {
    const Curve* limit = s.result.prediction.limit.find(statistic, at);
    if (s.result.prediction.exact_at_width_for(statistic, at) && limit != nullptr) {
      place.put("predicted_limit", limit->value);
    }
  }
  if (measured == nullptr || predicted == nullptr) return;
  std::vector<double> z = z_scores(*measured, *predicted);
  if (statistic == Statistic::grad_sq) use_compared(s.result.agreement, at, z);
  place.put("z", z);
}

void put_curves(const Stack& s, const Row& row) {
  std::set<std::pair<Statistic, Signal>> signals;
  std::set<std::pair<Statistic, Weight>> weights;
  for (const Profile* profile : {s.measured(), &s.predicted()}) {
    if (profile == nullptr) continue;
    for (const auto& item : profile->curves) signals.insert(item.first);
    for (const auto& item : profile->weight_curves) weights.insert(item.first);
  }
  for (const auto& [statistic, signal] : signals) put_curve(s, row, statistic, signal);
  for (const auto& [statistic, weight] : weights) put_curve(s, row, statistic, weight);
}

void put_top_magnitudes(const Stack& s, const Row& row) {
  if (!s.result.measurement) return;
  for (const auto& [signal, sublayers] : s.result.measurement->top) {
    for (std::size_t l = 0; l < sublayers.size(); ++l) {
      row.at("site", dataset::site_of(signal)).at("sublayer", l).put("top_magnitudes", sublayers[l]);
    }
  }
}

std::vector<dataset::ColumnSpec> power_columns() {
  std::vector<dataset::ColumnSpec> all;
  for (const auto& [statistic, signal] : judge::compared_curves) {
    const std::string name = power_name(statistic, signal);
    all.push_back({.name = name,
                   .dimensions = on + (runs_over_depth(signal) ? " depth" : " sublayer"),
                   .type = Type::real,
                   .units = std::string(statistic == Statistic::log_grad_sq ? units_of(statistic) : "1"),
                   .meaning = fmt::format("{} of {}: {}", text_of(statistic), text_of(signal), hidden),
                   .place = at_cell / "power" / "cells" / name});
  }
  const std::string name = "weight_log_grad_sq_power";
  all.push_back({.name = name,
                 .dimensions = on + " weight layer",
                 .type = Type::real,
                 .units = "nat",
                 .meaning = "log_grad_sq of every matrix: " + hidden,
                 .place = (at_cell / "power" / "cells" / name).by("weight")});
  return all;
}

/// Of every cell that is no contrast what it could have hidden.
void put_power(const Stack& s, const Row& row) {
  const judge::Agreement& a = s.result.agreement;
  if (a.worst < 0) return;
  for (const judge::Cell& cell : a.cells) {
    const double smallest = cell.smallest_rejected(a.level);
    if (!cell.contrast.empty() || std::isnan(smallest)) continue;
    const auto at = static_cast<std::size_t>(cell.index);
    if (cell.weight) {
      if (cell.statistic != Statistic::log_grad_sq) continue;
      row.at("weight", static_cast<std::size_t>(*cell.weight))
          .at("layer", at)
          .put("weight_log_grad_sq_power", smallest);
    } else if (std::ranges::find(judge::compared_curves, std::pair(cell.statistic, cell.signal)) !=
               judge::compared_curves.end()) {
      row.at(runs_over_depth(cell.signal) ? "depth" : "sublayer", at)
          .put(power_name(cell.statistic, cell.signal), smallest);
    }
  }
}

using Prediction = theory::Prediction;

dataset::Table<Prediction> theory_table() {
  dataset::Table<Prediction> table;
  const Place at = at_cell / "theory";
  table
      .column({"finite_width", on + " depth", "1", "finite-width factor w of T19 (the term is c*w)",
               at_cell / "finite_width"},
              [](const Prediction& p) { return p.finite_width; })
      .column({"theory_replicates", on, "1", "replicates behind the prediction", at / "replicates"},
              [](const Prediction& p) { return p.replicates; })
      .column({"theory_patterns", on, "1", "attention patterns drawn per head, forward", at / "patterns"},
              [](const Prediction& p) { return p.samples; })
      .column({"theory_patterns_back", on, "1", "attention patterns drawn, backward", at / "patterns_back"},
              [](const Prediction& p) { return p.backward_samples; })
      .column_if_any(
          {"theory_finite_width_replicates", on, "1", "replicates of T25's chain", at / "finite_width_replicates"},
          [](const Prediction& p) {
            return p.exact_at_width ? std::optional(p.finite_width_replicates) : std::nullopt;
          })
      .column({"theory_refusal", on, "", "why there is no prediction", at / "refused"},
              [](const Prediction& p) { return p.refusal; })
      .column({"theory_gradient_refusal", on, "", "why gradients are not predicted", at / "gradients_refused"},
              [](const Prediction& p) { return p.gradient_refusal; })
      .column({"theory_imprecise", on, "",
               "predicted gradients and score shares whose standard error is larger than wanted "
               "(theory.gradient_tolerance)",
               at / "imprecise"},
              [](const Prediction& p) { return fmt::format("{}", fmt::join(judge::imprecise_names(p), "; ")); })
      .column({"angular_distance_predicted", on + " depth other_depth", "1",
               "angular distance arccos(cos)/pi between the stream at two depths: prediction",
               at_cell / "angular_distance" / "predicted"},
              [](const Prediction& p) { return p.profile.angular_distance; });
  return table;
}

dataset::Table<stacks::Measurement> measurement_table() {
  dataset::Table<stacks::Measurement> table;
  table
      .column({"angular_distance_measured", on + " depth other_depth", "1",
               "angular distance arccos(cos)/pi between the stream at two depths: mean over seeds",
               at_cell / "angular_distance" / "measured"},
              [](const stacks::Measurement& m) { return m.profile.angular_distance; })
      .column({"diverged_seeds", on, "1", "seeds whose stream stopped being finite", at_cell / "diverged" / "seeds"},
              [](const stacks::Measurement& m) { return m.diverged_seeds; })
      .column(
          {"diverged_at", on, "1", "first sublayer at which one did", at_cell / "diverged" / "sublayer"},
          [](const stacks::Measurement& m) { return m.diverged_at < 0 ? std::nullopt : std::optional(m.diverged_at); });
  return table;
}

const judge::Cell& worst_of(const judge::Agreement& a) { return a.cells[static_cast<std::size_t>(a.worst)]; }

/// The worst cell of a verdict that was given.
dataset::Table<judge::Agreement> worst_table() {
  dataset::Table<judge::Agreement> table;
  const Place at = at_cell / "worst";
  table
      .column({"worst_cell", on, "", "worst cell or contrast: its name", at / "name"},
              [](const judge::Agreement& a) { return worst_of(a).name(); })
      .column({"worst_statistic", on, "", "worst cell: its statistic", at / "statistic"},
              [](const judge::Agreement& a) { return text_of(worst_of(a).statistic); })
      .column({"worst_place", on, "", "worst cell: its site or matrix", at / "site"},
              [](const judge::Agreement& a) {
                const judge::Cell& cell = worst_of(a);
                return cell.weight ? text_of(*cell.weight) : text_of(cell.signal);
              })
      .column({"worst_index", on, "1", "worst cell: its depth, sublayer or layer", at / "index"},
              [](const judge::Agreement& a) { return worst_of(a).index; })
      .column({"worst_z", on, "1", "worst cell: measured - predicted in combined standard errors", at / "z"},
              [](const judge::Agreement& a) { return worst_of(a).z(); })
      .column({"worst_excess", on, "1", "worst cell: standard errors beyond its allowance", at / "beyond_finite_width"},
              [](const judge::Agreement& a) { return worst_of(a).excess(); })
      .column({"worst_critical", on, "1", "worst cell: where it would be rejected", at / "critical"},
              [](const judge::Agreement& a) { return a.critical; })
      .column({"rejected", on, "1", "cells and contrasts that reject theory", at_cell / "rejected"},
              [](const judge::Agreement& a) { return a.rejected; })
      .column({"rejected_by", on, "", "cell that rejected theory", at_cell / "by"},
              [](const judge::Agreement& a) { return a.by; })
      .column({"power_worst", on, "1", hidden + ": the cell that could hide the largest", at_cell / "power" / "worst"},
              [](const judge::Agreement& a) { return a.power.worst; })
      .column({"power_median", on, "1", hidden + ": median over cells", at_cell / "power" / "median"},
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
  const std::string each = on + " statistic";
  const Place at = (at_cell / "power" / "statistics").by("statistic");
  table
      .column({"statistic_power_worst", each, "1", hidden + ": worst cell of a statistic", at / "worst"},
              [](const P& p) { return p.power.worst; })
      .column({"statistic_power_median", each, "1", hidden + ": median over a statistic's cells", at / "median"},
              [](const P& p) { return p.power.median; })
      .column({"statistic_power_limit", each, "1", "what that may be in an agreement", at / "limit"},
              [](const P& p) { return p.power.limit; })
      .column({"statistic_power_at", each, "", "that worst cell", at / "at"},
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
  const std::string each = on + " contrast";
  const Place at = (at_cell / "contrasts").each({"contrast"});
  table
      .column({"contrast_name", each, "", "contrast over depth", at / "name"}, [](const C& c) { return c.cell.name(); })
      .column({"contrast_deviation", each, "1", "its measured value, as a deviation from theory", at / "deviation"},
              [](const C& c) { return c.cell.measured; })
      .column({"contrast_stderr", each, "1", "standard error of the deviation", at / "stderr"},
              [](const C& c) { return c.cell.error(); })
      .column({"contrast_allowance", each, "1", "what it may be for free (T19)", at / "allowance"},
              [](const C& c) { return c.cell.allowance; })
      .column({"contrast_excess", each, "1", "standard errors beyond the allowance", at / "excess"},
              [](const C& c) { return c.cell.excess(); })
      .column({"contrast_power", each, "1", hidden, at / "power"},
              [](const C& c) { return c.cell.smallest_rejected(c.level); });
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

std::vector<dataset::ColumnSpec> curves() {
  return dataset::curve_columns(
      on, at_cell,
      {{"measured", "mean over seeds"},
       {"stderr", "standard error of the mean over seeds"},
       {"predicted", "prediction"},
       {"predicted_stderr", "standard error of the prediction (sampled attention patterns)"},
       {"predicted_limit", "prediction in the limit of infinite width, where the other is for this width (T25)"},
       {"z",
        "measured - predicted in combined standard errors; of squared gradients that of their logarithms where these "
        "are compared",
        "1"}});
}

/// All columns of a stack.
const dataset::Table<Stack>& table() {
  static const dataset::Table<Stack> all = [] {
    dataset::Table<Stack> t;
    const auto measurement = [](const Stack& s) { return s.result.measurement ? &*s.result.measurement : nullptr; };
    const auto verdict = [](const Stack& s) { return s.result.agreement.worst < 0 ? nullptr : &s.result.agreement; };
    t.family(curves(), put_curves)
        .family(power_columns(), put_power)
        .column_if_any(
            {"weights", on, "", "how random matrices were drawn: dense, or matrix-free (T21)", at_cell / "weights"},
            [](const Stack& s) {
              return s.measured() != nullptr ? std::optional(config::weights_used(s.result.spec, s.run)) : std::nullopt;
            })
        .part(theory_table(), [](const Stack& s) { return &s.result.prediction; })
        .part(measurement_table(), measurement)
        .family({{.name = "top_magnitudes",
                  .dimensions = on + " site sublayer rank",
                  .type = Type::real,
                  .units = "1",
                  .meaning = "largest |x| over all tokens and seeds",
                  .place = (at_cell / "sites").by("site") / "top_magnitudes"}},
                put_top_magnitudes)
        .column_if_any({"verdict", on, "", "agreement of measurement and theory (T19)", at_cell / "verdict"},
                       [](const Stack& s) {
                         return s.measured() != nullptr ? std::optional(judge::name_of(s.result.agreement.verdict))
                                                        : std::nullopt;
                       })
        .column_if_any(
            {"verdict_reason", on, "", "why the verdict is inconclusive or was not given", at_cell / "reason"},
            [](const Stack& s) {
              return s.measured() != nullptr ? std::optional(s.result.agreement.reason) : std::nullopt;
            })
        .part(worst_table(), verdict)
        .rows_at("statistic", statistic_table(), statistics_of)
        .rows("contrast", contrast_table(), contrasts_of);
    return t;
  }();
  return all;
}

/// The curves that some stack has are there in all versions, with NaN where theory refuses, or where what was measured
/// has none; and so is what a verdict rests on, where none is given.
void mention_all(Builder& builder, const std::vector<stacks::StackResult>& results) {
  std::set<std::string> stems;
  const auto look = [&](const Profile& profile) {
    for (const auto& item : profile.curves) {
      const std::string name = text_of(item.first.first);
      stems.insert("site_" + name);
      if (item.first.second == Signal::x_out) stems.insert(name);
    }
    for (const auto& item : profile.weight_curves) stems.insert("weight_" + text_of(item.first.first));
  };
  for (const stacks::StackResult& r : results) {
    look(r.prediction.profile);
    if (r.measurement) look(r.measurement->profile);
  }
  if (results.front().measurement) {
    for (const char* name : {"worst_excess", "worst_critical", "rejected_by", "power_worst", "power_median"}) {
      builder.mention(name);
    }
    if (stems.contains("weight_log_grad_sq")) builder.mention("weight_log_grad_sq_power");
  }
  for (const std::string& stem : stems) {
    for (const char* version : {"predicted", "predicted_stderr", "measured", "stderr"}) {
      if (version[0] != 'p' && !results.front().measurement) continue;
      builder.mention(stem + "_" + version);
    }
  }
}

}  // namespace

const dataset::Schema& schema() {
  static const dataset::Schema declared = [] {
    std::vector<dataset::DimensionSpec> dimensions{
        {"input", Type::text, "", "what enters the stack"},
        {"placement", Type::text, "", "normalization placement (T1)", false, true}};
    std::ranges::move(dataset::curve_dimensions(), std::back_inserter(dimensions));
    dimensions.push_back({"statistic", Type::text, "", "what is read"});
    dimensions.push_back({"contrast"});
    return dataset::Schema("stack", 2, std::move(dimensions), table().specs(), dataset::curve_remarks(at_cell));
  }();
  return declared;
}

dataset::Dataset dataset_of(const config::Config& config, const std::vector<stacks::StackResult>& results) {
  Builder builder(schema());
  const auto has_weights = [](const stacks::StackResult& r) {
    return !r.prediction.profile.weight_curves.empty() ||
           (r.measurement && !r.measurement->profile.weight_curves.empty());
  };
  dataset::put_curve_coordinates(builder, results.front().spec.model, top_count,
                                 std::ranges::any_of(results, has_weights));
  builder.put("statistic", statistic_names);
  mention_all(builder, results);
  for (std::size_t i = 0; i < results.size(); ++i) {
    const stacks::StackResult& r = results[i];
    const std::size_t input = i / config.placements.size();
    const std::size_t placement = i % config.placements.size();
    builder.at("input", input).put("input", input_kind_names[static_cast<std::size_t>(r.spec.input.kind)]);
    builder.at("placement", placement).put("placement", config::placement_label(r.spec));
    table().put({r, config.run}, builder.at("input", input).at("placement", placement));
  }
  return builder.finish();
}

}  // namespace periscope::propagate
