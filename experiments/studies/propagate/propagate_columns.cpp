#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "experiments/core/config/provenance.h"
#include "experiments/core/config/weights_choice.h"
#include "experiments/core/dataset/curve_columns.h"
#include "experiments/core/judge/compared_cells.h"
#include "experiments/core/judge/imprecise.h"
#include "experiments/studies/propagate/propagate.h"

namespace periscope::propagate {
namespace {

using Json = Columns::Json;

/// The columns of T22, one per compared curve: "second_moment_power", "f_out_second_moment_power".
std::string power_name(Statistic statistic, Signal signal) {
  return (signal == Signal::x_out ? "" : text_of(signal) + "_") + text_of(statistic) + "_power";
}

std::vector<ColumnSpec> all_columns() {
  const std::string cell = "cells/[cell]/";
  const std::string on = "input placement";
  const std::string power = "error that would have been rejected with 95 % probability (T22)";
  const std::string each = "a number per cell of the verdict; JSON has the worst and the median of every statistic";
  const std::string pairs = "a number for every pair of depths";
  std::vector<ColumnSpec> all = curve_columns(
      on + " ", cell,
      {{"measured", "mean over seeds"},
       {"stderr", "standard error of the mean over seeds"},
       {"predicted", "prediction"},
       {"predicted_stderr", "standard error of the prediction (sampled attention patterns)"},
       {"predicted_limit", "prediction in the limit of infinite width, where the other is for this width (T25)"},
       {"z",
        "measured - predicted in combined standard errors; of squared gradients that of their logarithms where these "
        "are "
        "compared",
        "1"}});
  for (const auto& [statistic, signal] : compared_curves) {
    const std::string units(statistic == Statistic::log_grad_sq ? units_of(statistic) : "1");
    all.push_back({power_name(statistic, signal), on + (runs_over_depth(signal) ? " depth" : " sublayer"), units,
                   fmt::format("{} of {}: {}", text_of(statistic), text_of(signal), power), "", each});
  }
  for (ColumnSpec& column : std::vector<ColumnSpec>{
           {"weight_log_grad_sq_power", on + " weight layer", "nat", "log_grad_sq of every matrix: " + power, "", each},
           json_only("placement_value", cell + "placement", "name or table of the placement",
                     "files have the coordinate placement"),
           json_only("input_name", cell + "input", "kind of input", "files have the coordinate input"),
           {"weights", on, "", "how random matrices were drawn: dense, or matrix-free (T21)", cell + "weights"},
           json_only("sites", cell + "sites", "the curves of all sites but x_out", "files have the dimension site"),
           {"angular_distance_predicted", on + " depth other_depth", "1",
            "angular distance arccos(cos)/pi between the stream at two depths: prediction", "", pairs},
           {"angular_distance_measured", on + " depth other_depth", "1",
            "angular distance arccos(cos)/pi between the stream at two depths: mean over seeds", "", pairs},
           {"top_magnitudes", on + " site sublayer rank", "1", "largest |x| over all tokens and seeds", "",
            "several numbers per sublayer of every site; JSON has the largest as the statistic maximum"},
           {"finite_width", on + " depth", "1", "finite-width factor w of T19 (the term is c*w)",
            cell + "finite_width"},
           {"theory_replicates", on, "1", "replicates behind the prediction", cell + "theory/replicates"},
           {"theory_patterns", on, "1", "attention patterns drawn per head, forward", cell + "theory/patterns"},
           {"theory_patterns_back", on, "1", "attention patterns drawn, backward", cell + "theory/patterns_back"},
           {"theory_finite_width_replicates", on, "1", "replicates of T25's chain",
            cell + "theory/finite_width_replicates"},
           {"theory_refusal", on, "", "why there is no prediction", cell + "theory/refused"},
           {"theory_gradient_refusal", on, "", "why gradients are not predicted", cell + "theory/gradients_refused"},
           {"theory_imprecise", on, "",
            "predicted gradients and score shares whose standard error is larger than wanted "
            "(theory.gradient_tolerance)",
            "", "JSON has the entries of every curve"},
           {"diverged_seeds", on, "1", "seeds whose stream stopped being finite", cell + "diverged/seeds"},
           {"diverged_at", on, "1", "first sublayer at which one did", cell + "diverged/sublayer"},
           {"verdict", on, "", "agreement of measurement and theory (T19)", cell + "verdict"},
           {"verdict_reason", on, "", "why the verdict is inconclusive or was not given", cell + "reason"},
           {"worst_cell", on, "", "worst cell or contrast: its name", cell + "worst/name"},
           {"worst_statistic", on, "", "worst cell: its statistic", cell + "worst/statistic"},
           {"worst_place", on, "", "worst cell: its site or matrix", cell + "worst/site"},
           {"worst_index", on, "1", "worst cell: its depth, sublayer or layer", cell + "worst/index"},
           {"worst_z", on, "1", "worst cell: measured - predicted in combined standard errors", cell + "worst/z"},
           {"worst_excess", on, "1", "worst cell: standard errors beyond its allowance",
            cell + "worst/beyond_finite_width"},
           {"worst_critical", on, "1", "worst cell: where it would be rejected", cell + "worst/critical"},
           {"rejected", on, "1", "cells and contrasts that reject theory", cell + "rejected"},
           {"rejected_by", on, "", "cell that rejected theory", cell + "by"},
           {"power_worst", on, "1", power + ": the cell that could hide the largest", cell + "power/worst"},
           {"power_median", on, "1", power + ": median over cells", cell + "power/median"},
           {"statistic_power_worst", on + " statistic", "1", power + ": worst cell of a statistic",
            cell + "power/statistics/{statistic}/worst"},
           {"statistic_power_median", on + " statistic", "1", power + ": median over a statistic's cells",
            cell + "power/statistics/{statistic}/median"},
           {"statistic_power_limit", on + " statistic", "1", "what that may be in an agreement",
            cell + "power/statistics/{statistic}/limit"},
           {"statistic_power_at", on + " statistic", "", "that worst cell", cell + "power/statistics/{statistic}/at"},
           json_only("contrasts", cell + "contrasts", "contrasts over depth", "files have the dimension contrast"),
           {"contrast_name", on + " contrast", "", "contrast over depth", cell + "contrasts/[contrast]/name"},
           {"contrast_deviation", on + " contrast", "1", "its measured value, as a deviation from theory",
            cell + "contrasts/[contrast]/deviation"},
           {"contrast_stderr", on + " contrast", "1", "standard error of the deviation",
            cell + "contrasts/[contrast]/stderr"},
           {"contrast_allowance", on + " contrast", "1", "what it may be for free (T19)",
            cell + "contrasts/[contrast]/allowance"},
           {"contrast_excess", on + " contrast", "1", "standard errors beyond the allowance",
            cell + "contrasts/[contrast]/excess"},
           {"contrast_power", on + " contrast", "1", power, cell + "contrasts/[contrast]/power"}}) {
    all.push_back(std::move(column));
  }
  return all;
}

std::vector<double> z_scores(const Curve& measured, const Curve& predicted) {
  std::vector<double> z;
  for (std::size_t i = 0; i < measured.value.size(); ++i) {
    z.push_back(Cell{.measured = measured.value[i],
                     .measured_error = measured.standard_error[i],
                     .predicted = predicted.value[i],
                     .predicted_error = predicted.standard_error[i]}
                    .z());
  }
  return z;
}

/// Puts one stack's numbers.
class CellWriter {
 public:
  CellWriter(const StackResult& r, const RunOptions& run, Columns::Row row)
      : r_(r), run_(run), row_(std::move(row)), measured_(r.measurement ? &r.measurement->profile : nullptr) {}

