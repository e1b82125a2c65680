#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "experiments/common/gradient_allowance.h"
#include "experiments/probe/probe.h"
#include "sim/numerics/number_format.h"

namespace periscope {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr std::size_t layer_weights = static_cast<std::size_t>(Weight::embedding);

using Values = std::vector<double>;
using Words = std::vector<std::string>;

class Builder {
 public:
  explicit Builder(const ProbeResult& result)
      : r_(result),
        sublayers_(result.measured.growth.size()),
        ranks_(result.measured.extremes.front().top.size()),
        maxima_(signal_peaks(result.measured)) {
    data_.dimensions = {{"depth", sublayers_ + 1},       {"other_depth", sublayers_ + 1},  {"sublayer", sublayers_},
                        {"site", stream_signals.size()}, {"token", r_.input.ids.size()},   {"rank", ranks_},
                        {"signal", maxima_.size()},      {"format", number_formats.size()}};
    if (has_gradients()) {
      data_.dimensions.insert(data_.dimensions.end(), {{"weight", layer_weights}, {"layer", sublayers_ / 2}});
    }
  }

  NetcdfDataset take() {
    coordinates();
    tokens();
    curves(r_.measured.reading.profile, &Curve::value, "measured", "measured");
    curves(r_.initial.profile, &Curve::value, "at_init", "theory at initialisation");
    curves(r_.initial.profile, &Curve::standard_error, "at_init_stderr", "standard error of theory at initialisation");
    for (const Statistic s : {Statistic::second_moment, Statistic::variance, Statistic::grad_sq}) band(s);
    growth();
    extremes();
    margins();
    if (r_.measured.reading.profile.angular_distance.size() == (sublayers_ + 1) * (sublayers_ + 1)) {
      add("angular_distance_measured", {"depth", "other_depth"}, r_.measured.reading.profile.angular_distance,
          "angular distance arccos(cos)/pi between the stream at two depths");
    }
    return std::move(data_);
  }

 private:
  void add(std::string name, Words dimensions, std::variant<Values, Words> values, std::string long_name) {
    const bool text = std::holds_alternative<Words>(values);
    data_.variables.push_back(
        {std::move(name), std::move(dimensions), std::move(values), text ? "" : "1", std::move(long_name)});
  }
  void counting(const std::string& name, std::size_t length, int first, std::string long_name) {
    Values values;
    for (std::size_t i = 0; i < length; ++i) values.push_back(first + static_cast<double>(i));
    add(name, {name}, std::move(values), std::move(long_name));
  }
  [[nodiscard]] bool has_gradients() const { return !r_.measured.reading.profile.weight_curves.empty(); }

  void coordinates() {
    counting("depth", sublayers_ + 1, 0, "sublayers passed; 0 is the stack's input");
    counting("other_depth", sublayers_ + 1, 0, "sublayers passed, second stream of a pair");
    counting("sublayer", sublayers_, 0, "sublayer; even: attention, odd: MLP");
    counting("rank", ranks_, 1, "place in the order of magnitudes");
    counting("token", r_.input.ids.size(), 0, "position in the sequence");
    Words sites;
    for (const Signal site : stream_signals) sites.emplace_back(name_of(site));
    add("site", {"site"}, sites, "place in the dataflow (T1)");
    Words signals;
    for (const SignalPeaks& signal : maxima_) signals.push_back(signal.name);
    add("signal", {"signal"}, signals, "place in the dataflow, also inside a module");
    Words formats;
    Values largest;
    for (const NumberFormat& format : number_formats) {
      formats.emplace_back(format.name);
      largest.push_back(format.largest);
    }
    add("format", {"format"}, formats, "number format");
    add("format_largest", {"format"}, largest, "largest finite number of the format");
    if (!has_gradients()) return;
    add("weight", {"weight"}, Words(weight_names.begin(), weight_names.begin() + layer_weights), "matrix of a layer");
    counting("layer", sublayers_ / 2, 0, "layer, attention and MLP");
  }

  void tokens() {
    Words text;
    Values labels;
    for (const int id : r_.input.ids) {
      text.push_back(r_.input.tokenizer == nullptr ? "" : visible(r_.input.tokenizer->piece(id)));
    }
    for (const int label : r_.input.labels) labels.push_back(label);
    add("token_id", {"token"}, Values(r_.input.ids.begin(), r_.input.ids.end()), "what the model reads");
    add("token_text", {"token"}, text, "what the id stands for");
    add("label", {"token"}, labels, "what the model is to predict; -1: nothing");
    add("token_loss", {"token"}, r_.measured.token_losses, "negative logarithm of the label's probability");
  }

