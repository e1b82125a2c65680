#include <cmath>
#include <optional>

#include "experiments/engine/judge/tolerated_bias.h"
#include "experiments/engine/result/curves.h"
#include "experiments/engine/result/table.h"
#include "experiments/studies/probe/probe.h"
#include "sim/base/mapped.h"
#include "sim/numerics/number_format.h"

namespace periscope::probe {
namespace {

using dataset::Builder;
using dataset::Table;
using dataset::text_of;
using dataset::Type;

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

/// Stores one version of the curves of all signals, and of all matrices with measured gradients.
void put_version(const ProbeResult& r, const Builder::Row& row, const std::string& version, const Profile& profile) {
  const std::size_t branches = dataset::branches_of(r.at_init.model);
  for (const auto& [at, curve] : profile.curves) {
    if (std::holds_alternative<Weight>(at.second) && !r.measured.reading.profile.curves.contains(at)) continue;
    dataset::put_curve(row, at.first, at.second, version, curve.value, branches);
    if (version == "measured") continue;
    dataset::put_curve(row, at.first, at.second, version + "_stderr", curve.standard_error, branches);
  }
}

void put_curves(const ProbeResult& r, const Builder::Row& row) {
  put_version(r, row, "measured", r.measured.reading.profile);
  put_version(r, row, "at_init", r.initial.profile);
  put_version(r, row, "at_scales", r.nulls[stacks::matrices_null].predicted.profile);
  put_version(r, row, "at_profiles", r.nulls[stacks::rank_one_null].predicted.profile);
}

template <class T>
std::optional<T> if_not_empty(const T& value) {
  return value.empty() ? std::nullopt : std::optional(value);
}

/// Returns one end of the band expected for a random stack: theory ± (2 standard errors + finite-width term, T19).
/// The term is relative for moments, and a difference of logarithms for gradients. `side` is −1 (low) or 1 (high).
std::optional<std::vector<double>> end_of_band(const ProbeResult& r, Statistic statistic, double side) {
  const Curve* curve = r.initial.profile.find(statistic, Signal::x_out);
  if (curve == nullptr) return std::nullopt;
  const bool logarithmic = statistic == Statistic::grad_sq;
  const judge::WidthBias bias(r.at_init, r.initial.finite_width, r.agreement);
  std::vector<double> end;
  for (std::size_t i = 0; i < curve->value.size(); ++i) {
    const double value = curve->value[i];
    const double width = logarithmic ? bias.of_log_gradient(i, false) : bias.of_signal(statistic, Signal::x_out, i);
    const double half = 2.0 * curve->standard_error[i] / value + width;
    end.push_back(logarithmic ? value * std::exp(side * half) : value * (1.0 + side * half));
  }
  return end;
}

void add_bands(Table<ProbeResult>& table) {
  for (const Statistic s : {Statistic::variance, Statistic::grad_sq}) {
    for (const double side : {-1.0, 1.0}) {
      const std::string end = side < 0.0 ? "low" : "high";
      table.column_if_any(
          {text_of(s) + "_at_init_" + end, "depth", std::string(units_of(s)),
           end + " end of the band around the theory: 2 standard errors plus the finite-width term (T19)"},
          [s, side](const ProbeResult& r) { return end_of_band(r, s, side); });
    }
  }
}

std::vector<std::string> token_texts(const ProbeResult& r) {
  std::vector<std::string> texts;
  const auto& tokenizer = r.input.tokenizer;
  for (const int id : r.input.ids) texts.push_back(tokenizer == nullptr ? "" : stacks::escaped(tokenizer->piece(id)));
  return texts;
}

void add_tokens(Table<ProbeResult>& table) {
  using R = ProbeResult;
  table.column({"model", "", "", "name of the model"}, &R::model)
      .column({"family", "", "", "family of the checkpoint; empty for other weights"}, &R::family)
      .column({"tokenizer", "", "", "path, bytes or none"}, [](const R& r) { return r.input.tokenizer_name; })
      .column({"token_id", "token", "1", "id of the token"}, [](const R& r) { return r.input.ids; })
      .column({"token_text", "token", "", "text of the token"}, token_texts)
      .column({"label", "token", "1", "id to predict; -1: no label"}, [](const R& r) { return r.input.labels; })
      .column({"loss", "", "nat", "mean loss of the tokens that have a label"},
              [](const R& r) { return r.measured.loss; })
      .column({"token_loss", "token", "nat", "negative logarithm of the label's probability"},
              [](const R& r) { return r.measured.token_losses; })
      .column_if_any({"token_grad_sq_measured", "depth token", std::string(units_of(Statistic::grad_sq)),
                      "squared norm of the loss's gradient with respect to the stream at every token"},
                     [](const R& r) { return if_not_empty(r.measured.token_gradients); })
      .family({{"angular_distance_measured", "depth other_depth", "1",
                "angular distance arccos(cos)/pi between the stream at two depths, mean over at most 32 evenly spaced "
                "tokens"}},
              [](const R& r, const Builder::Row& row) {
                dataset::put_square(row, "angular_distance_measured", r.measured.reading.profile.angular_distance);
              });
}

/// Returns the excess over every null that was predicted or drawn, with the index of the null.
std::vector<std::pair<std::size_t, NullExcess>> nulls_of(const ProbeResult& r) {
  std::vector<std::pair<std::size_t, NullExcess>> all;
  for (std::size_t i = 0; i < stacks::size_nulls.size() && growth_split(r); ++i) {
    if (!r.nulls[i].drawn.log_moment.empty() || stacks::size_nulls[i].preserved) all.emplace_back(i, null_excess(r, i));
  }
  return all;
}

void add_split(Table<ProbeResult>& table) {
  Table<NullExcess> nulls;
  nulls.column({"null_draws", "null", "1", "number of random models drawn"}, &NullExcess::draws)
      .column({"null_left_over", "null depth", "nat",
               "log of the stream's measured second moment over the null's, which is predicted or, for the null signs, "
               "the geometric mean of the draws"},
              &NullExcess::value)
      .column_if_any({"null_left_over_error", "null depth", "nat",
                      "root mean square of null_left_over in random models drawn from the null"},
                     [](const NullExcess& n) { return n.draws > 0 ? std::optional(n.error) : std::nullopt; });
  Table<GrowthSplit> parts;
  parts
      .column({"log_growth_from_scales", "depth", "nat",
               "log of the stream's second moment with the model's root mean squares of matrices and gains over its "
               "value at initialisation"},
              &GrowthSplit::from_scales)
      .column({"log_growth_from_sizes_inside", "depth", "nat",
               "log of the stream's second moment with rank-one profiles (scale of every row and column; embedding "
               "tables: rows in use) over its value with the matrices' root mean squares (T29)"},
              &GrowthSplit::from_sizes_inside)
      .column({"log_growth_from_alignment", "depth", "nat",
               "log of the stream's measured second moment over its value with random weights of these profiles"},
              [](const GrowthSplit& g) { return g.from_alignment.value; });
  table.part(parts, growth_split).rows_at("null", nulls, nulls_of);
}

void add_growth(Table<ProbeResult>& table) {
  using G = Growth;
  using R = ProbeResult;
  const std::string mean = ", mean over tokens (T15)";
  const auto over = [](double G::*a, double G::*b) { return [=](const G& g) { return g.*a / g.*b; }; };
  Table<G> identity;
  identity.column({"growth_stream", "sublayer", "1", "alpha^2 E[x^2] before the sublayer" + mean}, &G::stream)
      .column({"growth_branch", "sublayer", "1", "beta^2 E[b^2] of the branch" + mean}, &G::branch)
      .column({"growth_cross", "sublayer", "1", "2 alpha beta E[x b], which the paper's Eq. 4 omits" + mean}, &G::cross)
      .column({"growth_sum", "sublayer", "1", "E[x^2] after the addition, before norm C" + mean}, &G::sum)
      .column({"growth_stream_share", "sublayer", "1", "growth_stream over growth_sum"}, over(&G::stream, &G::sum))
      .column({"growth_branch_share", "sublayer", "1", "growth_branch over growth_sum"}, over(&G::branch, &G::sum))
      .column({"growth_cross_share", "sublayer", "1", "growth_cross over growth_sum"}, over(&G::cross, &G::sum))
      .column({"growth_cross_over_branch", "sublayer", "1", "error of the paper's Eq. 4: growth_cross / growth_branch"},
              over(&G::cross, &G::branch))
      .column({"growth_residual", "sublayer", "1",
               "largest violation of the identity (T15) over tokens, in units of the rounding bound"},
              &G::residual);
  table.rows("sublayer", identity, [](const R& r) { return r.measured.growth; })
      .column({"growth_violated", "", "1", "1: the growth identity (T15) is violated beyond rounding in some sublayer"},
              [](const R& r) { return violates_growth_identity(r.measured); })
      .column({"branch_from_gains", "sublayer", "1", "beta^2 E[b^2] from norm B's gains (and biases) alone"},
              [](const R& r) { return r.measured.branch_from_gains; });
}

/// Returns the largest |x| of every signal at every sublayer.
std::vector<double> maxima(const ProbeResult& r) {
  std::vector<double> all;
  for (const SignalPeaks& signal : signal_peaks(r.measured)) {
    const bool over_depth = runs_over_depth(signal.signal);
    std::ranges::copy(over_depth ? by_sublayer(r.measured, signal.values) : signal.values, std::back_inserter(all));
  }
  return all;
}

std::vector<double> margins(const ProbeResult& r) {
  std::vector<double> all;
  for (const NumberFormat& format : number_formats) {
    for (const double largest : maxima(r)) all.push_back(format.largest / largest);
  }
  return all;
}

void add_extremes(Table<ProbeResult>& table) {
  using R = ProbeResult;
  const std::string on = "depth rank";
  Table<Entry> entries;
  entries.column({"extreme_token", on, "1", "tokens of the largest stream entries"}, &Entry::row)
      .column({"extreme_feature", on, "1", "features of the largest stream entries"}, &Entry::col)
      .column({"extreme_value", on, "1", "largest stream entries by |x|, with sign"}, &Entry::value);
  Table<StreamExtremes> extremes;
  extremes
      .column({"median_magnitude", "depth", "1", "median of |x| of the stream over all tokens and features"},
              &StreamExtremes::median)
      .rows("rank", entries, &StreamExtremes::top)
      .column({"extreme_over_median", on, "1", "|extreme_value| over median_magnitude"}, [](const StreamExtremes& e) {
        return mapped(e.top, [&](const Entry& entry) { return std::abs(entry.value) / e.median; });
      });
  table.rows("depth", extremes, [](const R& r) { return r.measured.extremes.depths; })
      .column_if_any({"attention_logit_maximum", "layer head", "1",
                      "largest |logit| entering the softmax, over all tokens and the keys that they see"},
                     [](const R& r) { return if_not_empty(r.measured.extremes.scores); })
      .column_if_any(
          {"qk_clip_factor", "layer head", "1",
           "min(1, 100 / attention_logit_maximum), by which QK-clip scales the head's logits at the threshold "
           "of Kimi K2"},
          [](const R& r) { return if_not_empty(mapped(r.measured.extremes.scores, qk_clip_factor)); })
      .column({"signal_maximum", "signal sublayer", "1", "max |x| over all tokens and features"}, maxima)
      .column({"format_largest", "format", "1", "largest finite number of the format"},
              [](const R&) { return mapped(number_formats, &NumberFormat::largest); })
      .column({"margin", "format signal sublayer", "1", "a format's largest number over max |x|"}, margins);
}

void add_remarks(Table<ProbeResult>& table) {
  using R = ProbeResult;
  table
      .column_if_any({"theory_unsupported", "", "", "why there is no prediction"},
                     [](const R& r) { return if_not_empty(r.initial.unsupported); })
      .column_if_any({"scales_theory_unsupported", "", "", "why there is no prediction at the model's own scales"},
                     [](const R& r) { return if_not_empty(r.nulls[stacks::matrices_null].predicted.unsupported); })
      .column_if_any({"gradient_theory_unsupported", "", "", "why there is no prediction of gradients"},
                     [](const R& r) { return if_not_empty(r.initial.gradient_unsupported); })
      .column_if_any({"diverged_at", "", "1", "first sublayer whose stream is not finite"},
                     [](const R& r) {
                       const int at = r.measured.reading.diverged_at;
                       return at >= 0 ? std::optional(at) : std::nullopt;
                     })
      .column_if_any({"not_finite", "", "", "first signal, gradient or loss that is not finite"},
                     [](const R& r) { return if_not_empty(not_finite(r)); })
      .column({"notes", "note", "", "remarks on the run"}, &R::notes);
}

Table<ProbeResult> table_of_all() {
  Table<ProbeResult> table;
  table.family(curves(), put_curves);
  for (const auto& add : {add_bands, add_tokens, add_split, add_growth, add_extremes, add_remarks}) add(table);
  return table;
}

}  // namespace

const dataset::Schema& schema() {
  static const dataset::Schema declared = [] {
    std::vector<dataset::DimensionSpec> dimensions = dataset::curve_dimensions();
    dimensions.push_back({"token", Type::integer, "1", "position in the sequence"});
    dimensions.push_back({"signal", Type::text, "", "place in the dataflow, also inside a module"});
    dimensions.push_back({"format", Type::text, "", "number format"});
    dimensions.push_back({"null", Type::text, "", "distribution of random weights with which the model is compared"});
    dimensions.push_back({"head", Type::integer, "1", "query head of a layer, from 0"});
    dimensions.push_back({"note"});
    return dataset::Schema("probe", 8, std::move(dimensions), table_of_all().specs());
  }();
  return declared;
}

dataset::Dataset dataset_of(const ProbeResult& result) {
  Builder builder(schema());
  dataset::put_curve_coordinates(builder, {result.at_init}, result.measured.extremes.depths.front().top.size());
  builder.count("token", result.input.ids.size());
  builder.count("head", static_cast<std::size_t>(result.at_init.model.heads));
  builder.put("signal",
              mapped(signal_peaks(result.measured), [](const SignalPeaks& peaks) { return name_of(peaks.signal); }));
  for (std::size_t f = 0; f < number_formats.size(); ++f) builder.at("format", f).put("format", number_formats[f].name);
  for (std::size_t i = 0; i < stacks::size_nulls.size(); ++i)
    builder.at("null", i).put("null", stacks::size_nulls[i].name);
  table_of_all().put(result, builder.row());
  return builder.finish();
}

}  // namespace periscope::probe
