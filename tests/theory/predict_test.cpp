#include "theory/predict.h"

#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include "tests/support/compare.h"
#include "tests/support/hypothesis.h"
#include "tests/support/threads.h"
#include "tests/theory/xiong.h"

namespace periscope::theory {
namespace {

StackSpec softmax_stack(std::string_view placement) {
  StackSpec spec = testing::placed(testing::tiny_stack(), placement);
  spec.input.correlation = 0.3;
  return spec;
}

TEST_CASE("a prediction has the same bits for 1, 2 and 3 threads") {
  for (const char* placement : {"pre", "residual-dual"}) {
    const auto run = [&](int count) {
      const testing::Threads threads(count);
      return predict(softmax_stack(placement), {}, {.most_samples = 16});
    };
    const Prediction alone = run(1);
    for (const int count : {2, 3}) {
      const Prediction several = run(count);
      REQUIRE(several.profile.curves.size() == alone.profile.curves.size());
      CHECK(several.samples == alone.samples);
      for (const auto& [key, curve] : alone.profile.curves) {
        testing::check_same_bits("value", several.profile.curves.at(key).value, curve.value);
        testing::check_same_bits("standard error", several.profile.curves.at(key).standard_error, curve.standard_error);
      }
      testing::check_same_bits("angles", several.profile.angular_distance, alone.profile.angular_distance);
    }
  }
}

TEST_CASE("another seed is another sample of the same prediction") {
  const auto run = [](std::uint64_t seed) {
    return predict(softmax_stack("pre"), {}, {.tolerance = 1e-9, .most_samples = 256, .seed = seed});
  };
  const Curve a = *run(1).profile.find(Statistic::second_moment, Site::x_out);
  const Curve b = *run(2).profile.find(Statistic::second_moment, Site::x_out);
  CHECK(a.value != b.value);
  CHECK(a.value.back() == doctest::Approx(b.value.back()).epsilon(0.02));
}

/// Spread over 64 replicates of the recursion's second moment after the first attention.
double replicate_variance(int samples) {
  std::vector<double> values;
  for (std::uint64_t r = 0; r < 64; ++r) {
    const ForwardChain chain{.ids = {}, .samples = samples, .seed = 5, .replicate = r};
    values.push_back(predicted(softmax_stack("pre"), Statistic::second_moment, Site::x_out, chain)[1]);
  }
  return 64.0 * std::pow(testing::estimate(values).standard_error, 2);
}

TEST_CASE("T20: sixteen times the patterns, a sixteenth of the variance") {
  const double ratio = replicate_variance(2) / replicate_variance(32);
  // F with (63, 63) degrees of freedom lies in [1/3.6, 3.6] but for 1e-6.
  CHECK(ratio > 16.0 / 3.6);
  CHECK(ratio < 16.0 * 3.6);
}

TEST_CASE("predictions are unbiased, and vary by their stated standard errors") {
  const StackSpec spec = softmax_stack("pre");
  const auto top = [&](int samples, std::uint64_t seed) {
    const Prediction p = predict(spec, {}, {.tolerance = 1e-9, .most_samples = samples, .seed = seed});
    const Curve& q = *p.profile.find(Statistic::second_moment, Site::x_out);
    return testing::Estimate{q.value.back(), q.standard_error.back()};
  };
  std::vector<double> values;
  double stated = 0.0;
  for (std::uint64_t seed = 0; seed < 32; ++seed) {
    const testing::Estimate e = top(128, seed);
    values.push_back(e.mean);
    stated += e.standard_error * e.standard_error / 32;
  }
  const testing::Estimate predictions = testing::estimate(values);
  testing::check_consistent("prediction", predictions, top(4096, 1000));
  // 31 degrees of freedom against 32 seeds of 8 replicates: F(31, 224) lies in [0.19, 3.2] but for 1e-6.
  const double ratio = 32.0 * predictions.standard_error * predictions.standard_error / stated;
  CHECK(ratio > 0.19);
  CHECK(ratio < 3.2);
}

TEST_CASE("patterns are doubled until the tolerance is reached, or the limit") {
  const Prediction p = predict(softmax_stack("pre"), {}, {.tolerance = 0.01, .most_samples = 1 << 14});
  const Curve& q = *p.profile.find(Statistic::second_moment, Site::x_out);
  for (std::size_t i = 0; i < q.value.size(); ++i) CHECK(q.standard_error[i] <= 0.01 * q.value[i]);
  CHECK(p.samples < 1 << 14);
  CHECK(predict(softmax_stack("pre"), {}, {.tolerance = 1e-9, .most_samples = 64}).samples == 64);
}

TEST_CASE("without softmax a prediction is exact, and says so") {
  const Prediction p = predict(xiong_stack("pre"), {}, {});
  CHECK(p.refusal.empty());
  const Curve& q = *p.profile.find(Statistic::second_moment, Site::x_out);
  for (const double error : q.standard_error) CHECK(error < 1e-14);
  CHECK(q.value == predicted(xiong_stack("pre"), Statistic::second_moment, Site::x_out));
  CHECK(p.finite_width.size() == 13);
}

TEST_CASE("token ids: sequences are averaged over, repeated tokens and all") {
  StackSpec spec = xiong_stack("pre");
  spec.input.kind = InputKind::tokens;
  const std::vector<int> distinct{0, 1, 2, 3, 4};
  const std::vector<int> repeated{7, 7, 7, 7, 7};
  const auto top = [&](const std::vector<std::vector<int>>& ids) {
    return predict(spec, ids, {}).profile.find(Statistic::second_moment, Site::x_out)->value.back();
  };
  CHECK(top({distinct}) < top({repeated}));
  CHECK(top({repeated}) == doctest::Approx(1.0 + 6 * 1.5).epsilon(1e-12));
  CHECK(top({distinct, repeated}) == doctest::Approx((top({distinct}) + top({repeated})) / 2).epsilon(1e-12));
}

TEST_CASE("theory refuses where its numbers overflow, and says at which depth") {
  StackSpec spec = softmax_stack("none");
  spec.model.layers = 200;
  spec.init.factor = 4.0;
  spec.init.scheme = InitScheme::scaled;
  const Prediction p = predict(spec, {}, {.most_samples = 8});
  CHECK(p.refusal.find("overflows at depth") != std::string::npos);
  CHECK(p.profile.curves.empty());
  CHECK(p.finite_width.empty());
}

TEST_CASE("a deep stack with norms is no reason to refuse") {
  for (const char* placement : {"peri", "post", "lns"}) {
    StackSpec spec = softmax_stack(placement);
    spec.model.layers = 40;
    CHECK(predict(spec, {}, {.most_samples = 8}).refusal.empty());
  }
}

}  // namespace
}  // namespace periscope::theory
