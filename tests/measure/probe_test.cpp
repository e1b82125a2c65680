#include "sim/measure/probe.h"

#include "tests/support/doctest.h"

#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "sim/measure/signal_store.h"
#include "tests/support/recorded_stack.h"

namespace periscope::testing {
namespace {

using Values = std::vector<double>;

/// A probe of a stack of width 2 that receives hand-made signals.
class ByHand {
 public:
  explicit ByHand(std::string_view placement = "peri", int sequences = 1, int layers = 1)
      : ByHand(with(placement, layers), sequences) {}
  explicit ByHand(const SublayerRule& rule) : ByHand(with(rule), 1) {}
  ByHand(StackSpec spec, int sequences)
      : spec_(std::move(spec)),
        weights_(truth(), spec_, DType::f64, 1),
        context_{truth(), spec_.model, weights_, sequences},
        probe_(context_) {}

  void input(const Values& x) {
    const Tensor both = rows(x);
    probe_.on_signal({-1, Signal::x_out, Pass::forward}, both);
    if (spec_.model.placement.wiring == Wiring::dual) probe_.on_signal({-1, Signal::r_out, Pass::forward}, both);
  }
  void site(int sublayer, Signal site, const Values& x, int part = 0) {
    probe_.on_signal({sublayer, site, Pass::forward, part}, rows(x));
  }
  Reading take() { return probe_.take(); }

 private:
  static StackSpec with(std::string_view placement, int layers) {
    StackSpec spec = placed(tiny_stack(), placement);
    spec.model.layers = layers;
    spec.model.width = 2;
    return spec;
  }
  static StackSpec with(const SublayerRule& rule) {
    StackSpec spec = with("none", 1);
    spec.model.placement = custom_placement(rule);
    return spec;
  }
  static Tensor rows(const Values& x) {
    return truth().from_host(static_cast<Tensor::Index>(x.size() / 2), 2, DType::f64, x);
  }

