#include "experiments/studies/certify/certify.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/columns/expected_columns.h"
#include "tests/support/doctest.h"

/// A planted result of certify: every column from the raw numbers.
namespace periscope::testing::certify_columns {
namespace {

using certify::CertifyResult;
using theory::Certificate;

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr std::size_t places = 4;  // of one layer: before it, two sublayers, and the head
constexpr std::size_t classes = 7;
constexpr std::size_t format_count = number_formats.size();

/// Of a planted certificate; all classes but that of scores.
const std::vector<std::pair<Signal, int>> bounded{
    {Signal::x_out, -1},  {Signal::A_out, 0}, {Signal::q, 0},     {Signal::f_out, 0}, {Signal::x_out, 0},
    {Signal::squares, 0}, {Signal::up, 1},    {Signal::f_out, 1}, {Signal::x_out, 1}, {Signal::logits, 2}};

/// The class of each, by hand.
const std::vector<std::size_t> class_of_bound{0, 1, 2, 1, 0, 6, 4, 1, 0, 5};

Certificate planted_certificate(Irregular& numbers, const RunArithmetic& arithmetic) {
  Certificate c;
  c.arithmetic = arithmetic;
  c.longest = static_cast<int>(1000.0 * numbers.next());
  for (const auto& [signal, sublayer] : bounded) {
    theory::SignalBound& b = c.bounds.emplace_back();
    b.signal = signal;
    b.sublayer = sublayer;
    b.magnitude = theory::Vector(2);
    b.magnitude << numbers.next(), numbers.next();
    b.largest = 10.0 * numbers.next();
    b.channel = static_cast<Eigen::Index>(100.0 * numbers.next());
  }
  return c;
}

/// Where a bound stands on (signal, place).
std::size_t place_of(std::size_t k) {
  const auto at = std::ranges::find(theory::certified_signals, bounded[k].first) - theory::certified_signals.begin();
  return static_cast<std::size_t>(at) * places + static_cast<std::size_t>(bounded[k].second + 1);
}

/// The largest bound of a class, or bounds.size() for none.
std::size_t worst_of(const Certificate& c, std::size_t kind) {
  std::size_t worst = c.bounds.size();
  for (std::size_t k = 0; k < c.bounds.size(); ++k) {
    if (class_of_bound[k] != kind) continue;
    if (worst == c.bounds.size() || c.bounds[k].largest > c.bounds[worst].largest) worst = k;
  }
  return worst;
}

struct Planted {
  CertifyResult result;
  std::vector<NumberFormat> formats{number_formats[1], number_formats[2]};  // bf16, fp16
};

Planted planted() {
  Irregular numbers;
  Planted p;
  CertifyResult& r = p.result;
  r.model = "a model";
  r.family = "a family";
  r.spec.model = {.layers = 1, .width = 2, .heads = 1, .kv_heads = 1, .head_dim = 2, .mlp_width = 2};
  r.domain = {.tokens = false, .largest = numbers.next()};
  r.arithmetic = Arithmetic::mixed;
  r.certificate = planted_certificate(numbers, {});
  for (const NumberFormat& f : p.formats)
    r.runs.push_back(planted_certificate(numbers, run_arithmetic(r.arithmetic, f)));
  r.runs[1].weights_rounded = true;
  r.runs[1].bounds[7].largest = 7e4;  // f_out of the MLP does not fit into FP16, whose largest number is 65504
  r.runs[1].bounds[7].channel = 1;
  r.own = planted_certificate(numbers, run_arithmetic(Arithmetic::pure, fp32));
  r.weights = {{"a.safetensors", "hash a"}, {"b.safetensors", "hash b"}};
  certify::SignalMaxima& seen = r.measured.emplace();
  for (const auto& [signal, sublayer] : bounded) {
    if (signal == Signal::squares) continue;  // no such number arises outside of ops
    seen.raise_to(signal, sublayer, std::vector{numbers.next(), numbers.next()});
  }
  r.tokens = 37;
  for (int i = 0; i < 2; ++i) {
    r.attacks.push_back({.place = {i == 0 ? Signal::f_out : Signal::up, i, 41 + i},
                         .bound = numbers.next(),
                         .reached = numbers.next()});
  }
  r.check.exceeded = {.place = {Signal::hidden, 1, 43}, .bound = numbers.next(), .reached = numbers.next()};
  r.check.overflowed = certify::SignalPlace{Signal::q, 0, 1};
  certify::Headroom& h = r.headroom;
  h.possible = true;
  h.recipe = {{"m1", "m2"}, {"d1"}, true};
  h.stream_bound = numbers.next();
  h.branch_bound = numbers.next();
  h.stream_measured = numbers.next();
  for (const std::size_t f : {0U, 3U}) {
    h.formats.push_back({number_formats[f], numbers.next(), numbers.next(), numbers.next(), {}, ""});
  }
  h.formats[1].reason = "because";
  certify::ScaledRun& run = h.run.emplace();
  run.scale = {.stream = numbers.next(), .branch = numbers.next()};
  run.tokens = 47;
  run.difference = numbers.next();
  run.without_eps = numbers.next();
  run.gains_alone = numbers.next();
  run.model = r.spec.model;
  run.certificate = planted_certificate(numbers, {});
  for (const NumberFormat& f : p.formats)
    run.runs.push_back(planted_certificate(numbers, run_arithmetic(r.arithmetic, f)));
  run.runs[0].bounds[5].largest = 1e39;  // squares are summed in FP32, whose largest number is 3.4e38
  return p;
}

const char* const beyond_fp16 = "f_out, layer 0 MLP, feature 1: may reach 7e+04 > 65504";
const char* const beyond_fp32 = "squares, layer 0 attention: may reach 1e+39 > 3.40282e+38";

/// Bounds on (format, signal, place), or (signal, place) for one certificate. `json`: where JSON has them.
void check_bounds(ExpectedColumns& expected, const std::string& prefix, const std::vector<const Certificate*>& all,
                  const std::vector<std::size_t>& formats, const std::string& json) {
  const std::size_t size = theory::certified_signals.size() * places;
  std::vector<double> largest(size * (formats.empty() ? 1 : format_count), nan);
  std::vector<double> feature = largest;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::size_t from = formats.empty() ? 0 : formats[i] * size;
    for (std::size_t k = 0; k < bounded.size(); ++k) {
      const theory::SignalBound& b = all[i]->bounds[k];
      largest[from + place_of(k)] = b.largest;
      feature[from + place_of(k)] = static_cast<double>(b.channel);
    }
  }
  expected.numbers(prefix + "bound", largest, json + "signals/*/bound");
  expected.numbers(prefix + "bound_feature", feature, json + "signals/*/feature");
}

/// What was measured beside the bounds of one certificate.
void check_measured(ExpectedColumns& expected, const std::string& prefix, const Certificate& c,
                    const certify::SignalMaxima& seen, const std::string& json) {
  std::vector<double> measured(theory::certified_signals.size() * places, nan);
  std::vector<double> ratio = measured;
  for (std::size_t k = 0; k < bounded.size(); ++k) {
    const std::vector<double>* both = seen.find(bounded[k].first, bounded[k].second);
    if (both == nullptr) continue;
    const double most = std::max(both->at(0), both->at(1));
    measured[place_of(k)] = most;
    ratio[place_of(k)] = c.bounds[k].largest / most;
  }
  expected.numbers(prefix + "measured", measured, json + "signals/*/measured");
  expected.numbers(prefix + "bound_ratio", ratio, json + "signals/*/ratio");
}

/// The largest bound of every class on (format, class), or (class) for one certificate. `json`: where JSON has them.
void check_classes(ExpectedColumns& expected, const std::string& prefix, const std::vector<const Certificate*>& all,
                   const std::vector<std::size_t>& formats, const std::string& json) {
  const std::size_t rows = formats.empty() ? 1 : format_count;
  std::vector<double> largest(rows * classes, nan), sublayer = largest, feature = largest;
  std::vector<std::string> signal(rows * classes);
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (std::size_t kind = 0; kind < classes; ++kind) {
      const std::size_t k = worst_of(*all[i], kind);
      if (k == bounded.size()) continue;
      const std::size_t at = (formats.empty() ? 0 : formats[i]) * classes + kind;
      const theory::SignalBound& b = all[i]->bounds[k];
      largest[at] = b.largest;
      signal[at] = name_of(bounded[k].first);
      sublayer[at] = bounded[k].second;
      feature[at] = static_cast<double>(b.channel);
    }
  }
  expected.numbers(prefix + "class_largest", largest, json + "*/bound");
  expected.words(prefix + "class_signal", signal, json + "*/at/signal");
  expected.numbers(prefix + "class_sublayer", sublayer, json + "*/at/sublayer");
  expected.numbers(prefix + "class_feature", feature, json + "*/at/feature");
}

