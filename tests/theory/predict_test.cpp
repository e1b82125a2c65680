#include "theory/predict/predict.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "tests/support/compare.h"
#include "tests/support/doctest.h"
#include "tests/support/significance.h"
#include "tests/support/threads.h"
#include "tests/theory/same_curves.h"
#include "tests/theory/xiong.h"
#include "theory/attention/token_grid.h"

namespace periscope::theory {
namespace {

StackSpec softmax_stack(std::string_view placement) {
  StackSpec spec = testing::placed(testing::tiny_stack(), placement);
  spec.input.correlation = 0.3;
  return spec;
}

/// A stack small enough for a hundred predictions.
StackSpec quick_stack(std::string_view placement) {
  StackSpec spec = softmax_stack(placement);
  spec.model.heads = spec.model.kv_heads = 4;
  spec.model.head_dim = 8;
  spec.model.rope = true;
  spec.init.scheme = InitScheme::lecun;
  spec.input.tokens = 6;
  return spec;
}

TEST_CASE("a prediction has the same bits for 1, 2 and 3 threads, even on a token grid") {
  StackSpec on_grid = quick_stack("peri");
  on_grid.input.tokens = 256;
  REQUIRE(grid_for(on_grid).has_value());
  for (const StackSpec& spec : {softmax_stack("pre"), softmax_stack("residual-dual"), on_grid}) {
    const auto run = [&](int count) {
      const testing::Threads threads(count);
      return predict(spec, {}, {.tolerance = 1.0, .max_samples = 16});
    };
    const Prediction alone = run(1);
    for (const int count : {2, 3}) {
      const Prediction several = run(count);
      CHECK(several.samples == alone.samples);
      testing::check_same_bits("angles", several.profile.angular_distance, alone.profile.angular_distance);
      check_same_curves(several.profile, alone.profile);
    }
  }
}

TEST_CASE("a stack whose layers all override their heads has the prediction of the same stack without overrides") {
  for (const std::string_view placement : {"pre", "peri"}) {
    StackSpec plain = quick_stack(placement), overridden = plain;
    plain.model.qk_norm = overridden.model.qk_norm = QkNorm::head;
    plain.model.head_dim = 6;
    plain.model.kv_heads = 2;
    overridden.model.attention.assign(static_cast<std::size_t>(plain.model.layers), {.head_dim = 6, .kv_heads = 2});
    const PredictionOptions options{.tolerance = 1.0, .max_samples = 16, .labels = {{0, 1, 2, 3, 4, 5}}};
    check_same_curves(predict(overridden, {}, options).profile, predict(plain, {}, options).profile);
  }
}

TEST_CASE("with uniform attention, head_dim affects no second moment and no gradient except that of the layer's W_o") {
  StackSpec plain = quick_stack("pre"), wider = plain;
  plain.init.qk_factor = wider.init.qk_factor = 0.0;
  wider.model.attention.resize(static_cast<std::size_t>(plain.model.layers));
  wider.model.attention.back().head_dim = 2 * plain.model.head_dim;
  const PredictionOptions options{.tolerance = 1.0, .max_samples = 16, .labels = {{0, 1, 2, 3, 4, 5}}};
  const Profile expected = predict(plain, {}, options).profile, found = predict(wider, {}, options).profile;
  for (const CurvePlace place : {CurvePlace(Signal::f_out), CurvePlace(Signal::x_out)}) {
    testing::check_close("second moments", found.find(Statistic::second_moment, place)->value,
                         expected.find(Statistic::second_moment, place)->value, 1e-12);
  }
  for (const Weight weight : {Weight::v, Weight::o}) {
    std::vector<double> of_layers = expected.find(Statistic::grad_sq, weight)->value;
    if (weight == Weight::o) of_layers.back() *= 2.0;  // a sum over twice as many columns of equal gradients
    testing::check_close(std::string(name_of(weight)), found.find(Statistic::grad_sq, weight)->value, of_layers, 1e-12);
  }
}

TEST_CASE("on_progress receives the finished fraction, and its exceptions propagate") {
  const StackSpec spec = softmax_stack("pre");
  for (const std::vector<std::vector<int>>& labels : {std::vector<std::vector<int>>(), {{0, 1, 2, 3, 4, 5}}}) {
    const auto run = [&](OnProgress on_progress) {
      const Prediction p =
          predict(spec, {}, {.max_samples = 256, .labels = labels, .on_progress = std::move(on_progress)});
      return p.profile.find(Statistic::second_moment, Signal::x_out)->value;
    };
    const testing::Threads threads(2);
    std::vector<double> shares;
    const std::vector<double> value = run([&](double share) { shares.push_back(share); });
    REQUIRE(shares.size() > 100);
    CHECK(std::ranges::is_sorted(shares));
    CHECK(shares.front() > 0.0);
    CHECK(shares.front() < 0.05);
    CHECK(shares.back() == approx(1.0));
    CHECK(value == run({}));
    struct Enough {};
    const auto stop = [](double share) {
      if (share > 0.5) throw Enough();
    };
    CHECK_THROWS_AS(run(stop), Enough);
  }
}

TEST_CASE("the finished fraction advances while replicates are added") {
  std::vector<double> shares;
  const OnProgress record = [&](double share) { shares.push_back(share); };
  predict(softmax_stack("pre"), {}, {.tolerance = 0.01, .max_samples = 1 << 14, .on_progress = record});
  CHECK(std::ranges::adjacent_find(shares, std::ranges::greater_equal()) == shares.end());
  shares.clear();
  PredictionProgress progress(record);
  progress.expect(10.0, true);
  progress.add(10.0);
  progress.expect(10.0, true);
  progress.add(5.0);
  CHECK(shares.at(0) == approx(0.7));
  CHECK(shares.at(1) == approx(0.7 + 0.7 * 0.3 / 2));
}

TEST_CASE("replicates are added until the tolerance or max_samples is reached") {
  const Prediction p = predict(softmax_stack("pre"), {}, {.tolerance = 0.01, .max_samples = 1 << 14});
  const Curve& q = *p.profile.find(Statistic::second_moment, Signal::x_out);
  for (std::size_t i = 0; i < q.value.size(); ++i) CHECK(q.standard_error[i] <= 0.01 * q.value[i]);
  CHECK(p.samples < 1 << 14);
  StackSpec longer = softmax_stack("pre");
  longer.input.tokens = 64;
  CHECK(predict(longer, {}, {.tolerance = 1e-9, .max_samples = 512}).samples == 512);
  // Five tokens are cheap, so four times as many patterns are sampled.
  CHECK(predict(softmax_stack("pre"), {}, {.tolerance = 1e-9, .max_samples = 512}).samples == 4 * 512);
  CHECK(predict(softmax_stack("pre"), {}, {.tolerance = 1e-9, .max_samples = 16}).samples == 16 * 16);
}

const std::vector<std::vector<int>> some_labels{{0, 1, 2, 3, 1, 4}, {5, 0, 0, 3, 2, 1}};

/// Calls visit(name, statistic, curve) for every curve of a profile.
template <class Visit>
void for_curves(const Profile& profile, const Visit& visit) {
  for (const auto& [key, curve] : profile.curves) {
    visit(fmt::format("{} {}", statistic_names[static_cast<std::size_t>(key.first)], name_of(key.second)), key.first,
          curve);
  }
}

/// Values of one predicted number over 100 prediction seeds, and the mean of their stated variances.
struct Spread {
  std::vector<double> values;
  double stated = 0.0;
};

TEST_CASE("every number varies over 100 prediction seeds by its stated error" * doctest::test_suite("slow")) {
  // B-only without norm A has sharp patterns, where noise of the kernels causes a bias.
  for (const char* placement : {"post", "b-only"}) {
    StackSpec spec = quick_stack(placement);
    if (placement == std::string("b-only")) {
      spec.model.layers = 6;
      spec.init.qk_factor = 2.0;
    }
    std::map<std::string, Spread> spreads;
    int imprecise = 0;
    for (std::uint64_t seed = 0; seed < 100; ++seed) {
      const Prediction p =
          predict(spec, {}, {.tolerance = 0.03, .gradient_tolerance = 0.1, .seed = seed, .labels = some_labels});
      for_curves(p.profile, [&](const std::string& name, Statistic statistic, const Curve& curve) {
        for (std::size_t i = 0; i < curve.value.size(); ++i) {
          if (std::isnan(curve.value[i])) continue;  // score_share is NaN for an MLP
          imprecise += is_precise(p, statistic, curve, i) ? 0 : 1;
          Spread& spread = spreads[fmt::format("{} {}[{}]", placement, name, i)];
          spread.values.push_back(curve.value[i]);
          spread.stated += curve.standard_error[i] * curve.standard_error[i] / 100;
        }
      });
    }
    CHECK(imprecise == 0);
    const Prediction precise = predict(
        spec, {},
        {.tolerance = 0.006, .gradient_tolerance = 0.02, .max_samples = 1 << 17, .seed = 1000, .labels = some_labels});
    for_curves(precise.profile, [&](const std::string& name, Statistic, const Curve& curve) {
      for (std::size_t i = 0; i < curve.value.size(); ++i) {
        const auto it = spreads.find(fmt::format("{} {}[{}]", placement, name, i));
        if (it == spreads.end()) continue;
        const testing::Estimate mean = testing::estimate(it->second.values);
        // Skips numbers that are exact up to accumulated rounding.
        if (it->second.stated <= std::pow(1e-6 * mean.mean, 2)) continue;
        const double ratio = 100 * mean.standard_error * mean.standard_error / it->second.stated;
        // An F distribution with 99 and about 1500 degrees of freedom is within [0.47, 1.85] with probability 1 − 1e-6.
        CHECK_MESSAGE((ratio > 0.47 && ratio < 1.85), it->first, ": variance over stated ", ratio);
        // One prediction may have a bias of 0.3 standard errors. The mean of 100 has an error of 0.1 standard errors.
        const double error = std::sqrt(it->second.stated);
        const double allowed = 0.3 * error + 5.0 * std::hypot(mean.standard_error, curve.standard_error[i]);
        CHECK_MESSAGE(std::abs(mean.mean - curve.value[i]) < allowed, it->first, ": bias ",
                      (mean.mean - curve.value[i]) / error, " standard errors");
      }
    });
  }
}

TEST_CASE("an operation budget reduces replicates and patterns; the predictions agree within their errors") {
  const StackSpec spec = softmax_stack("pre");
  const Prediction usual = predict(spec, {}, {.tolerance = 0.5});
  CHECK(usual.left_out.empty());
  const double each = pattern_operations(spec, false);
  CHECK(pattern_operations(spec, true) == approx(4.0 * each));
  int before = usual.samples;
  CHECK(before == 16 * 16);
  for (const double budget : {170.0, 80.0, 60.0, 40.0, 24.0}) {
    const Prediction p = predict(spec, {}, {.tolerance = 0.5, .operations = budget * each});
    CHECK(p.samples < before);
    before = p.samples;
    CHECK_MESSAGE(p.left_out.empty(), "the tolerance is reached");
    const Curve& q = *p.profile.find(Statistic::second_moment, Signal::x_out);
    const Curve& wide = *usual.profile.find(Statistic::second_moment, Signal::x_out);
    for (std::size_t i = 0; i < q.value.size(); ++i) {
      // Student's t with 3 degrees of freedom exceeds 12 with probability 0.001.
      CHECK(std::abs(q.value[i] - wide.value[i]) <= 12.0 * std::hypot(q.standard_error[i], wide.standard_error[i]));
    }
  }
  CHECK(before == 4 * 4);
  CHECK(predict(spec, {}, {.tolerance = 0.5, .operations = 1.0}).samples == before);
  // Further replicates for the tolerance also count against the budget.
  const Prediction wanting = predict(spec, {}, {.tolerance = 1e-6, .operations = 1000.0 * each});
  CHECK(wanting.samples <= 1000);
  CHECK(wanting.samples > 500);
  CHECK(wanting.left_out.find("theory.tolerance") != std::string::npos);
  CHECK(wanting.left_out.find(std::to_string(wanting.samples)) != std::string::npos);
  const Prediction all =
      predict(spec, {}, {.tolerance = 1e-6, .max_samples = 2048, .operations = each, .reaches_tolerance = true});
  CHECK(all.samples > 1500);
  CHECK(all.left_out.empty());
}

TEST_CASE("a gradient of exactly zero is predicted as 0 without error, its logarithm as -inf") {
  const auto zero = [](const StackSpec& spec, std::initializer_list<Weight> weights, int classes = 64) {
    std::vector<int> labels;
    for (int t = 0; t < spec.input.tokens; ++t) labels.push_back(t % classes);
    const Prediction p = predict(spec, {}, {.max_samples = 64, .labels = {labels}});
    REQUIRE(p.unsupported.empty());
    for (const Weight w : weights) {
      const Curve& g = *p.profile.find(Statistic::grad_sq, w);
      const Curve& log = *p.profile.find(Statistic::log_grad_sq, w);
      for (std::size_t i = 0; i < g.value.size(); ++i) {
        CHECK(g.value[i] == 0.0);
        CHECK(g.standard_error[i] == 0.0);
        CHECK(log.value[i] == -std::numeric_limits<double>::infinity());
        CHECK(log.standard_error[i] == 0.0);
        CHECK(is_precise(p, Statistic::log_grad_sq, log, i));
      }
    }
    for_curves(p.profile, [&](const std::string& name, Statistic statistic, const Curve& curve) {
      if (statistic != Statistic::grad_sq && statistic != Statistic::log_grad_sq) return;
      for (std::size_t i = 0; i < curve.value.size(); ++i) {
        CHECK_MESSAGE(!std::isnan(curve.value[i]), name);
        CHECK_MESSAGE(!std::isnan(curve.standard_error[i]), name);
      }
    });
  };
  for (const char* placement : {"pre", "peri", "post"}) {
    for (const auto& change : std::initializer_list<void (*)(StackSpec&)>{
             [](StackSpec& s) { s.input.tokens = 1; }, [](StackSpec& s) { s.input.correlation = 1.0; },
             [](StackSpec& s) { s.init.qk_factor = 0.0; }, [](StackSpec& s) { s.model.gamma = 0.0; }}) {
      StackSpec spec = quick_stack(placement);
      change(spec);
      zero(spec, {Weight::q, Weight::k});
    }
    StackSpec spec = quick_stack(placement);
    spec.model.vocab = 1;
    zero(spec, {Weight::q, Weight::k, Weight::v, Weight::o, Weight::up, Weight::down}, 1);
  }
}

TEST_CASE("replicates of one input spread about its mean, so each input costs a degree of freedom") {
  // The loose tolerance is met by the initial 16 replicates of 16 patterns.
  const PredictionOptions loose{.tolerance = 1.0};
  StackSpec spec = softmax_stack("pre");
  const Prediction gaussian = predict(spec, {}, loose);
  CHECK(gaussian.samples == 256);
  CHECK(gaussian.replicates == 16);
  spec.input.kind = InputKind::tokens;
  const std::vector<int> ids{0, 1, 2, 3, 4};
  for (const std::size_t inputs : {1U, 2U, 4U, 8U}) {
    CAPTURE(inputs);
    const Prediction p = predict(spec, std::vector<std::vector<int>>(inputs, ids), loose);
    CHECK(p.samples == 256);
    CHECK(p.replicates == 16 - static_cast<int>(inputs) + 1);  // each input mean uses one degree of freedom
  }
}

std::vector<double> second_moments(const StackSpec& spec, const std::vector<std::vector<int>>& ids) {
  return predict(spec, ids, {.tolerance = 1.0}).profile.find(Statistic::second_moment, Signal::x_out)->value;
}

TEST_CASE("without softmax a prediction is exact; token sequences, even with repeated tokens, are averaged") {
  StackSpec spec = xiong_stack("pre");
  const Prediction p = predict(spec, {}, {});
  for (const double e : p.profile.find(Statistic::second_moment, Signal::x_out)->standard_error) CHECK(e < 1e-14);
  CHECK(second_moments(spec, {}) == predicted(spec, Statistic::second_moment, Signal::x_out));
  CHECK(p.finite_width.size() == 13);
  spec.input.kind = InputKind::tokens;
  const std::vector<int> distinct{0, 1, 2, 3, 4};
  const std::vector<int> repeated{7, 7, 7, 7, 7};
  const auto top = [&](const std::vector<std::vector<int>>& ids) { return second_moments(spec, ids).back(); };
  CHECK(top({distinct}) < top({repeated}));
  CHECK(top({repeated}) == approx(1.0 + 6 * 1.5).epsilon(1e-12));
  CHECK(top({distinct, repeated}) == approx((top({distinct}) + top({repeated})) / 2).epsilon(1e-12));
}

TEST_CASE("at most 64 token sequences are used; the error covers the sequences left out") {
  StackSpec spec = xiong_stack("pre");
  spec.input.kind = InputKind::tokens;
  std::vector<std::vector<int>> ids(64, {0, 1, 2, 3, 4});
  for (std::size_t i = 0; i < 64; i += 4) ids[i] = {7, 7, 7, 7, 7};
  const auto top = [&] {
    return *predict(spec, ids, {.tolerance = 1.0}).profile.find(Statistic::second_moment, Signal::x_out);
  };
  const Curve whole = top();
  CHECK(whole.standard_error.back() < 1e-12);
  ids.resize(128, {0, 1, 2, 3, 4});
  const Curve half = top();
  CHECK(half.value == whole.value);
  // Uniform attention is exact for every sequence: 16 sequences have one value and 48 the other.
  const double difference = 1.0 + 6 * 1.5 - second_moments(spec, {{0, 1, 2, 3, 4}}).back();
  const double variance = 16.0 * 48.0 / (64.0 * 63.0) * difference * difference;
  CHECK(half.standard_error.back() == approx(std::sqrt(variance * (1.0 / 64 - 1.0 / 128))).epsilon(1e-9));
}

TEST_CASE("overflow and underflow are unsupported, with the depth; deep stacks with norms are supported" *
          doctest::test_suite("slow")) {
  StackSpec spec = softmax_stack("none");
  spec.model.layers = 200;
  spec.init.factor = 4.0;
  spec.init.scheme = InitScheme::scaled;
  const Prediction p = predict(spec, {}, {.max_samples = 8});
  CHECK(p.unsupported.find("overflows at depth") != std::string::npos);
  CHECK(p.profile.curves.empty());
  CHECK(p.finite_width.empty());

  spec = softmax_stack("b-only");
  spec.init.scheme = InitScheme::normal;
  spec.init.std = 1e-100;
  spec.model.norm_eps = 1e300;
  spec.input.correlation = 0.0;
  CHECK(predict(spec, {}, {.max_samples = 8}).unsupported.find("underflows before depth 3") != std::string::npos);

  for (const char* placement : {"peri", "post", "lns"}) {
    spec = softmax_stack(placement);
    spec.model.layers = 40;
    CHECK(predict(spec, {}, {.max_samples = 8}).unsupported.empty());
  }
}

}  // namespace
}  // namespace periscope::theory
