#include <cmath>

#include "experiments/core/dataset/curve_columns.h"
#include "experiments/core/judge/gradient_allowance.h"
#include "experiments/studies/probe/probe.h"
#include "sim/numerics/number_format.h"

namespace periscope::probe {
namespace {

using Json = Columns::Json;
using Values = std::vector<double>;

/// The statistics for which theory at initialisation has a band.
constexpr std::array banded{Statistic::second_moment, Statistic::variance, Statistic::grad_sq};

std::string band_name(Statistic s) { return std::string(name_of(s)) + "_at_init_"; }

class Writer {
 public:
  Writer(const ProbeResult& result, Columns& columns)
      : r_(result), c_(columns), sublayers_(result.measured.growth.size()), maxima_(signal_peaks(result.measured)) {}

  void put() const {
    coordinates();
    head();
    curves();
    for (const Statistic s : banded) band(s);
    split();
    growth();
    extremes();
    margins();
    tail();
  }

 private:
  void coordinates() const {
    put_curve_coordinates(c_, sublayers_, r_.measured.extremes.front().top.size(),
                          !r_.measured.reading.profile.weight_curves.empty());
    c_.count("token", r_.input.ids.size());
    for (std::size_t s = 0; s < maxima_.size(); ++s) c_.at("signal", s).put("signal", maxima_[s].name());
    for (std::size_t f = 0; f < number_formats.size(); ++f) c_.at("format", f).put("format", number_formats[f].name);
    for (std::size_t i = 0; i < size_nulls.size(); ++i) c_.at("null", i).put("null", size_nulls[i].name);
  }

  void head() const {
    const ModelSpec& m = r_.at_init.model;
    c_.put("model", r_.model);
    c_.put("family", r_.family);
    c_.put("placement_value", resolved_json(r_.at_init)["model"]["placement"]);
    c_.put("layers", m.layers);
    c_.put("width", m.width);
    c_.put("dtype", name_of(r_.dtype));
    c_.put("tokenizer", r_.input.tokenizer_name);
    c_.put("token_id", r_.input.ids);
    for (std::size_t t = 0; t < r_.input.ids.size(); ++t) c_.at("token", t).put("token_text", text_of(r_.input.ids[t]));
    c_.put("label", r_.input.labels);
    c_.put("loss", r_.measured.loss);
    c_.put("perplexity", std::exp(r_.measured.loss));
    c_.put("token_loss", r_.measured.token_losses);
  }

  [[nodiscard]] std::string text_of(int id) const {
    return r_.input.tokenizer == nullptr ? "" : visible(r_.input.tokenizer->piece(id));
  }

  void curves() const {
    const Profile& measured = r_.measured.reading.profile;
    for (const auto& [key, value] : measured.curves) {
      if (key.second == Signal::x_out) curve(c_.row(), key.first, key.second);
    }
    for (const auto& [key, value] : measured.weight_curves) curve(c_.row(), key.first, key.second);
    c_.put("sites", Json::object());
    for (const auto& [key, value] : measured.curves) {
      if (key.second != Signal::x_out) curve(c_.row(), key.first, key.second);
    }
    for (const Profile* predicted : {&r_.initial.profile, &at_scales(), &at_profiles()}) {
      for (const auto& [key, value] : predicted->curves) {
        if (measured.find(key.first, key.second) == nullptr) curve(c_.row().for_files(), key.first, key.second);
      }
    }
    if (measured.angular_distance.size() == (sublayers_ + 1) * (sublayers_ + 1)) {
      c_.put("angular_distance_measured", measured.angular_distance);
    }
  }