/// Exact arithmetic: which formats hold the largest bound of a class.
void check_fits(ExpectedColumns& expected, const std::string& prefix, const Certificate& c,
                const std::vector<NumberFormat>& formats, const std::string& json) {
  std::vector<double> fits(classes * format_count, nan), headroom = fits;
  for (std::size_t kind = 0; kind < classes; ++kind) {
    const std::size_t k = worst_of(c, kind);
    if (k == bounded.size()) continue;
    for (std::size_t f = 0; f < formats.size(); ++f) {
      fits[kind * format_count + f + 1] = c.bounds[k].largest <= formats[f].largest ? 1.0 : 0.0;
      headroom[kind * format_count + f + 1] = formats[f].largest / c.bounds[k].largest;
    }
  }
  expected.numbers(prefix + "class_fits", fits, json + "*/formats/*/fits");
  expected.numbers(prefix + "class_headroom", headroom, json + "*/formats/*/headroom");
}

/// Verdicts on (format, class) of two runs; where one is not certified, why not.
void check_run_verdicts(ExpectedColumns& expected, const std::string& verdict, const std::string& reason,
                        const std::vector<std::string>& bf16, const std::vector<std::string>& fp16,
                        const std::string& json) {
  std::vector<double> certified(format_count * classes, nan);
  std::vector<std::string> why(format_count * classes);
  for (const std::size_t f : {1U, 2U}) {
    for (std::size_t kind = 0; kind < classes; ++kind) {
      const std::string& words = f == 1 ? bf16[kind] : fp16[kind];
      certified[f * classes + kind] = words.empty() ? 1.0 : 0.0;
      why[f * classes + kind] = words;
    }
  }
  expected.numbers(verdict, certified, json + "*/certified");
  expected.words(reason, why, json + "*/reason");
}

