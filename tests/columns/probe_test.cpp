#include "experiments/studies/probe/probe.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "experiments/engine/judge/gradient_allowance.h"
#include "sim/numerics/number_format.h"
#include "tests/columns/expected_columns.h"
#include "tests/support/doctest.h"

/// A planted result of probe: every column from the raw numbers.
namespace periscope::testing::probe_columns {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr std::size_t sublayers = 4;
constexpr std::size_t depths = 5;
constexpr std::size_t layers = 2;
constexpr std::size_t rank_count = 2;

/// A tokeniser whose piece of id i is "<i>".
class NumberTokenizer final : public Tokenizer {
 public:
  [[nodiscard]] std::vector<int> encode(std::string_view /*text*/) const override { return {}; }
  [[nodiscard]] std::string decode(std::span<const int> ids) const override {
    std::string text;
    for (const int id : ids) text += piece(id);
    return text;
  }
  [[nodiscard]] std::string piece(int id) const override { return fmt::format("<{}>", id); }
  [[nodiscard]] int size() const override { return 99; }
};

Curve curve(Irregular& numbers, std::size_t length) { return {numbers.next(length), numbers.next(length)}; }

const std::vector<std::pair<Statistic, Signal>> predicted_curves{{Statistic::second_moment, Signal::x_out},
                                                                 {Statistic::variance, Signal::x_out},
                                                                 {Statistic::grad_sq, Signal::x_out},
                                                                 {Statistic::second_moment, Signal::f_out}};

probe::ProbeResult planted() {
  Irregular numbers;
  probe::ProbeResult r{.model = "a model",
                       .family = "a family",
                       .at_init = {},
                       .dtype = DType::f32,
                       .backward = true,
                       .input = {},
                       .measured = {},
                       .agreement = {},
                       .initial = {},
                       .notes = {"one", "two"}};
  r.at_init.model = {.layers = 2, .width = 8, .heads = 2, .kv_heads = 2, .head_dim = 4, .mlp_width = 8};
  r.at_init.input.kind = InputKind::tokens;
  r.at_init.input.tokens = 3;
  r.at_init.input.second_moment = numbers.next();
  r.input.ids = {7, 11, 5};
  r.input.labels = {11, 5, -1};
  r.input.tokenizer = std::make_unique<NumberTokenizer>();
  r.input.tokenizer_name = "numbers";
  ModelReading& m = r.measured;
  m.loss = numbers.next();
  m.token_losses = {numbers.next(), numbers.next(), nan};
  Profile& profile = m.reading.profile;
  for (const auto& key : predicted_curves) {
    const std::size_t length = runs_over_depth(key.second) ? depths : sublayers;
    for (Profile* p : {&profile, &r.initial.profile, &r.nulls[0].predicted.profile, &r.nulls[2].predicted.profile})
      p->curves[key] = curve(numbers, length);
  }
  for (const Signal s : {Signal::x_out, Signal::f_out}) {
    profile.curves[{Statistic::maximum, s}] = curve(numbers, runs_over_depth(s) ? depths : sublayers);
  }
  r.initial.profile.curves[{Statistic::kurtosis, Signal::x_out}] = curve(numbers, depths);  // predicted alone
  profile.weight_curves[{Statistic::grad_sq, Weight::k}] = curve(numbers, layers);
  r.initial.profile.weight_curves[{Statistic::grad_sq, Weight::k}] = curve(numbers, layers);
  profile.angular_distance = numbers.next(depths * depths);
  r.initial.finite_width = numbers.next(depths);
  for (double& w : r.initial.finite_width) w *= 0.01;
  r.initial.refusal = "no theory";
  r.initial.gradient_refusal = "no gradients";
  // Every row's own size: a prediction of the stream alone, and no model of it was drawn.
  r.nulls[1].predicted.profile.curves[{Statistic::second_moment, Signal::x_out}] = curve(numbers, depths);
  for (const std::size_t null : std::vector<std::size_t>{0, 2, 3}) {
    stacks::NullDraws& drawn = r.nulls[null].drawn;
    drawn.draws = static_cast<int>(null) + 2;
    for (int i = 0; i < drawn.draws; ++i) drawn.log_moment.push_back(numbers.next(depths));
  }
  r.nulls[0].predicted.refusal = "no scales";
  r.agreement.finite_width = 0.37;
  r.agreement.finite_width_gradient = 0.83;
  for (std::size_t l = 0; l < sublayers; ++l) {
    m.growth.push_back(
        {numbers.next(), numbers.next(), numbers.next(), numbers.next(), l == 2 ? 1.25 : 0.5 * numbers.next()});
  }
  m.branch_from_gains = numbers.next(sublayers);
  for (std::size_t d = 0; d < depths; ++d) {
    StreamExtremes& e = m.extremes.emplace_back();
    e.median = 0.1 * numbers.next();
    // Massive: above 100 and at least a thousand medians, of either sign.
    e.top = {{static_cast<Tensor::Index>(d % 3), static_cast<Tensor::Index>(d + 3),
              d == 1 ? -777.0 * numbers.next() : numbers.next()},
             {static_cast<Tensor::Index>((d + 1) % 3), static_cast<Tensor::Index>(d), -numbers.next()}};
  }
  m.inside_maxima[Signal::q] = {numbers.next(), nan, numbers.next(), nan};
  m.reading.diverged_at = 3;
  r.not_finite = Emission{1, Signal::up, Pass::backward};
  return r;
}

/// As JSON has them: null for a number that is not there.
std::vector<ExpectedColumns::Json> json_of(const std::vector<double>& values) {
  std::vector<ExpectedColumns::Json> all;
  for (const double x : values) all.push_back(std::isnan(x) ? ExpectedColumns::Json() : ExpectedColumns::Json(x));
  return all;
}

using Get = std::vector<double> (*)(const Curve&);
std::vector<double> values_of(const Curve& c) { return c.value; }
std::vector<double> errors_of(const Curve& c) { return c.standard_error; }

double stream_moment(const Profile& p, std::size_t depth) {
  return p.curves.at({Statistic::second_moment, Signal::x_out}).value[depth];
}

/// T29's split of the stream's growth, and what is left over beyond every null. Of a null that theory predicts, a
/// model's error is its deviation from theory; of the last one, random signs, it is the standard deviation about the
/// draws' mean of one more model.
void check_growth_parts(ExpectedColumns& expected, const probe::ProbeResult& r) {
  const auto predicted = [&](std::size_t null, std::size_t depth) {
    return stream_moment(r.nulls[null].predicted.profile, depth);
  };
  std::vector<double> from_scales;
  std::vector<double> from_sizes_inside;
  std::vector<double> from_alignment;
  for (std::size_t d = 0; d < depths; ++d) {
    from_scales.push_back(std::log(predicted(0, d) / stream_moment(r.initial.profile, d)));
    from_sizes_inside.push_back(std::log(predicted(2, d) / predicted(0, d)));
    from_alignment.push_back(std::log(stream_moment(r.measured.reading.profile, d) / predicted(2, d)));
  }
  std::vector<double> left_over;
  std::vector<double> error;
  std::vector<double> mean;
  for (std::size_t null = 0; null < 4; ++null) {
    const std::vector<std::vector<double>>& drawn = r.nulls[null].drawn.log_moment;
    const auto n = static_cast<double>(drawn.size());
    for (std::size_t d = 0; d < depths; ++d) {
      double sum = 0.0;
      for (const std::vector<double>& draw : drawn) sum += draw[d];
      const double measured = std::log(stream_moment(r.measured.reading.profile, d));
      const double centre = null == 3 ? sum / n : std::log(predicted(null, d));
      double squares = 0.0;
      for (const std::vector<double>& draw : drawn) squares += (draw[d] - centre) * (draw[d] - centre);
      left_over.push_back(measured - centre);
      // A new model deviates from the mean of n others by sigma sqrt(1 + 1/n).
      error.push_back(null == 3 ? std::sqrt(squares / (n - 1.0) + squares / (n - 1.0) / n) : std::sqrt(squares / n));
      mean.push_back(sum / n);
    }
  }
  expected.numbers("log_growth_from_scales", from_scales, "log_growth/from_scales");
  expected.numbers("log_growth_from_sizes_inside", from_sizes_inside, "log_growth/from_sizes_inside");
  expected.numbers("log_growth_from_alignment", from_alignment, "log_growth/from_alignment");
  expected.numbers("log_growth_alignment_error", {error.begin() + 2 * depths, error.begin() + 3 * depths},
                   "log_growth/alignment_error");
  expected.words("null", {"matrices", "rows", "rank_one", "signs"});
  expected.words(
      "null_meaning",
      {"every matrix's own root mean square", "every row's own root mean square",
       "variance profiles of rank one: every row's and every column's own", "every |W_ij| its own, with random signs"},
      "log_growth/nulls/*/keeps");
  expected.numbers("null_draws", {2, 0, 4, 5}, "log_growth/nulls/*/draws");
  expected.numbers("null_left_over", left_over, "log_growth/nulls/*/left_over");
  expected.numbers("null_left_over_error", error, "log_growth/nulls/*/error");
  expected.numbers("null_drawn_mean", mean, "log_growth/nulls/*/drawn_mean");
}

}  // namespace