  void put() const {
    row_.put("placement_value", resolved_json(r_.spec)["model"]["placement"]);
    row_.put("input_name", input_kind_names[static_cast<std::size_t>(r_.spec.input.kind)]);
    const Profile& listed = measured_ != nullptr ? *measured_ : r_.prediction.profile;
    for (const auto& item : listed.curves) {
      if (item.first.second == Signal::x_out) curve(row_, item.first.first, item.first.second);
    }
    for (const auto& item : listed.weight_curves) curve(row_, item.first.first, item.first.second);
    row_.put("sites", Json::object());
    for (const auto& item : listed.curves) {
      if (item.first.second != Signal::x_out) curve(row_, item.first.first, item.first.second);
    }
    for (const auto& [key, predicted] : r_.prediction.profile.curves) {
      if (listed.find(key.first, key.second) == nullptr) curve(row_.for_files(), key.first, key.second);
    }
    row_.put("angular_distance_predicted", r_.prediction.profile.angular_distance);
    theory();
    if (r_.measurement) measurement();
  }

 private:
  template <class Place>
  void curve(const Columns::Row& row, Statistic statistic, Place at) const {
    const CurvePlace place(row, statistic, at);
    const Curve* measured = measured_ == nullptr ? nullptr : measured_->find(statistic, at);
    const Curve* predicted = r_.prediction.profile.find(statistic, at);
    if constexpr (std::is_same_v<Place, Signal>) place.put("place", text_of(at));
    if (measured != nullptr) {
      place.put("measured", measured->value);
      place.put("stderr", measured->standard_error);
    }
    if (predicted != nullptr) {
      place.put("predicted", predicted->value);
      place.put("predicted_stderr", predicted->standard_error);
    }
    if constexpr (std::is_same_v<Place, Signal>) {
      const Curve* limit = r_.prediction.limit.find(statistic, at);
      if (r_.prediction.exact_at_width_for(statistic, at) && limit != nullptr) {
        place.put("predicted_limit", limit->value);
      }
    }
    if (measured != nullptr && predicted != nullptr) {
      std::vector<double> z = z_scores(*measured, *predicted);
      if (statistic == Statistic::grad_sq) use_compared(at, z);
      place.put("z", z);
    }
    const std::vector<std::size_t> entries = imprecise_entries(r_.prediction, statistic, predicted);
    if (!entries.empty()) place.put("imprecise", entries);
  }