void check_head(const Planted& p, ExpectedColumns& expected) {
  const CertifyResult& r = p.result;
  expected.words("model", {"a model"}, "model");
  expected.words("family", {"a family"}, "family");
  expected.words("model_placement", {"peri"}, "placement");
  expected.numbers("model_layers", {1}, "layers");
  expected.numbers("model_width", {2}, "width");
  expected.words("input", {"real"}, "input");
  expected.numbers("input_maximum", {r.domain.largest}, "input_maximum");
  expected.words("weights", {"a.safetensors", "b.safetensors"});
  expected.words("weights_sha256", {"hash a", "hash b"}, "weights_sha256/*");
  expected.words("arithmetic", {"mixed"}, "arithmetic");
  expected.numbers("length", {static_cast<double>(r.runs[0].longest)}, "length");
  expected.numbers("measured_tokens", {37}, "measured_tokens");
  std::vector<std::string> signals, formats;
  for (const Signal s : theory::certified_signals) signals.emplace_back(name_of(s));
  std::vector<std::string> of_signal;
  for (const Signal s : theory::certified_signals) {
    of_signal.emplace_back(theory::signal_class_names[static_cast<std::size_t>(theory::class_of(s))]);
  }
  for (std::size_t k = 0; k < bounded.size(); ++k) {
    CHECK(of_signal[place_of(k) / places] == theory::signal_class_names[class_of_bound[k]]);
  }
  expected.words("signal_class", of_signal, "signals/*/class");
  std::vector<double> largest;
  for (const NumberFormat& f : number_formats) {
    formats.emplace_back(f.name);
    largest.push_back(f.largest);
  }
  expected.words("signal", signals);
  expected.words("class", {"stream", "branch", "attention", "scores", "mlp", "head", "inside"});
  expected.numbers("place", {-1, 0, 1, 2});
  expected.numbers("depth", {0, 1, 2});
  expected.words("format", formats);
  expected.numbers("format_largest", largest, "formats/*/largest");
  // Of runs, and of what was measured.
  const auto on_formats = [](const std::string& bf16, const std::string& fp16) {
    return std::vector<std::string>{"", bf16, fp16, "", ""};
  };
  const std::string run = "runs/*/";
  expected.words("run_arithmetic", on_formats("mixed", "mixed"), run + "arithmetic");
  expected.words("run_format", on_formats("bf16", "fp16"), run + "format");
  expected.words("run_accumulated", on_formats("fp32", "fp32"), run + "accumulated");
  const double lengths[] = {static_cast<double>(r.runs[0].longest), static_cast<double>(r.runs[1].longest)};
  expected.numbers("run_length", {nan, lengths[0], lengths[1], nan, nan}, run + "length");
  expected.numbers("run_weights_rounded", {nan, 0, 1, nan, nan}, run + "weights_rounded");
  expected.words("own_arithmetic", {"pure"}, "own_run/arithmetic");
  expected.words("own_format", {"fp32"}, "own_run/format");
  expected.words("own_accumulated", {"fp32"}, "own_run/accumulated");
  expected.numbers("own_length", {static_cast<double>(r.own->longest)}, "own_run/length");
  expected.numbers("own_weights_rounded", {0}, "own_run/weights_rounded");
}