  template <class Place>
  void curve(const Columns::Row& row, Statistic statistic, Place at) const {
    const CurvePlace place(row, statistic, at);
    const Curve* measured = r_.measured.reading.profile.find(statistic, at);
    const Curve* initial = r_.initial.profile.find(statistic, at);
    if constexpr (std::is_same_v<Place, Signal>) place.put("place", name_of(at));
    if (measured != nullptr) place.put("measured", measured->value);
    const auto put_predicted = [&](const std::string& version, const Curve* curve) {
      if (curve == nullptr) return;
      place.put(version, curve->value);
      place.put(version + "_stderr", curve->standard_error);
    };
    put_predicted("at_init", initial);
    put_predicted("at_scales", at_scales().find(statistic, at));
    put_predicted("at_profiles", at_profiles().find(statistic, at));
  }

  /// Between which values a random stack may be: 2 standard errors and T19's finite-width term away from theory, which
  /// is relative for moments and a difference of logarithms for gradients.
  void band(Statistic statistic) const {
    const Curve* curve = r_.initial.profile.find(statistic, Signal::x_out);
    if (curve == nullptr) return;
    const bool logarithmic = statistic == Statistic::grad_sq;
    Values low;
    Values high;
    for (std::size_t i = 0; i < curve->value.size(); ++i) {
      const double value = curve->value[i];
      const double width = logarithmic ? r_.agreement.finite_width_gradient *
                                             gradient_width_term(r_.at_init, r_.initial.finite_width, i, false)
                                       : r_.agreement.finite_width * r_.initial.finite_width[i];
      const double half = 2.0 * curve->standard_error[i] / value + width;
      low.push_back(logarithmic ? value * std::exp(-half) : value * (1.0 - half));
      high.push_back(logarithmic ? value * std::exp(half) : value * (1.0 + half));
    }
    c_.put(band_name(statistic) + "low", low);
    c_.put(band_name(statistic) + "high", high);
  }

  void split() const {
    if (r_.initial.profile.curves.empty() || at_scales().curves.empty() || at_profiles().curves.empty()) return;
    const std::vector<GrowthSplit> all = growth_split(r_);
    for (std::size_t depth = 0; depth < all.size(); ++depth) {
      const Columns::Row row = c_.at("depth", depth);
      row.put("log_growth_from_scales", all[depth].from_scales);
      row.put("log_growth_from_sizes_inside", all[depth].from_sizes_inside);
      row.put("log_growth_from_alignment", all[depth].from_alignment);
      if (r_.nulls[rank_one_null].drawn.draws > 0) row.put("log_growth_alignment_error", all[depth].alignment_error);
    }
    for (std::size_t i = 0; i < size_nulls.size(); ++i) put_null(i);
  }

  void put_null(std::size_t null) const {
    const bool drawn = r_.nulls[null].drawn.draws > 0;
    if (!drawn && !size_nulls[null].kept) return;
    const std::vector<LeftOver> all = left_over(r_, null);
    const Columns::Row row = c_.at("null", null, size_nulls[null].name);
    row.put("null_meaning", size_nulls[null].meaning);
    row.put("null_draws", r_.nulls[null].drawn.draws);
    for (std::size_t depth = 0; depth < all.size(); ++depth) {
      const Columns::Row at_depth = row.at("depth", depth);
      at_depth.put("null_left_over", all[depth].value);
      if (!drawn) continue;
      at_depth.put("null_left_over_error", all[depth].error);
      at_depth.put("null_drawn_mean", r_.nulls[null].drawn.mean(depth));
    }
  }

  void growth() const {
    for (std::size_t l = 0; l < sublayers_; ++l) {
      const Growth& g = r_.measured.growth[l];
      const Columns::Row row = c_.at("sublayer", l);
      row.put("growth_stream", g.stream);
      row.put("growth_branch", g.branch);
      row.put("growth_cross", g.cross);
      row.put("growth_sum", g.sum);
      row.put("growth_stream_share", g.stream / g.sum);
      row.put("growth_branch_share", g.branch / g.sum);
      row.put("growth_cross_share", g.cross / g.sum);
      row.put("growth_cross_over_branch", g.cross / g.branch);
      row.put("growth_residual", g.residual);
    }
    c_.put("growth_violated", violates_growth_identity(r_.measured));
    c_.put("branch_from_gains", r_.measured.branch_from_gains);
  }