  /// A verdict compares the logarithm of a squared gradient, whose mean over seeds a few large ones do not decide: the
  /// z beside the square is that one's, so that no z contradicts the verdict.
  template <class Place>
  void use_compared(Place at, std::vector<double>& z) const {
    for (const Cell& cell : r_.agreement.cells) {
      if (cell.statistic != Statistic::log_grad_sq || !cell.contrast.empty()) continue;
      const auto i = static_cast<std::size_t>(cell.index);
      if constexpr (std::is_same_v<Place, Signal>) {
        if (!cell.weight && cell.signal == at && i < z.size()) z[i] = cell.z();
      } else {
        if (cell.weight == at && i < z.size()) z[i] = cell.z();
      }
    }
  }

  /// In JSON only where there is something to say.
  void put_words(std::string_view column, const std::string& words) const {
    (words.empty() ? row_.for_files() : row_).put(column, words);
  }

  void theory() const {
    const theory::Prediction& p = r_.prediction;
    row_.put("finite_width", p.finite_width);
    row_.put("theory_replicates", p.replicates);
    row_.put("theory_patterns", p.samples);
    row_.put("theory_patterns_back", p.backward_samples);
    if (p.exact_at_width) row_.put("theory_finite_width_replicates", p.finite_width_replicates);
    put_words("theory_refusal", p.refusal);
    put_words("theory_gradient_refusal", p.gradient_refusal);
    row_.put("theory_imprecise", fmt::format("{}", fmt::join(imprecise_names(p), "; ")));
  }

  void measurement() const {
    const Measurement& m = *r_.measurement;
    row_.put("weights", weights_used(r_.spec, run_));
    row_.put("angular_distance_measured", m.profile.angular_distance);
    for (const auto& [signal, sublayers] : m.top) {
      for (std::size_t l = 0; l < sublayers.size(); ++l) {
        row_.at("site", site_of(signal)).at("sublayer", l).put("top_magnitudes", sublayers[l]);
      }
    }
    const Columns::Row diverged = m.diverged_seeds > 0 ? row_ : row_.for_files();
    diverged.put("diverged_seeds", m.diverged_seeds);
    diverged.put("diverged_at", m.diverged_at < 0 ? Json() : Json(m.diverged_at));
    row_.put("verdict", name_of(r_.agreement.verdict));
    put_words("verdict_reason", r_.agreement.reason);
    if (r_.agreement.worst < 0) return;
    worst();
    power();
    contrasts();
  }

  void worst() const {
    const Agreement& a = r_.agreement;
    const Cell& cell = a.cells[static_cast<std::size_t>(a.worst)];
    row_.put("worst_cell", cell.name());
    row_.put("worst_statistic", text_of(cell.statistic));
    row_.put("worst_place",
             cell.weight ? std::string(weight_names[static_cast<std::size_t>(*cell.weight)]) : text_of(cell.signal));
    row_.put("worst_index", cell.index);
    row_.put("worst_z", cell.z());
    row_.put("worst_excess", cell.excess());
    row_.put("worst_critical", a.critical);
    row_.put("rejected", a.rejected);
    put_words("rejected_by", a.by);
  }