void check_verdicts(ExpectedColumns& expected) {
  // BF16 holds all of it; in FP16 the MLP's output passes the largest number, and with it the stream behind it.
  expected.numbers("stream_certified", {nan, 1, 0, nan, nan}, "verdicts/*/stream");
  expected.numbers("everywhere_certified", {nan, 1, 0, nan, nan}, "verdicts/*/everywhere");
  for (const std::string scope : {"stream", "everywhere"}) {
    expected.words(scope + "_reason", {"", "", beyond_fp16, "", ""}, "verdicts/*/" + scope + "_reason");
    const std::string at = "runs/*/" + scope + "/";
    expected.words(scope + "_first_signal", {"", "", "f_out", "", ""}, at + "first/signal");
    expected.numbers(scope + "_first_sublayer", {nan, nan, 1, nan, nan}, at + "first/sublayer");
    expected.numbers(scope + "_first_feature", {nan, nan, 1, nan, nan}, at + "first/feature");
    expected.numbers(scope + "_first_bound", {nan, nan, 7e4, nan, nan}, at + "bound");
    expected.numbers(scope + "_first_limit", {nan, nan, 65504, nan, nan}, at + "limit");
  }
  // Upstream of f_out are only what the attention sublayer has, q, and the MLP's hidden layer.
  const std::string no = beyond_fp16;
  check_run_verdicts(expected, "certified", "run_reason", std::vector<std::string>(classes),
                     {no, no, "", "", "", no, no}, "runs/*/classes/");
}