  void extremes() const {
    for (std::size_t depth = 0; depth < r_.measured.extremes.size(); ++depth) {
      const StreamExtremes& e = r_.measured.extremes[depth];
      const Columns::Row at_depth = c_.at("depth", depth);
      at_depth.put("median_magnitude", e.median);
      for (std::size_t k = 0; k < e.top.size(); ++k) {
        const Entry& entry = e.top[k];
        const int id = r_.input.ids[static_cast<std::size_t>(entry.row)];
        const Columns::Row row = at_depth.at("rank", k);
        row.put("extreme_token", entry.row);
        row.put("extreme_id", id);
        if (r_.input.tokenizer != nullptr) row.put("extreme_text", text_of(id));
        row.put("extreme_feature", entry.col);
        row.put("extreme_value", entry.value);
        row.put("extreme_over_median", std::abs(entry.value) / e.median);
        row.put("extreme_is_massive", is_massive(entry, e.median));
      }
    }
  }

  /// JSON has x_out and r_out with the stack's input, files from the first sublayer on.
  void margins() const {
    const auto of_sublayers = [this](const Values& values) {
      return Values(values.end() - static_cast<std::ptrdiff_t>(sublayers_), values.end());
    };
    for (std::size_t s = 0; s < maxima_.size(); ++s) {
      c_.at("signal", s).put("signal_maximum", of_sublayers(maxima_[s].values));
    }
    for (std::size_t f = 0; f < number_formats.size(); ++f) {
      const NumberFormat& format = number_formats[f];
      const Columns::Row row = c_.at("format", f, format.name);
      const Margin smallest = smallest_margin(maxima_, format.largest);
      row.put("format_largest", format.largest);
      row.put("smallest_margin", smallest.value);
      row.put("smallest_margin_signal", smallest.signal);
      row.put("smallest_margin_index", smallest.index);
      for (std::size_t s = 0; s < maxima_.size(); ++s) {
        Values margin;
        for (const double largest : maxima_[s].values) margin.push_back(format.largest / largest);
        const Columns::Row of_signal = row.at("signal", s, maxima_[s].name());
        of_signal.for_json().put("margin", margin);
        of_signal.for_files().put("margin", of_sublayers(margin));
      }
    }
  }

  void tail() const {
    Json init = resolved_json(r_.at_init)["init"];
    init["table_second_moment"] = r_.at_init.input.second_moment;
    c_.put("init", std::move(init));
    if (!r_.initial.refusal.empty()) c_.put("theory_refusal", r_.initial.refusal);
    const std::string& refusal = r_.nulls[matrices_null].predicted.refusal;
    if (!refusal.empty()) c_.put("scales_theory_refusal", refusal);
    if (!r_.initial.gradient_refusal.empty()) c_.put("gradient_theory_refusal", r_.initial.gradient_refusal);
    if (r_.measured.reading.diverged_at >= 0) c_.put("diverged_at", r_.measured.reading.diverged_at);
    if (const std::string what = not_finite(r_); !what.empty()) c_.put("not_finite", what);
    c_.put("notes", r_.notes);
  }

  [[nodiscard]] const Profile& at_scales() const { return r_.nulls[matrices_null].predicted.profile; }
  [[nodiscard]] const Profile& at_profiles() const { return r_.nulls[rank_one_null].predicted.profile; }

