#include <algorithm>
#include <cmath>
#include <string_view>
#include <vector>

#include "tests/property/arbitrary_stack.h"
#include "tests/support/doctest.h"
#include "tests/support/edited_weights.h"
#include "tests/support/outcome.h"

/// Placements that compute the same function at eps = 0: the scale of a stream read only by norms is a gauge.
namespace periscope::testing {
namespace {

/// A named placement with given scales alpha_l and beta_l. `gauged` replaces them by 1 and beta_l / Π_{k ≤ l} alpha_k.
struct GivenScales {
  const Placement* row = nullptr;
  std::vector<double> alpha;
  std::vector<double> beta;
  bool gauged = false;
};
GivenScales& given() {
  static GivenScales scales;
  return scales;
}

double product_up_to(int addition) {
  double product = 1.0;
  for (int k = 0; k <= addition; ++k) product *= given().alpha.at(static_cast<std::size_t>(k));
  return product;
}

SublayerRule given_rule(const RulePlace& place) {
  SublayerRule rule = given().row->at(place);
  const auto l = static_cast<std::size_t>(place.addition);
  rule.alpha = given().gauged ? 1.0 : given().alpha.at(l);
  rule.beta = given().gauged ? given().beta.at(l) / product_up_to(place.addition) : given().beta.at(l);
  return rule;
}

/// Runs a stack in which all matrices differ in scale and all norms differ in gains and biases.
Outcome outcome_of_stack(const StackSpec& spec, std::uint64_t seed, const std::vector<int>& ids) {
  const Backend& ops = truth();
  const GeneratedWeights drawn(ops, spec, DType::f64, seed);
  const auto sized = [&](int layer, Weight weight, const Tensor& w) {
    return ops.scale(0.5 + 0.25 * ((3 * layer + static_cast<int>(weight)) % 5), w);
  };
  const EditedWeights weights(drawn, sized, random_norms(ops));
  return outcome_of({.ops = ops, .model = spec.model, .weights = weights}, ids);
}

/// A stack with token input and without ReLU, since norm B of a zero branch is NaN at eps = 0.
StackSpec any_token_stack(std::string_view placement) {
  StackSpec spec = any_stack();
  if (spec.model.mlp == MlpKind::relu) spec.model.mlp = MlpKind::gelu;
  spec.model.vocab = 16;
  spec.input.kind = InputKind::tokens;
  spec.model.placement = find_placement(placement).value();
  const NormKind norm = spec.model.norm;
  const QkNorm qk_norm = spec.model.qk_norm;
  take_defaults(spec.model.placement, spec.model);
  spec.model.norm = norm;
  spec.model.qk_norm = qk_norm;
  return spec;
}

std::vector<int> any_ids(const StackSpec& spec) {
  std::vector<int> ids(static_cast<std::size_t>(spec.input.tokens));
  for (int& id : ids) id = any_int(0, spec.model.vocab - 1);
  return ids;
}

constexpr double tolerance = 1e-12;

TEST_CASE("scales (alpha_l, beta_l) and (1, beta_l / prod alpha_k) give the same function for any weights") {
  CHECK(rc::check("alpha is a gauge", [] {
    const auto name = any_of<std::string_view>({"pre", "peri", "lns", "depth-scaled", "beam", "u-mup", "sub-ln",
                                                "layer-scale", "muse-spark", "parallel", "parallel-two"});
    StackSpec spec = any_token_stack(name);
    const Placement row = find_placement(name).value();
    given() = {.row = &row, .alpha = {}, .beta = {}};
    for (int l = 0; l < spec.model.sublayers(); ++l) {
      given().alpha.push_back(any_number(0.3, 3.0));
      given().beta.push_back(any_of({-1.0, 1.0}) * any_number(0.3, 3.0));
    }
    spec.model.placement.rule = given_rule;
    const std::uint64_t seed = any_seed();
    const std::vector<int> ids = any_ids(spec);
    const Outcome plain = outcome_of_stack(spec, seed, ids);
    given().gauged = true;
    const Outcome gauged = outcome_of_stack(spec, seed, ids);
    assert_close(gauged.logits, plain.logits, tolerance);
    for (int step = 0; step < spec.model.steps(); ++step) {
      assert_close(times(product_up_to(step), gauged.stack.at(step, Signal::x_out)),
                   plain.stack.at(step, Signal::x_out), tolerance);
    }
  }));
}

/// Returns the logits of `placement` with the embedding scaled by `embedding`.
std::vector<double> logits_of(StackSpec spec, std::string_view placement, double embedding, std::uint64_t seed,
                              const std::vector<int>& ids) {
  spec.model.placement = find_placement(placement).value();
  spec.model.embedding.scale = embedding;
  return outcome_of_stack(spec, seed, ids).logits;
}

TEST_CASE("depth-scaled and u-mup equal Pre-LN, beam equals Peri-LN, with a rescaled embedding") {
  CHECK(rc::check("both placements have equal logits", [] {
    const StackSpec spec = any_token_stack("pre");
    const double layers = spec.model.layers;
    struct Pair {
      std::string_view one, other;
      double embedding;  ///< embedding scale of `other`
    };
    const Pair pair = any_of<Pair>(
        {{"depth-scaled", "pre", std::sqrt(2.0 * layers)}, {"u-mup", "pre", std::sqrt(layers)}, {"beam", "peri", 1.0}});
    const std::uint64_t seed = any_seed();
    const std::vector<int> ids = any_ids(spec);
    assert_close(logits_of(spec, pair.other, pair.embedding, seed, ids), logits_of(spec, pair.one, 1.0, seed, ids),
                 tolerance);
  }));
}

TEST_CASE("placements differ if the embedding scale is wrong or a module reads the stream without a norm") {
  StackSpec spec = tiny_stack();
  spec.model.norm_eps = 0.0;
  spec.input.kind = InputKind::tokens;
  const std::vector<int> ids{1, 5, 2, 9, 5};
  const auto apart = [&](std::string_view one, std::string_view other, double embedding) {
    const std::vector<double> a = logits_of(spec, one, 1.0, 1, ids);
    const std::vector<double> b = logits_of(spec, other, embedding, 1, ids);
    double worst = 0.0;
    for (std::size_t i = 0; i < a.size(); ++i) worst = std::max(worst, std::abs(a[i] - b[i]));
    return worst;
  };
  CHECK(apart("u-mup", "pre", std::sqrt(2.0)) < 1e-12);
  CHECK(apart("u-mup", "pre", 1.0) > 1e-3);
  CHECK(apart("u-mup", "b-only", std::sqrt(2.0)) > 1e-3);
}

TEST_CASE("hyper-connections without mixing that write to every stream equal Pre-LN") {
  CHECK(rc::check("hyper = pre", [] {
    StackSpec spec = any_token_stack("hyper");
    spec.model.streams = any_int(1, 5);
    spec.model.stream_mixing = StreamMixing::identity;
    spec.model.stream_write = StreamWrite::all;
    const std::uint64_t seed = any_seed();
    const std::vector<int> ids = any_ids(spec);
    assert_close(outcome_of_stack(spec, seed, ids).logits, logits_of(spec, "pre", 1.0, seed, ids), tolerance);
  }));
}

/// Returns mean |û − v̂|²/D over tokens, for streams normalized to rms 1.
double rotation(const std::vector<double>& u, const std::vector<double>& v, int width) {
  const std::vector<double> qu = second_moments(u, width);
  const std::vector<double> qv = second_moments(v, width);
  const auto d = static_cast<std::size_t>(width);
  double sum = 0.0;
  for (std::size_t i = 0; i < u.size(); ++i) {
    const double apart = u[i] / std::sqrt(qu[i / d]) - v[i] / std::sqrt(qv[i / d]);
    sum += apart * apart;
  }
  return sum / static_cast<double>(u.size());
}

double mean(const std::vector<double>& x) {
  double sum = 0.0;
  for (const double v : x) sum += v;
  return sum / static_cast<double>(x.size());
}

/// Rotation of a freshly initialized stack's stream by all layers after the first, and mean square of their branches.
struct Turn {
  double angle2;
  double branch;
};
Turn turn_of(std::string_view placement, int layers) {
  StackSpec spec = placed(tiny_stack(), placement);
  ModelSpec& m = spec.model;
  m.layers = layers;
  m.width = 64;
  m.heads = m.kv_heads = 4;
  m.head_dim = 16;
  m.mlp_width = 128;
  m.gamma = 1.0;
  m.norm_eps = 0.0;
  spec.input.tokens = 8;
  Turn turn{0.0, 0.0};
  constexpr int seeds = 4;
  for (int seed = 1; seed <= seeds; ++seed) {
    const RecordedStack record = record_stack(truth_target(), spec, static_cast<std::uint64_t>(seed));
    turn.angle2 += rotation(record.at(1, Signal::x_out), record.at(m.sublayers() - 1, Signal::x_out), m.width) / seeds;
    for (int l = 2; l < m.sublayers(); ++l) {
      turn.branch += mean(second_moments(record.at(l, Signal::f_out), m.width)) / (m.sublayers() - 2) / seeds;
    }
  }
  return turn;
}

TEST_CASE("KEEL at initialization rotates the stream by an angle of order 1/(2L)") {
  // Each of the 2L − 2 sublayers after layer 0 adds an independent branch f/(2L) to a stream of second moment 1.
  for (const int layers : {4, 8, 16, 32}) {
    CAPTURE(layers);
    const Turn keel = turn_of("keel", layers);
    const double expected = (2.0 * layers - 2.0) / (4.0 * layers * layers) * keel.branch;
    CAPTURE(keel.angle2);
    CHECK(keel.angle2 / expected == approx(1.0).epsilon(0.2));
    CHECK(turn_of("pre", layers).angle2 > 0.2);
  }
}

/// Computes Σ_i |x_i − x̄|² / (n |x̄|²) of the streams after every step.
class StreamDifference final : public SignalRecorder {
 public:
  explicit StreamDifference(const Backend& ops) : ops_(ops) {}
  void on_signal(const Emission& at, const Tensor& x) override {
    if (at.signal != Signal::x_out || at.sublayer < 0 || at.pass != Pass::forward) return;
    const auto step = static_cast<std::size_t>(at.sublayer);
    if (parts_.size() <= step) parts_.resize(step + 1);
    parts_[step].push_back(ops_.to_host(x));
  }
  [[nodiscard]] std::vector<double> ratios() const {
    std::vector<double> all;
    for (const auto& streams : parts_) all.push_back(ratio(streams));
    return all;
  }