void check_by_sublayer(const Planted& p, ExpectedColumns& expected) {
  const CertifyResult& r = p.result;
  const Certificate& c = r.certificate;
  const std::size_t stream[] = {0, 4, 8};  // x_out of −1, 0, 1
  std::vector<double> largest, feature, measured, every;
  for (const std::size_t k : stream) {
    largest.push_back(c.bounds[k].largest);
    feature.push_back(static_cast<double>(c.bounds[k].channel));
    const auto* seen = r.measured->find(Signal::x_out, bounded[k].second);
    measured.push_back(std::max(seen->at(0), seen->at(1)));
    every.push_back(c.bounds[k].magnitude[0]);
    every.push_back(c.bounds[k].magnitude[1]);
  }
  expected.numbers("stream_largest", largest, "exact/stream/bound");
  expected.numbers("stream_feature", feature, "exact/stream/feature");
  expected.numbers("stream_measured", measured, "exact/stream/measured");
  expected.numbers("stream_bound", every, "exact/stream/bounds");
  // The largest of a class in a sublayer.
  const auto by_place = [&](const Certificate& of, bool seen) {
    std::vector<double> all(classes * places, nan);
    for (std::size_t k = 0; k < bounded.size(); ++k) {
      const auto* both = r.measured->find(bounded[k].first, bounded[k].second);
      const double value = !seen ? of.bounds[k].largest : both == nullptr ? nan : std::max(both->at(0), both->at(1));
      double& at = all[class_of_bound[k] * places + static_cast<std::size_t>(bounded[k].second + 1)];
      if (std::isnan(at) || value > at) at = value;
    }
    return all;
  };
  expected.numbers("class_bound", by_place(c, false), "exact/classes/*/bounds");
  expected.numbers("class_measured", by_place(c, true), "exact/classes/*/measured");
  std::vector<double> runs(format_count * classes * places, nan);
  for (const std::size_t f : {1U, 2U}) {
    std::ranges::copy(by_place(r.runs[f - 1], false), runs.begin() + static_cast<long>(f * classes * places));
  }
  expected.numbers("run_bound", runs, "runs/*/classes/*/bounds");
}

void check_attacks(const CertifyResult& r, ExpectedColumns& expected) {
  const std::string a = "attack/*/";
  const auto& all = r.attacks;
  expected.words("attack_signal", {"f_out", "up"}, a + "signal");
  expected.numbers("attack_sublayer", {0, 1}, a + "sublayer");
  expected.numbers("attack_feature", {41, 42}, a + "feature");
  expected.numbers("attack_bound", {all[0].bound, all[1].bound}, a + "bound");
  expected.numbers("attack_reached", {all[0].reached, all[1].reached}, a + "reached");
  expected.numbers("attack_ratio", {all[0].reached / all[0].bound, all[1].reached / all[1].bound}, a + "ratio");
  const certify::AttackResult& e = *r.check.exceeded;
  expected.words("exceeded_signal", {"hidden"}, "exceeded/signal");
  expected.numbers("exceeded_sublayer", {1}, "exceeded/sublayer");
  expected.numbers("exceeded_feature", {43}, "exceeded/feature");
  expected.numbers("exceeded_bound", {e.bound}, "exceeded/bound");
  expected.numbers("exceeded_reached", {e.reached}, "exceeded/reached");
  expected.numbers("exceeded_ratio", {e.reached / e.bound}, "exceeded/ratio");
  expected.words("overflowed", {"q, layer 0 attention, feature 1"}, "overflowed");
}