  void curves(const Profile& profile, Values Curve::*part, const std::string& suffix, const std::string& words) {
    for (std::size_t s = 0; s < statistic_names.size(); ++s) {
      const auto statistic = static_cast<Statistic>(s);
      const std::string name(statistic_names[s]);
      if (const Curve* curve = profile.find(statistic, Signal::x_out)) {
        add(fmt::format("{}_{}", name, suffix), {"depth"}, curve->*part,
            fmt::format("{} of the stream: {}", name, words));
      }
      Values all;
      bool any = false;
      for (std::size_t site = 0; site < stream_signals.size(); ++site) {
        const Curve* curve = profile.find(statistic, stream_signals[site]);
        Values values = curve == nullptr ? Values(sublayers_, nan) : curve->*part;
        if (values.size() > sublayers_) values.erase(values.begin());  // x_out: drop the stack's input
        values.resize(sublayers_, nan);
        any = any || curve != nullptr;
        all.insert(all.end(), values.begin(), values.end());
      }
      if (any) {
        add(fmt::format("site_{}_{}", name, suffix), {"site", "sublayer"}, std::move(all),
            fmt::format("{} at every site of every sublayer: {}", name, words));
      }
    }
    if (profile.weight_curves.empty() || !has_gradients()) return;
    for (const Statistic statistic : {Statistic::grad_sq, Statistic::log_grad_sq}) {
      Values all;
      for (std::size_t w = 0; w < layer_weights; ++w) {
        const Curve* curve = profile.find(statistic, static_cast<Weight>(w));
        const Values values = curve == nullptr ? Values(sublayers_ / 2, nan) : curve->*part;
        all.insert(all.end(), values.begin(), values.end());
      }
      const auto name = statistic_names[static_cast<std::size_t>(statistic)];
      add(fmt::format("weight_{}_{}", name, suffix), {"weight", "layer"}, std::move(all),
          fmt::format("{} of every matrix: {}", name, words));
    }
  }

  /// Between which values a random stack may be: 2 standard errors and T19's finite-width term away from theory, which
  /// is relative for moments and a difference of logarithms for gradients.
  void band(Statistic statistic) {
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
    const std::string words = " end of theory's band: 2 standard errors and the finite-width term of T19";
    const std::string name(statistic_names[static_cast<std::size_t>(statistic)]);
    add(name + "_at_init_low", {"depth"}, std::move(low), "lower" + words);
    add(name + "_at_init_high", {"depth"}, std::move(high), "upper" + words);
  }

  /// One number per sublayer.
  template <class Of>
  void growth(const std::string& name, std::string long_name, const Of& of) {
    Values values;
    for (const Growth& g : r_.measured.growth) values.push_back(of(g));
    add(name, {"sublayer"}, std::move(values), std::move(long_name));
  }

  void growth() {
    const std::string mean = ", mean over tokens (T15)";
    const auto term = [&](const std::string& name, double Growth::*part, const std::string& words) {
      growth("growth_" + name, words + mean, [=](const Growth& g) { return g.*part; });
      if (part == &Growth::sum) return;
      growth("growth_" + name + "_share", "the same over growth_sum", [=](const Growth& g) { return g.*part / g.sum; });
    };
    term("stream", &Growth::stream, "alpha^2 E[x^2] before the sublayer");
    term("branch", &Growth::branch, "beta^2 E[b^2] of the branch");
    term("cross", &Growth::cross, "2 alpha beta E[x b], the term that Eq. 4 leaves out");
    term("sum", &Growth::sum, "E[x^2] after the addition, before norm C");
    growth("growth_cross_over_branch", "Eq. 4's failure: growth_cross over growth_branch",
           [](const Growth& g) { return g.cross / g.branch; });
    growth("growth_residual", "worst token's violation of T15 in units of what rounding explains",
           [](const Growth& g) { return g.residual; });
    add("branch_from_gains", {"sublayer"}, r_.measured.branch_from_gains,
        "beta^2 E[b^2] from norm B's gains (and biases) alone");
  }

  void extremes() {
    Values medians;
    Values values;
    Values over_median;
    Values at_token;
    Values at_feature;
    for (const StreamExtremes& e : r_.measured.extremes) {
      medians.push_back(e.median);
      for (const Entry& entry : e.top) {
        values.push_back(entry.value);
        over_median.push_back(std::abs(entry.value) / e.median);
        at_token.push_back(static_cast<double>(entry.row));
        at_feature.push_back(static_cast<double>(entry.col));
      }
    }
    add("median_magnitude", {"depth"}, medians, "median of |x| of the stream over all tokens and features");
    add("extreme_value", {"depth", "rank"}, values, "largest |x| of the stream, with their signs");
    add("extreme_over_median", {"depth", "rank"}, over_median, "their |x| over median_magnitude");
    add("extreme_token", {"depth", "rank"}, at_token, "their tokens");
    add("extreme_feature", {"depth", "rank"}, at_feature, "their features");
  }

  void margins() {
    Values largest;
    Values margin;
    for (const SignalPeaks& signal : maxima_) {
      const std::size_t input = signal.values.size() - sublayers_;  // of x_out: drop the stack's input
      largest.insert(largest.end(), signal.values.begin() + static_cast<std::ptrdiff_t>(input), signal.values.end());
    }
    for (const NumberFormat& format : number_formats) {
      for (const double x : largest) margin.push_back(format.largest / x);
    }
    add("signal_maximum", {"signal", "sublayer"}, std::move(largest), "max |x| over all tokens and features");
    add("margin", {"format", "signal", "sublayer"}, std::move(margin), "a format's largest number over max |x|");
  }

  const ProbeResult& r_;
  std::size_t sublayers_;
  std::size_t ranks_;
  std::vector<SignalPeaks> maxima_;
  NetcdfDataset data_;
};

}  // namespace

NetcdfDataset probe_dataset(const ProbeResult& result, const nlohmann::ordered_json& provenance) {
  NetcdfDataset data = Builder(result).take();
  data.attributes = provenance;
  data.attributes["model"] = result.model;
  data.attributes["family"] = result.family;
  if (!result.initial.refusal.empty()) data.attributes["theory_refusal"] = result.initial.refusal;
  if (!result.initial.gradient_refusal.empty()) {
    data.attributes["gradient_theory_refusal"] = result.initial.gradient_refusal;
  }
  return data;
}

}  // namespace periscope