  void power() const {
    const Agreement& a = r_.agreement;
    row_.put("power_worst", a.power.worst);
    row_.put("power_median", a.power.median);
    for (const StatisticPower& s : a.power.statistics) {
      const Columns::Row row = row_.at("statistic", static_cast<std::size_t>(s.statistic), text_of(s.statistic));
      row.put("statistic_power_worst", s.worst);
      row.put("statistic_power_median", s.median);
      row.put("statistic_power_limit", s.limit);
      row.put("statistic_power_at", a.cells[static_cast<std::size_t>(s.cell)].name());
    }
    for (const Cell& cell : a.cells) {
      const double smallest = cell.smallest_rejected(a.level);
      if (!cell.contrast.empty() || std::isnan(smallest)) continue;
      const auto at = static_cast<std::size_t>(cell.index);
      if (cell.weight) {
        if (cell.statistic != Statistic::log_grad_sq) continue;
        row_.at("weight", static_cast<std::size_t>(*cell.weight))
            .at("layer", at)
            .put("weight_log_grad_sq_power", smallest);
      } else if (std::ranges::find(compared_curves, std::pair(cell.statistic, cell.signal)) != compared_curves.end()) {
        row_.at(runs_over_depth(cell.signal) ? "depth" : "sublayer", at)
            .put(power_name(cell.statistic, cell.signal), smallest);
      }
    }
  }

  void contrasts() const {
    row_.put("contrasts", Json::array());
    std::size_t k = 0;
    for (const Cell& cell : r_.agreement.cells) {
      if (cell.contrast.empty()) continue;
      const Columns::Row row = row_.at("contrast", k++);
      row.put("contrast_name", cell.name());
      row.put("contrast_deviation", cell.measured);
      row.put("contrast_stderr", cell.error());
      row.put("contrast_allowance", cell.allowance);
      row.put("contrast_excess", cell.excess());
      row.put("contrast_power", cell.smallest_rejected(r_.agreement.level));
    }
  }

  const StackResult& r_;
  const RunOptions& run_;
  Columns::Row row_;
  const Profile* measured_;
};

/// The curves that some stack has are in the file in all versions, with NaN where theory refuses, or where what was
/// measured has none; and so is what a verdict rests on, where none is given.
void mention_all(Columns& columns, const std::vector<StackResult>& results) {
  std::set<std::string> stems;
  const auto look = [&](const Profile& profile) {
    for (const auto& item : profile.curves) {
      const std::string name = text_of(item.first.first);
      stems.insert("site_" + name);
      if (item.first.second == Signal::x_out) stems.insert(name);
    }
    for (const auto& item : profile.weight_curves) stems.insert("weight_" + text_of(item.first.first));
  };
  for (const StackResult& r : results) {
    look(r.prediction.profile);
    if (r.measurement) look(r.measurement->profile);
  }
  if (results.front().measurement) {
    for (const char* name : {"worst_excess", "worst_critical", "rejected_by", "power_worst", "power_median"}) {
      columns.mention(name);
    }
    if (stems.contains("weight_log_grad_sq")) columns.mention("weight_log_grad_sq_power");
  }
  for (const std::string& stem : stems) {
    for (const char* version : {"predicted", "predicted_stderr", "measured", "stderr"}) {
      if (version[0] != 'p' && !results.front().measurement) continue;
      columns.mention(stem + "_" + version);
    }
  }
}

}  // namespace

const Schema& schema() {
  static const Schema declared = [] {
    std::vector<DimensionSpec> dimensions{{"input", "", "what enters the stack"},
                                          {"placement", "", "normalization placement (T1)"}};
    std::ranges::move(curve_dimensions(), std::back_inserter(dimensions));
    dimensions.push_back({"statistic", "", "what is read"});
    dimensions.push_back({"contrast"});
    return Schema("stack", 1, std::move(dimensions), all_columns());
  }();
  return declared;
}

Columns columns(const Config& config, const std::vector<StackResult>& results) {
  Columns columns(schema(), provenance(config));
  const auto has_weights = [](const StackResult& r) {
    return !r.prediction.profile.weight_curves.empty() ||
           (r.measurement && !r.measurement->profile.weight_curves.empty());
  };
  put_curve_coordinates(columns, static_cast<std::size_t>(results.front().spec.model.sublayers()), top_count,
                        std::ranges::any_of(results, has_weights));
  columns.put("statistic", statistic_names);
  mention_all(columns, results);
  for (std::size_t i = 0; i < results.size(); ++i) {
    const StackResult& r = results[i];
    const std::size_t input = i / config.placements.size();
    const std::size_t placement = i % config.placements.size();
    columns.at("input", input).put("input", input_kind_names[static_cast<std::size_t>(r.spec.input.kind)]);
    columns.at("placement", placement).put("placement", placement_label(r.spec));
    CellWriter(r, config.run, columns.at("input", input).at("placement", placement).at("cell", i)).put();
  }
  return columns;
}

}  // namespace periscope::propagate