  const ProbeResult& r_;
  Columns& c_;
  std::size_t sublayers_;
  std::vector<SignalPeaks> maxima_;
};

std::vector<ColumnSpec> all_columns() {
  const std::string configured = "files have it in their configuration";
  const std::string share = "follows from growth_sum";
  const std::string band = "a band for the figure";
  const std::string mean = ", mean over tokens (T15)";
  const std::string top = "massive/[depth]/top/[rank]/";
  std::vector<ColumnSpec> all = curve_columns("", "",
                                              {{"measured", "measured"},
                                               {"at_init", "theory at initialisation"},
                                               {"at_init_stderr", "standard error of theory at initialisation"},
                                               {"at_scales", "theory of random weights at the model's own scales"},
                                               {"at_scales_stderr", "standard error of at_scales"},
                                               {"at_profiles",
                                                "theory of random weights at the model's own scales of "
                                                "every row and column (T29)"},
                                               {"at_profiles_stderr", "standard error of at_profiles"}});
  for (const Statistic s : banded) {
    const std::string units(units_of(s));
    for (const char* end : {"low", "high"}) {
      all.push_back({band_name(s) + end, "depth", units,
                     std::string(end) + " end of theory's band: 2 standard errors and the finite-width term of T19", "",
                     band});
    }
  }
  for (ColumnSpec& column : std::vector<ColumnSpec>{
           {"model", "", "", "what the model is called", "model"},
           {"family", "", "", "of checkpoints; nothing for other weights", "family"},
           json_only("placement_value", "placement", "name or table of the placement", configured),
           json_only("layers", "layers", "L", configured),
           json_only("width", "width", "D", configured),
           json_only("dtype", "dtype", "number format of the run", configured),
           {"tokenizer", "", "", "what the tokens come from", "tokenizer"},
           {"token_id", "token", "1", "what the model reads", "tokens"},
           {"token_text", "token", "", "what the id stands for", "", "JSON has the text of the largest entries"},
           {"label", "token", "1", "what the model is to predict; -1: nothing", "labels"},
           {"loss", "", "nat", "mean loss of the tokens that have a label", "loss"},
           {"perplexity", "", "1", "exp(loss)", "perplexity"},
           {"token_loss", "token", "nat", "negative logarithm of the label's probability", "token_loss"},
           json_only("sites", "sites", "the curves of all sites but x_out", "files have the dimension site"),
           {"angular_distance_measured", "depth other_depth", "1",
            "angular distance arccos(cos)/pi between the stream at two depths", "",
            "a number for every pair of depths"},
           {"log_growth_from_scales", "depth", "nat",
            "log of the stream's second moment at the matrices' own root mean squares and gains over that at "
            "initialisation",
            "log_growth/from_scales/[depth]"},
           {"log_growth_from_sizes_inside", "depth", "nat",
            "log of the stream's second moment at profiles of rank one, every row's and column's own size, over that "
            "at the matrices' (T29)",
            "log_growth/from_sizes_inside/[depth]"},
           {"log_growth_from_alignment", "depth", "nat",
            "log of the stream's measured second moment over that of random weights with these profiles",
            "log_growth/from_alignment/[depth]"},
           {"log_growth_alignment_error", "depth", "nat",
            "what random models of the model's own width with these profiles have for it, root mean square over draws",
            "log_growth/alignment_error/[depth]"},
           {"null_meaning", "null", "", "what random weights of the null have of the model's own",
            "log_growth/nulls/{null}/keeps"},
           {"null_draws", "null", "1", "random models that were drawn", "log_growth/nulls/{null}/draws"},
           {"null_left_over", "null depth", "nat",
            "log of the stream's measured second moment over the null's: theory's, of the last one the draws' "
            "geometric mean",
            "log_growth/nulls/{null}/left_over/[depth]"},
           {"null_left_over_error", "null depth", "nat", "what models of the null have for it, root mean square",
            "log_growth/nulls/{null}/error/[depth]"},
           {"null_drawn_mean", "null depth", "nat", "mean over the draws of the log of the stream's second moment",
            "log_growth/nulls/{null}/drawn_mean/[depth]"},
           {"growth_stream", "sublayer", "1", "alpha^2 E[x^2] before the sublayer" + mean, "growth/stream/[sublayer]"},
           {"growth_branch", "sublayer", "1", "beta^2 E[b^2] of the branch" + mean, "growth/branch/[sublayer]"},
           {"growth_cross", "sublayer", "1", "2 alpha beta E[x b], the term that Eq. 4 leaves out" + mean,
            "growth/cross/[sublayer]"},
           {"growth_sum", "sublayer", "1", "E[x^2] after the addition, before norm C" + mean, "growth/sum/[sublayer]"},
           {"growth_stream_share", "sublayer", "1", "growth_stream over growth_sum", "", share},
           {"growth_branch_share", "sublayer", "1", "growth_branch over growth_sum", "", share},
           {"growth_cross_share", "sublayer", "1", "growth_cross over growth_sum", "", share},
           {"growth_cross_over_branch", "sublayer", "1", "Eq. 4's failure: growth_cross over growth_branch",
            "growth/cross_over_branch/[sublayer]"},
           {"growth_residual", "sublayer", "1", "worst token's violation of T15 in units of what rounding explains",
            "growth/residual/[sublayer]"},
           {"growth_violated", "", "1", "1: T15 is violated beyond rounding in some sublayer", "growth/violated"},
           {"branch_from_gains", "sublayer", "1", "beta^2 E[b^2] from norm B's gains (and biases) alone",
            "branch_from_gains"},
           {"median_magnitude", "depth", "1", "median of |x| of the stream over all tokens and features",
            "massive/[depth]/median"},
           {"extreme_token", "depth rank", "1", "tokens of the largest |x| of the stream", top + "token"},
           {"extreme_id", "depth rank", "1", "their ids", top + "id"},
           {"extreme_text", "depth rank", "", "what these stand for", top + "text"},
           {"extreme_feature", "depth rank", "1", "their features", top + "feature"},
           {"extreme_value", "depth rank", "1", "largest |x| of the stream, with their signs", top + "value"},
           {"extreme_over_median", "depth rank", "1", "their |x| over median_magnitude", top + "over_median"},
           {"extreme_is_massive", "depth rank", "1", "1: massive (Sun et al. 2024)", top + "massive"},
           {"format_largest", "format", "1", "largest finite number of the format", "margins/{format}/largest"},
           {"smallest_margin", "format", "1", "the smallest margin of all signals", "margins/{format}/smallest/margin"},
           {"smallest_margin_signal", "format", "", "its signal", "margins/{format}/smallest/signal"},
           {"smallest_margin_index", "format", "1", "its sublayer; of x_out and r_out its depth",
            "margins/{format}/smallest/index"},
           {"signal_maximum", "signal sublayer", "1", "max |x| over all tokens and features", "",
            "JSON has the margins"},
           {"margin", "format signal sublayer", "1", "a format's largest number over max |x|",
            "margins/{format}/signals/{signal}"},
           json_only("init", "init", "the initialisation that theory is asked about", configured),
           {"theory_refusal", "", "", "why there is no prediction", "theory_refused"},
           {"scales_theory_refusal", "", "", "why there is no prediction at the model's own scales",
            "scales_theory_refused"},
           {"gradient_theory_refusal", "", "", "why there is none of gradients", "gradient_theory_refused"},
           {"diverged_at", "", "1", "first sublayer whose stream is not finite", "diverged_at"},
           {"not_finite", "", "", "first signal, gradient or loss that is not finite", "not_finite"},
           json_only("notes", "notes", "what else there is to know", "for people")}) {
    all.push_back(std::move(column));
  }
  return all;
}

}  // namespace

const Schema& schema() {
  static const Schema schema = [] {
    std::vector<DimensionSpec> dimensions = curve_dimensions();
    dimensions.push_back({"token", "1", "position in the sequence"});
    dimensions.push_back({"signal", "", "place in the dataflow, also inside a module"});
    dimensions.push_back({"format", "", "number format"});
    dimensions.push_back({"null", "", "law of random weights that the model is held against"});
    return Schema("probe", 2, std::move(dimensions), all_columns());
  }();
  return schema;
}

Columns columns(const ProbeResult& result, const nlohmann::ordered_json& provenance) {
  Columns columns(schema(), provenance);
  Writer(result, columns).put();
  return columns;
}

}  // namespace periscope::probe