void check_headroom(const Planted& p, ExpectedColumns& expected) {
  const certify::Headroom& h = p.result.headroom;
  expected.numbers("headroom_possible", {1}, "headroom/possible");
  expected.numbers("headroom_gains_alone", {1}, "headroom/gains_alone");
  expected.words("headroom_multiplied", {"m1", "m2"}, "headroom/multiplied");
  expected.words("headroom_divided", {"d1"}, "headroom/divided");
  expected.numbers("headroom_stream_bound", {h.stream_bound}, "headroom/stream_bound");
  expected.numbers("headroom_stream_measured", {h.stream_measured}, "headroom/stream_measured");
  expected.numbers("headroom_margin", {4}, "headroom/margin");
  const auto on_formats = [&](double a, double b) { return std::vector<double>{a, nan, nan, b, nan}; };
  const std::string f = "headroom/formats/*/";
  expected.numbers("headroom_c_certified", on_formats(h.formats[0].stream, h.formats[1].stream), f + "c_certified");
  expected.numbers("headroom_c_measured", on_formats(h.formats[0].measured, h.formats[1].measured), f + "c_measured");
  expected.numbers("headroom_k_certified", on_formats(h.formats[0].branch, h.formats[1].branch), f + "k_certified");
  expected.words("headroom_reason", {"", "", "", "because", ""}, f + "reason");
  const std::string run = "headroom/run/";
  expected.numbers("scaled_c", {h.run->scale.stream}, run + "c");
  expected.numbers("scaled_k", {h.run->scale.branch}, run + "k");
  expected.numbers("scaled_tokens", {47}, run + "tokens");
  expected.numbers("logit_difference", {h.run->difference}, run + "logit_difference");
  expected.numbers("logit_difference_without_eps", {h.run->without_eps}, run + "logit_difference_without_eps");
  expected.numbers("logit_difference_gains_alone", {h.run->gains_alone}, run + "logit_difference_gains_alone");
  check_classes(expected, "scaled_", {&h.run->certificate}, {}, run + "classes/");
  check_fits(expected, "scaled_", h.run->certificate, p.formats, run + "classes/");
  const std::string at = run + "runs/*/classes/";
  check_classes(expected, "scaled_run_", {&h.run->runs[0], &h.run->runs[1]}, {1, 2}, at);
  // In BF16 the squares of the attention sublayer's norm pass FP32: whatever is in or behind that sublayer.
  const std::string no = beyond_fp32;
  check_run_verdicts(expected, "scaled_run_certified", "scaled_run_reason", {no, no, no, "", no, no, no},
                     std::vector<std::string>(classes), at);
}

/// A softmax that is divided after averaging, in blocks of 64 keys, rescales at every block but the first, and that
/// counts as two tokens each: of so few tokens and such small values nothing else limits it.
int tokens_divided_after(const Certificate& c) {
  int n = 0;
  while (n + 1 + 2 * (n / 64) <= c.longest) ++n;
  return n;
}

void check_not_covered(const CertifyResult& r, ExpectedColumns& expected) {
  expected.words("excluded",
                 {fmt::format("attention that divides by softmax's denominator after averaging (flash attention) over "
                              "more tokens than {} in bf16, {} in fp16, or in blocks of fewer than 64",
                              tokens_divided_after(r.runs[0]), tokens_divided_after(r.runs[1])),
                  "attention over parts of the keys whose results are combined afterwards (split-K)",
                  "accumulators that truncate, flush-to-zero"},
                 "excluded");
}

}  // namespace

TEST_CASE("certify: every column from raw numbers") {
  const Planted p = planted();
  const CertifyResult& r = p.result;
  ExpectedColumns expected(certify::schema(), certify::dataset_of(r, p.formats));
  check_head(p, expected);
  check_not_covered(r, expected);
  check_verdicts(expected);
  check_bounds(expected, "", {&r.certificate}, {}, "exact/");
  check_measured(expected, "", r.certificate, *r.measured, "exact/");
  check_bounds(expected, "own_", {&*r.own}, {}, "own_run/");
  check_measured(expected, "own_", *r.own, *r.measured, "own_run/");
  check_bounds(expected, "run_signal_", {&r.runs[0], &r.runs[1]}, {1, 2}, "runs/*/");
  check_classes(expected, "", {&r.certificate}, {}, "exact/classes/");
  check_fits(expected, "", r.certificate, p.formats, "exact/classes/");
  check_classes(expected, "run_", {&r.runs[0], &r.runs[1]}, {1, 2}, "runs/*/classes/");
  check_by_sublayer(p, expected);
  check_attacks(r, expected);
  check_headroom(p, expected);
  expected.complete();
}

}  // namespace periscope::testing::certify_columns
