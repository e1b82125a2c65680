#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <optional>

#include "experiments/engine/judge/gradient_allowance.h"
#include "experiments/engine/result/curves.h"
#include "experiments/studies/probe/dataset_tables.h"
#include "sim/numerics/number_format.h"

namespace periscope::probe {

std::string token_text(const stacks::TokenInput& input, int id) {
  return input.tokenizer == nullptr ? "" : stacks::visible(input.tokenizer->piece(id));
}

namespace {

using dataset::Builder;
using dataset::Table;
using dataset::text_of;
using dataset::Type;

/// The statistics for which theory at initialisation has a band.
constexpr std::array banded{Statistic::second_moment, Statistic::variance, Statistic::grad_sq};

const Profile& at_scales(const ProbeResult& r) { return r.nulls[stacks::matrices_null].predicted.profile; }
const Profile& at_profiles(const ProbeResult& r) { return r.nulls[stacks::rank_one_null].predicted.profile; }

std::vector<dataset::ColumnSpec> curves() {
  return dataset::curve_columns("", {{"measured", "measured"},
                                     {"at_init", "theory at initialisation"},
                                     {"at_init_stderr", "standard error of theory at initialisation"},
                                     {"at_scales", "theory of random weights at the model's own scales"},
                                     {"at_scales_stderr", "standard error of at_scales"},
                                     {"at_profiles",
                                      "theory of random weights with the model's scale of every row and column (T29); "
                                      "embedding tables: of the rows in use"},
                                     {"at_profiles_stderr", "standard error of at_profiles"}});
}

template <class At>
void put_versions(const ProbeResult& r, const Builder::Row& row, Statistic statistic, At at) {
  const auto put = [&](const std::string& version, const std::vector<double>& values) {
    dataset::put_curve(row, statistic, at, version, values, dataset::branches_of(r.at_init.model));
  };
  if (const Curve* measured = r.measured.reading.profile.find(statistic, at)) put("measured", measured->value);
  const auto put_predicted = [&](const std::string& version, const Profile& profile) {
    const Curve* predicted = profile.find(statistic, at);
    if (predicted == nullptr) return;
    put(version, predicted->value);
    put(version + "_stderr", predicted->standard_error);
  };
  put_predicted("at_init", r.initial.profile);
  put_predicted("at_scales", at_scales(r));
  put_predicted("at_profiles", at_profiles(r));
}

/// Puts the curves of all signals that were measured or predicted, and of all matrices whose gradients were measured.
void put_curves(const ProbeResult& r, const Builder::Row& row) {
  const Profile& measured = r.measured.reading.profile;
  for (const auto& item : measured.curves) put_versions(r, row, item.first.first, item.first.second);
  for (const auto& item : measured.weight_curves) put_versions(r, row, item.first.first, item.first.second);
  for (const Profile* predicted : {&r.initial.profile, &at_scales(r), &at_profiles(r)}) {
    for (const auto& item : predicted->curves) {
      if (!measured.curves.contains(item.first)) put_versions(r, row, item.first.first, item.first.second);
    }
  }
}

/// An end of the band in which a random stack may be: 2 standard errors and T19's finite-width term away from theory,
/// which is relative for moments and a difference of logarithms for gradients. `side` is -1 below theory, 1 above.
std::optional<std::vector<double>> end_of_band(const ProbeResult& r, Statistic statistic, double side) {
  const Curve* curve = r.initial.profile.find(statistic, Signal::x_out);
  if (curve == nullptr) return std::nullopt;
  const bool logarithmic = statistic == Statistic::grad_sq;
  std::vector<double> end;
  for (std::size_t i = 0; i < curve->value.size(); ++i) {
    const double value = curve->value[i];
    const double width = logarithmic ? r.agreement.finite_width_gradient *
                                           judge::gradient_width_term(r.at_init, r.initial.finite_width, i, false)
                                     : r.agreement.finite_width * r.initial.finite_width[i];
    const double half = 2.0 * curve->standard_error[i] / value + width;
    end.push_back(logarithmic ? value * std::exp(side * half) : value * (1.0 + side * half));
  }
  return end;
}

Table<ProbeResult> bands_table() {
  Table<ProbeResult> table;
  for (const Statistic s : banded) {
    for (const bool is_low : {true, false}) {
      const std::string end = is_low ? "low" : "high";
      table.column_if_any({text_of(s) + "_at_init_" + end, "depth", std::string(units_of(s)),
                           end + " end of theory's band: 2 standard errors and the finite-width term of T19"},
                          [s, side = is_low ? -1.0 : 1.0](const ProbeResult& r) { return end_of_band(r, s, side); });
    }
  }
  return table;
}

std::vector<std::string> token_texts(const ProbeResult& r) {
  std::vector<std::string> texts;
  for (const int id : r.input.ids) texts.push_back(token_text(r.input, id));
  return texts;
}

std::optional<std::vector<double>> angular_distance(const ProbeResult& r) {
  const std::vector<double>& measured = r.measured.reading.profile.angular_distance;
  const std::size_t depths = r.measured.growth.size() + 1;
  return measured.size() == depths * depths ? std::optional(measured) : std::nullopt;
}

/// Returns the columns of the model, the tokens and labels that it read, and its loss on them.
Table<ProbeResult> tokens_table() {
  using R = ProbeResult;
  Table<R> table;
  table.column({"model", "", "", "what the model is called"}, &R::model)
      .column({"family", "", "", "of checkpoints; nothing for other weights"}, &R::family)
      .column({"tokenizer", "", "", "what the tokens come from"}, [](const R& r) { return r.input.tokenizer_name; })
      .column({"token_id", "token", "1", "what the model reads"}, [](const R& r) { return r.input.ids; })
      .column({"token_text", "token", "", "what the id stands for"}, token_texts)
      .column({"label", "token", "1", "what the model is to predict; -1: nothing"},
              [](const R& r) { return r.input.labels; })
      .column({"loss", "", "nat", "mean loss of the tokens that have a label"},
              [](const R& r) { return r.measured.loss; })
      .column({"perplexity", "", "1", "exp(loss)"}, [](const R& r) { return std::exp(r.measured.loss); })
      .column({"token_loss", "token", "nat", "negative logarithm of the label's probability"},
              [](const R& r) { return r.measured.token_losses; })
      .column_if_any({"angular_distance_measured", "depth other_depth", "1",
                      "angular distance arccos(cos)/pi between the stream at two depths, mean over at most 32 evenly "
                      "spaced tokens"},
                     angular_distance);
  return table;
}

std::optional<std::string> if_said(const std::string& words) {
  return words.empty() ? std::nullopt : std::optional(words);
}

/// Returns the columns of remarks: predictions that are missing and why, numbers that are not finite, and notes.
Table<ProbeResult> remarks_table() {
  using R = ProbeResult;
  Table<R> table;
  table
      .column_if_any({"theory_refusal", "", "", "why there is no prediction"},
                     [](const R& r) { return if_said(r.initial.refusal); })
      .column_if_any({"scales_theory_refusal", "", "", "why there is no prediction at the model's own scales"},
                     [](const R& r) { return if_said(r.nulls[stacks::matrices_null].predicted.refusal); })
      .column_if_any({"gradient_theory_refusal", "", "", "why there is none of gradients"},
                     [](const R& r) { return if_said(r.initial.gradient_refusal); })
      .column_if_any({"diverged_at", "", "1", "first sublayer whose stream is not finite"},
                     [](const R& r) {
                       const int at = r.measured.reading.diverged_at;
                       return at >= 0 ? std::optional(at) : std::nullopt;
                     })
      .column_if_any({"not_finite", "", "", "first signal, gradient or loss that is not finite"},
                     [](const R& r) { return if_said(not_finite(r)); })
      .column({"notes", "note", "", "what else there is to know"}, &R::notes);
  return table;
}

/// All columns.
const Table<ProbeResult>& table_of_all() {
  static const Table<ProbeResult> all = [] {
    const auto itself = [](const ProbeResult& r) { return &r; };
    Table<ProbeResult> table;
    table.family(curves(), put_curves)
        .part(bands_table(), itself)
        .part(tokens_table(), itself)
        .part(growth_table(), itself)
        .part(extremes_table(), itself)
        .part(remarks_table(), itself);
    return table;
  }();
  return all;
}

}  // namespace

const dataset::Schema& schema() {
  static const dataset::Schema declared = [] {
    std::vector<dataset::DimensionSpec> dimensions = dataset::curve_dimensions();
    dimensions.push_back({"token", Type::integer, "1", "position in the sequence"});
    dimensions.push_back({"signal", Type::text, "", "place in the dataflow, also inside a module"});
    dimensions.push_back({"format", Type::text, "", "number format"});
    dimensions.push_back({"null", Type::text, "", "law of random weights that the model is held against"});
    dimensions.push_back({"note"});
    return dataset::Schema("probe", 5, std::move(dimensions), table_of_all().specs());
  }();
  return declared;
}

dataset::Dataset dataset_of(const ProbeResult& result) {
  Builder builder(schema());
  const ModelSpec& model = result.at_init.model;
  std::span<const Weight> weights;
  if (!result.measured.reading.profile.weight_curves.empty()) weights = dataset::weights_of_curves({result.at_init});
  dataset::put_curve_coordinates(builder, model, model.depths(), result.measured.extremes.front().top.size(), weights);
  builder.count("token", result.input.ids.size());
  std::vector<std::string> signals;
  for (const SignalPeaks& peaks : signal_peaks(result.measured)) signals.push_back(peaks.name());
  builder.put("signal", signals);
  for (std::size_t f = 0; f < number_formats.size(); ++f) builder.at("format", f).put("format", number_formats[f].name);
  for (std::size_t i = 0; i < stacks::size_nulls.size(); ++i)
    builder.at("null", i).put("null", stacks::size_nulls[i].name);
  table_of_all().put(result, builder.row());
  return builder.finish();
}

}  // namespace periscope::probe