 private:
  static double ratio(const std::vector<std::vector<double>>& streams) {
    const auto n = static_cast<double>(streams.size());
    double apart = 0.0;
    double common = 0.0;
    for (std::size_t k = 0; k < streams.front().size(); ++k) {
      double sum = 0.0;
      for (const auto& x : streams) sum += x[k];
      for (const auto& x : streams) apart += (x[k] - sum / n) * (x[k] - sum / n);
      common += n * (sum / n) * (sum / n);
    }
    return apart / common;
  }

  const Backend& ops_;
  std::vector<std::vector<std::vector<double>>> parts_;
};

/// Differences of streams if each branch writes to the stream it reads and layers from `silent_from` on write nothing.
std::vector<double> stream_differences(StreamMixing mixing, int silent_from) {
  StackSpec spec = placed(tiny_stack(), "hyper");
  spec.model.layers = 8;
  spec.model.streams = 4;
  spec.model.stream_mixing = mixing;
  spec.model.stream_write = StreamWrite::one;
  spec.model.norm_eps = 0.0;
  const Backend& ops = truth();
  const GeneratedWeights drawn(ops, spec, DType::f64, 5);
  const auto silenced = [&](int layer, Weight weight, const Tensor& w) {
    const bool writes = weight == Weight::o || weight == Weight::down;
    return writes && layer >= silent_from ? ops.scale(0.0, w) : w;
  };
  const EditedWeights weights(drawn, silenced, same_norm);
  StreamDifference differences(ops);
  const StackContext context{.ops = ops, .model = spec.model, .weights = weights};
  (void)stack_forward(context, gaussian_input(ops, spec, DType::f64, 5), {.recorders = {&differences}});
  return differences.ratios();
}

TEST_CASE("random mixing removes differences between streams in a few sublayers; without mixing they remain") {
  const std::vector<double> mixed = stream_differences(StreamMixing::random, 1);
  const std::vector<double> unmixed = stream_differences(StreamMixing::identity, 1);
  REQUIRE(mixed.size() == 16);
  CHECK(mixed[1] > 0.01);
  for (std::size_t step = 2; step < mixed.size(); ++step) {
    INFO("step := ", step, ", mixed[step - 1] := ", mixed[step - 1]);
    CHECK(mixed[step] < 0.7 * mixed[step - 1]);
    CHECK(unmixed[step] == approx(unmixed[1]).epsilon(1e-12));
  }
  CHECK(mixed[5] < 0.05 * mixed[1]);
  // If all layers write, only differences due to the last few layers remain.
  CHECK(stream_differences(StreamMixing::random, 8).back() <
        0.3 * stream_differences(StreamMixing::identity, 8).back());
}

}  // namespace
}  // namespace periscope::testing