  StackSpec spec_;
  GeneratedWeights weights_;
  StackContext context_;
  Probe probe_;
};

double value(const Reading& reading, Statistic statistic, Signal site, std::size_t index) {
  const Curve* curve = reading.profile.find(statistic, site);
  REQUIRE(curve != nullptr);
  return curve->value.at(index);
}

TEST_CASE("probe: ratio and cosine of branch and stream match hand-computed values") {
  // The placement determines beta: 1/√2 for depth-scaled with one layer.
  for (const auto& [placement, scale] : {std::pair{"peri", 1.0}, std::pair{"depth-scaled", std::sqrt(0.5)}}) {
    ByHand probe(placement);
    probe.input({1, 0, 0, 2});
    probe.site(1, Signal::x_in, {1, 0, 0, 2});
    probe.site(1, Signal::B_out, {3, 4, -3, 3});
    const Reading r = probe.take();
    CHECK(value(r, Statistic::branch_ratio, Signal::B_out, 1) == approx(scale * (5.0 + std::sqrt(18.0) / 2.0) / 2.0));
    CHECK(value(r, Statistic::branch_cosine, Signal::B_out, 1) == approx((0.6 + std::sqrt(0.5)) / 2.0));
    CHECK(std::isnan(value(r, Statistic::branch_ratio, Signal::B_out, 0)));
  }
  // With several streams, alpha is the mixing weight of the stream that the sublayer reads.
  StackSpec mixed = placed(tiny_stack(), "hyper");
  mixed.model.layers = 1;
  mixed.model.width = 2;
  mixed.model.stream_mixing = StreamMixing::random;
  ByHand streams(mixed, 1);
  for (const int sublayer : {0, 1}) {
    streams.site(sublayer, Signal::x_in, {1, 0});
    streams.site(sublayer, Signal::B_out, {3, 4});
  }
  const Reading of_streams = streams.take();
  for (const std::size_t l : {0U, 1U}) {
    const double mixing_weight = mixed.model.step(static_cast<int>(l)).mixing[l][l];
    CHECK(value(of_streams, Statistic::branch_ratio, Signal::B_out, l) == approx(5.0 / mixing_weight));
  }
  // The ratio is scaled by |beta/alpha|; the cosine ignores signs.
  ByHand probe(SublayerRule{.alpha = -0.5, .beta = 3.0});
  probe.input({1, 0});
  probe.site(0, Signal::x_in, {1, 0});
  probe.site(0, Signal::B_out, {3, 4});
  const Reading r = probe.take();
  CHECK(value(r, Statistic::branch_ratio, Signal::B_out, 0) == approx(6.0 * 5.0));
  CHECK(value(r, Statistic::branch_cosine, Signal::B_out, 0) == approx(0.6));
}

TEST_CASE("probe: angular distance between depths is a mean over tokens in units of pi") {
  ByHand probe;
  probe.input({1, 0, 0, 1});
  probe.site(0, Signal::x_out, {0, 2, 0, 3});    // angles π/2; 0
  probe.site(1, Signal::x_out, {-1, 0, 1, -1});  // angles from the input: π; 3π/4
  const Values d = probe.take().profile.angular_distance;
  REQUIRE(d.size() == 9);
  CHECK(d[0 * 3 + 1] == approx((0.5 + 0.0) / 2));
  CHECK(d[0 * 3 + 2] == approx((1.0 + 0.75) / 2));
  CHECK(d[1 * 3 + 2] == approx((0.5 + 0.75) / 2));
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(d[i * 3 + i] == 0.0);
    for (std::size_t j = 0; j < 3; ++j) CHECK(d[i * 3 + j] == d[j * 3 + i]);
  }
}

TEST_CASE("probe: token cosine pairs only tokens of the same sequence") {
  ByHand probe("peri", 2);
  probe.input({1, 0, 0, 1, 3, 4, 6, 8});  // token cosines of the two sequences: 0 and 1
  CHECK(value(probe.take(), Statistic::token_cosine, Signal::x_out, 0) == approx(0.5));
}

TEST_CASE("probe: angular distance of many tokens uses a subset spread over all tokens") {
  // The first 100 of 200 tokens rotate by π/2; the other tokens do not rotate.
  Values before, after;
  for (int t = 0; t < 200; ++t) {
    before.insert(before.end(), {1.0, 0.0});
    after.insert(after.end(), {t < 100 ? 0.0 : 1.0, t < 100 ? 1.0 : 0.0});
  }
  ByHand probe;
  probe.input(before);
  probe.site(0, Signal::x_out, after);
  CHECK(probe.take().profile.angular_distance[1] == approx(0.25));
}

TEST_CASE("probe: stacks deeper than angular_depths have no angular distance") {
  for (const int layers : {256, 257}) {  // 513 and 515 depths
    ByHand probe("peri", 1, layers);
    probe.input({1, 0});
    for (int l = 0; l < 2 * layers; ++l) probe.site(l, Signal::x_out, {1, 1});
    const std::size_t depths = static_cast<std::size_t>(2 * layers) + 1;
    const Values d = probe.take().profile.angular_distance;
    CHECK(d.size() == (depths <= angular_depths ? depths * depths : 0));
    if (!d.empty()) CHECK(d[1] == approx(0.25));
  }
}

TEST_CASE("probe: top magnitudes per sublayer are sorted and at most top_count") {
  ByHand probe;
  probe.input({1, 1});
  Values many;
  for (int i = 0; i < 300; ++i) many.push_back(i % 2 == 0 ? i : -i);
  probe.site(0, Signal::f_out, {1, -5, 3, 2});
  probe.site(1, Signal::f_out, many);
  const Reading r = probe.take();
  const auto& top = r.top.at(Signal::f_out);
  REQUIRE(top.size() == 2);
  CHECK(top[0] == Values{5, 3, 2, 1});
  CHECK(top[1].size() == top_count);
  CHECK(top[1].front() == 299.0);
  CHECK(top[1].back() == 200.0);
}

TEST_CASE("probe: a stream of several parts has the mean of their statistics, their common extremes, and every NaN") {
  StackSpec two_streams = placed(tiny_stack(), "hyper");
  two_streams.model.layers = 1;
  two_streams.model.width = two_streams.model.streams = 2;
  ByHand probe(two_streams, 1);
  probe.site(0, Signal::x_out, {1, -5, 3, 2});
  probe.site(0, Signal::x_out, {-4, 1, 7, 0}, 1);
  probe.site(1, Signal::x_out, {std::numeric_limits<double>::quiet_NaN(), 1});
  probe.site(1, Signal::x_out, {2, 1}, 1);
  const Reading r = probe.take();
  CHECK(value(r, Statistic::second_moment, Signal::x_out, 1) == approx((39.0 + 66.0) / 8.0));
  CHECK(value(r, Statistic::maximum, Signal::x_out, 1) == 7.0);
  CHECK(r.top.at(Signal::x_out)[0] == Values{7, 5, 4, 3});
  CHECK(std::isnan(value(r, Statistic::second_moment, Signal::x_out, 2)));
  CHECK(std::isnan(value(r, Statistic::maximum, Signal::x_out, 2)));
  CHECK(r.diverged_at == 1);
}

TEST_CASE("probe: divergence is the first sublayer with a non-finite output") {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  ByHand healthy;
  healthy.input({1, 1});
  healthy.site(0, Signal::x_out, {1e150, 1});
  CHECK(healthy.take().diverged_at == -1);
  for (const double bad : {infinity, -infinity, std::numeric_limits<double>::quiet_NaN()}) {
    ByHand probe;
    probe.input({1, 1});
    probe.site(0, Signal::x_out, {1, 1});
    probe.site(1, Signal::f_out, {bad, 1});
    probe.site(1, Signal::x_out, {bad, 1});
    const Reading r = probe.take();
    CHECK(r.diverged_at == 1);
    CHECK_FALSE(std::isfinite(value(r, Statistic::second_moment, Signal::x_out, 2)));
    CHECK_FALSE(std::isfinite(value(r, Statistic::maximum, Signal::x_out, 2)));
    CHECK(value(r, Statistic::second_moment, Signal::x_out, 1) == 1.0);
  }
}

TEST_CASE("probe: the token cosine of sequences of different lengths is their mean; one token has none") {
  StackSpec spec = placed(tiny_stack(), "pre");
  spec.model.layers = 1;
  spec.model.width = 2;
  const GeneratedWeights weights(truth(), spec, DType::f64, 1);
  const StackContext context{truth(), spec.model, weights, 1};
  Probe probe(context, false, {2, 1, 3});
  const Values x{1, 0, 3, 4, 9, 9, 0, 1, 0, 2, 0, -1};
  probe.on_signal({-1, Signal::x_out, Pass::forward}, truth().from_host(6, 2, DType::f64, x));
  // cos = 3/5 in the first sequence, and 1, −1, −1 in the last.
  CHECK(value(probe.take(), Statistic::token_cosine, Signal::x_out, 0) == approx((0.6 - 1.0 / 3.0) / 2.0));
}

TEST_CASE("probe: statistics of a real stack equal statistics of the recorded signals") {
  for (const Placement& placement : placement_table()) {
    if (placement.wiring == Wiring::hyper) continue;  // the streams are parts of one signal
    CAPTURE(placement.name);
    const StackSpec spec = placed(tiny_stack(), placement.name);
    const GeneratedWeights weights(truth(), spec, DType::f64, 1);
    const StackContext context{truth(), spec.model, weights, 1};
    const Tensor input = gaussian_input(truth(), spec, DType::f64, 1);
    Probe probe(context);
    SignalStore signals(Pass::forward);
    (void)stack_forward(context, input, {.recorders = {&probe, &signals}});
    const Reading r = probe.take();
    bool has_sum = false;
    for (int s = 0; s < spec.model.steps(); ++s) {
      if (!spec.model.step(s).norm_c.front()) continue;
      has_sum = true;
      CHECK(value(r, Statistic::maximum, Signal::sum, static_cast<std::size_t>(s) + 1) ==
            truth().statistics_of(signals.at(s, Signal::sum), {.top_magnitudes = 1}).top_magnitudes[0]);
    }
    CHECK((r.profile.find(Statistic::maximum, Signal::sum) != nullptr) == has_sum);
    const RecordedStack record = record_stack(context, input);
    for (const auto& [place, x] : record.site) {
      const auto& [sublayer, site] = place;
      const Tensor signal = truth().from_host(spec.input.tokens, spec.model.width, DType::f64, x);
      const RowMoments m = truth().row_moments(signal);
      const std::size_t i =
          static_cast<std::size_t>(sublayer) + (site == Signal::x_out || site == Signal::r_out ? 1 : 0);
      const auto mean = [](const Values& v) {
        return std::accumulate(v.begin(), v.end(), 0.0) / static_cast<double>(v.size());
      };
      CHECK(value(r, Statistic::second_moment, site, i) == approx(mean(m[Statistic::second_moment])).epsilon(1e-14));
      CHECK(value(r, Statistic::variance, site, i) == approx(mean(m[Statistic::variance])).epsilon(1e-14));
      CHECK(value(r, Statistic::kurtosis, site, i) == approx(mean(m[Statistic::kurtosis])).epsilon(1e-14));
      const auto here = truth().statistics_of(signal, {.cosine_of_sequences = 1, .top_magnitudes = top_count});
      CHECK(value(r, Statistic::token_cosine, site, i) == here.token_cosine);
      CHECK(r.top.at(site)[static_cast<std::size_t>(sublayer)] == here.top_magnitudes);
    }
    CHECK(r.profile.angular_distance.size() == spec.model.depths() * spec.model.depths());
  }
}

}  // namespace
}  // namespace periscope::testing