TEST_CASE("probe: every column from raw numbers") {
  const probe::ProbeResult r = planted();
  const ModelReading& m = r.measured;
  ExpectedColumns expected(probe::schema(), probe::dataset_of(r));

  // What was read.
  expected.words("model", {"a model"}, "model");
  expected.words("family", {"a family"}, "family");
  expected.words("tokenizer", {"numbers"}, "tokenizer");
  expected.numbers("token", {0, 1, 2}, "coordinates/token");
  expected.numbers("token_id", {7, 11, 5}, "tokens");
  expected.words("token_text", {"<7>", "<11>", "<5>"}, "token_text");
  expected.numbers("label", {11, 5, -1}, "labels");
  expected.numbers("loss", {m.loss}, "loss");
  expected.numbers("perplexity", {std::exp(m.loss)}, "perplexity");
  expected.numbers("token_loss", m.token_losses, "token_loss");
  expected.numbers("depth", {0, 1, 2, 3, 4});
  expected.numbers("other_depth", {0, 1, 2, 3, 4});
  expected.numbers("sublayer", {0, 1, 2, 3});
  expected.numbers("sublayer_layer", {0, 0, 1, 1}, "coordinates/sublayer_layer");
  expected.words("sublayer_kind", {"attention", "mlp", "attention", "mlp"}, "coordinates/sublayer_kind");
  expected.numbers("sublayer_branch", {0, 0, 0, 0}, "coordinates/sublayer_branch");
  expected.numbers("rank", {1, 2});
  expected.numbers("layer", {0, 1});
  expected.words("site", {"x_in", "A_out", "f_out", "B_out", "x_out", "r_out"});
  expected.words("weight", {"q", "k", "v", "o", "gate", "up", "down"});

  // Curves.
  struct Version {
    const char* name;
    const Profile* profile;
    Get get;
  };
  const std::vector<Version> versions{{"measured", &m.reading.profile, values_of},
                                      {"at_init", &r.initial.profile, values_of},
                                      {"at_init_stderr", &r.initial.profile, errors_of},
                                      {"at_scales", &r.nulls[0].predicted.profile, values_of},
                                      {"at_scales_stderr", &r.nulls[0].predicted.profile, errors_of},
                                      {"at_profiles", &r.nulls[2].predicted.profile, values_of},
                                      {"at_profiles_stderr", &r.nulls[2].predicted.profile, errors_of}};
  for (const Version& v : versions) {
    const auto find = [&](Statistic s, Signal at) {
      const auto it = v.profile->curves.find({s, at});
      return it == v.profile->curves.end() ? std::vector<double>() : v.get(it->second);
    };
    for (const Statistic s :
         {Statistic::second_moment, Statistic::variance, Statistic::grad_sq, Statistic::maximum, Statistic::kurtosis}) {
      const std::vector<double> stream = find(s, Signal::x_out);
      if (stream.empty()) continue;
      const std::string name(name_of(s));
      expected.numbers(fmt::format("{}_{}", name, v.name), stream, fmt::format("{}/{}", name, v.name));
      std::vector<double> on_sites(6 * sublayers, nan);
      for (std::size_t l = 0; l < sublayers; ++l) {
        on_sites[4 * sublayers + l] = stream[l + 1];
        if (const std::vector<double> f = find(s, Signal::f_out); !f.empty()) on_sites[2 * sublayers + l] = f[l];
      }
      expected.numbers(fmt::format("site_{}_{}", name, v.name), on_sites, fmt::format("sites/*/{}/{}", name, v.name));
      expected.json(fmt::format("sites/f_out/{}/{}", name, v.name), json_of(find(s, Signal::f_out)));
    }
    if (const auto it = v.profile->weight_curves.find({Statistic::grad_sq, Weight::k});
        it != v.profile->weight_curves.end()) {
      std::vector<double> on_weights(7 * layers, nan);
      std::ranges::copy(v.get(it->second), on_weights.begin() + layers);
      expected.numbers(fmt::format("weight_grad_sq_{}", v.name), on_weights,
                       fmt::format("weight_grad_sq/k/{}", v.name));
    }
  }
  for (const char* name : {"second_moment", "variance", "grad_sq", "maximum", "kurtosis"}) {
    expected.json(fmt::format("{}/site", name), {"x_out"});
  }
  expected.numbers("angular_distance_measured", m.reading.profile.angular_distance, "angular_distance/measured");

  // Bands: two standard errors and the finite-width term, relative for moments, of logarithms for gradients.
  for (const Statistic s : {Statistic::second_moment, Statistic::variance, Statistic::grad_sq}) {
    const Curve& t = r.initial.profile.curves.at({s, Signal::x_out});
    std::vector<double> low;
    std::vector<double> high;
    for (std::size_t i = 0; i < depths; ++i) {
      const double two_errors = 2.0 * t.standard_error[i];
      if (s == Statistic::grad_sq) {
        const double width = 0.83 * judge::gradient_width_term(r.at_init, r.initial.finite_width, i, false);
        low.push_back(t.value[i] / std::exp(two_errors / t.value[i] + width));
        high.push_back(t.value[i] * std::exp(two_errors / t.value[i] + width));
      } else {
        const double width = 0.37 * r.initial.finite_width[i] * t.value[i];
        low.push_back(t.value[i] - two_errors - width);
        high.push_back(t.value[i] + two_errors + width);
      }
    }
    expected.numbers(fmt::format("{}_at_init_low", name_of(s)), low, fmt::format("{}/at_init_low", name_of(s)));
    expected.numbers(fmt::format("{}_at_init_high", name_of(s)), high, fmt::format("{}/at_init_high", name_of(s)));
  }

  // How the stream grows (T29).
  check_growth_parts(expected, r);
  const auto of_growth = [&](const char* column, const char* json, const auto& get) {
    std::vector<double> values;
    for (const Growth& g : m.growth) values.push_back(get(g));
    expected.numbers(column, values, json);
  };
  of_growth("growth_stream", "growth/stream", [](const Growth& g) { return g.stream; });
  of_growth("growth_branch", "growth/branch", [](const Growth& g) { return g.branch; });
  of_growth("growth_cross", "growth/cross", [](const Growth& g) { return g.cross; });
  of_growth("growth_sum", "growth/sum", [](const Growth& g) { return g.sum; });
  of_growth("growth_stream_share", "growth/stream_share", [](const Growth& g) { return g.stream / g.sum; });
  of_growth("growth_branch_share", "growth/branch_share", [](const Growth& g) { return g.branch / g.sum; });
  of_growth("growth_cross_share", "growth/cross_share", [](const Growth& g) { return g.cross / g.sum; });
  of_growth("growth_cross_over_branch", "growth/cross_over_branch", [](const Growth& g) { return g.cross / g.branch; });
  of_growth("growth_residual", "growth/residual", [](const Growth& g) { return g.residual; });
  expected.numbers("growth_violated", {1}, "growth/violated");
  expected.numbers("branch_from_gains", m.branch_from_gains, "branch_from_gains");

  // The largest entries.
  std::vector<double> median;
  std::vector<double> token;
  std::vector<double> id;
  std::vector<std::string> text;
  std::vector<double> feature;
  std::vector<double> value;
  std::vector<double> over;
  for (const StreamExtremes& e : m.extremes) {
    median.push_back(e.median);
    for (const Entry& entry : e.top) {
      token.push_back(static_cast<double>(entry.row));
      id.push_back(r.input.ids[static_cast<std::size_t>(entry.row)]);
      text.push_back(fmt::format("<{}>", id.back()));
      feature.push_back(static_cast<double>(entry.col));
      value.push_back(entry.value);
      over.push_back(std::abs(entry.value) / e.median);
    }
  }
  const std::string top = "massive/*/top/*/";
  expected.json("massive/*/depth", {0, 1, 2, 3, 4});
  expected.json("massive/*/top/*/rank", {1, 2, 1, 2, 1, 2, 1, 2, 1, 2});
  expected.numbers("median_magnitude", median, "massive/*/median");
  expected.numbers("extreme_token", token, top + "token");
  expected.numbers("extreme_id", id, top + "id");
  expected.words("extreme_text", text, top + "text");
  expected.numbers("extreme_feature", feature, top + "feature");
  expected.numbers("extreme_value", value, top + "value");
  expected.numbers("extreme_over_median", over, top + "over_median");
  std::vector<double> massive(depths * rank_count, 0.0);
  massive[rank_count] = 1.0;  // the first of depth 1
  expected.numbers("extreme_is_massive", massive, top + "massive");

  // Margins of formats: over the largest of a signal, of x_out from the first sublayer on.
  const std::vector<std::string> signals{"q", "f_out", "x_out"};
  expected.words("signal", signals);
  const std::vector<std::vector<double>> maxima{m.inside_maxima.at(Signal::q),
                                                m.reading.profile.curves.at({Statistic::maximum, Signal::f_out}).value,
                                                m.reading.profile.curves.at({Statistic::maximum, Signal::x_out}).value};
  std::vector<double> signal_maximum = maxima[0];
  signal_maximum.insert(signal_maximum.end(), maxima[1].begin(), maxima[1].end());
  signal_maximum.insert(signal_maximum.end(), maxima[2].begin() + 1, maxima[2].end());
  expected.numbers("signal_maximum", signal_maximum, "signal_maximum/*");
  std::vector<std::string> formats;
  std::vector<double> largest;
  std::vector<double> margin;
  std::vector<double> smallest;
  std::vector<std::string> smallest_signal;
  std::vector<double> smallest_index;
  for (const NumberFormat& f : number_formats) {
    formats.emplace_back(f.name);
    largest.push_back(f.largest);
    for (const double x : signal_maximum) margin.push_back(f.largest / x);
    double most = 0.0;
    for (std::size_t s = 0; s < maxima.size(); ++s) {
      for (const double x : maxima[s]) most = x > most ? x : most;
    }
    smallest.push_back(f.largest / most);
    for (std::size_t s = 0; s < maxima.size(); ++s) {
      for (std::size_t i = 0; i < maxima[s].size(); ++i) {
        if (maxima[s][i] != most) continue;
        smallest_signal.push_back(signals[s]);
        smallest_index.push_back(static_cast<double>(i));
      }
      std::vector<double> of_signal;
      for (std::size_t l = 0; l < sublayers; ++l) of_signal.push_back(f.largest / signal_maximum[s * sublayers + l]);
      expected.json(fmt::format("margins/{}/signals/{}", f.name, signals[s]), json_of(of_signal));
    }
  }
  expected.words("format", formats);
  expected.numbers("format_largest", largest, "margins/*/largest");
  expected.numbers("smallest_margin", smallest, "margins/*/smallest/margin");
  expected.words("smallest_margin_signal", smallest_signal, "margins/*/smallest/signal");
  expected.numbers("smallest_margin_index", smallest_index, "margins/*/smallest/index");
  expected.numbers("margin", margin, "margins/*/signals/*");

  // What is said besides.
  expected.words("theory_refusal", {"no theory"}, "theory_refused");
  expected.words("scales_theory_refusal", {"no scales"}, "scales_theory_refused");
  expected.words("gradient_theory_refusal", {"no gradients"}, "gradient_theory_refused");
  expected.numbers("diverged_at", {3}, "diverged_at");
  expected.words("not_finite", {"gradient of up of sublayer 1"}, "not_finite");
  expected.words("notes", {"one", "two"}, "notes");
  expected.complete();
}

}  // namespace periscope::testing::probe_columns
