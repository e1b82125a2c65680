#include "theory/passes/forward.h"

#include "tests/support/doctest.h"

#include <cmath>
#include <numbers>
#include <numeric>
#include <string>
#include <vector>

#include "sim/measure/signal_store.h"
#include "sim/model/input.h"
#include "tests/support/recorded_stack.h"
#include "tests/support/significance.h"
#include "tests/theory/xiong.h"
#include "theory/kernels/normal_stream.h"

namespace periscope::theory {
namespace {

TEST_CASE("variance is the second moment minus the mean's second moment, which LayerNorm removes") {
  StackSpec spec = xiong_stack("pre");
  spec.input.second_moment = 2.0;
  for (const NormKind kind : {NormKind::rms, NormKind::layer}) {
    spec.model.norm = kind;
    const Profile p = forward_profile(spec, {});
    CHECK(p.find(Statistic::variance, Signal::x_out)->value[0] == exactly(2.0 * 63 / 64));
    const double module_input = kind == NormKind::rms ? 63.0 / 64 : 1.0;
    CHECK(p.find(Statistic::variance, Signal::A_out)->value[0] == exactly(module_input));
    CHECK(p.find(Statistic::second_moment, Signal::A_out)->value[0] == exactly(1.0));
    CHECK(p.find(Statistic::mean, Signal::x_out)->value[0] == 0.0);
  }
}

TEST_CASE("kurtosis of D normal entries agrees with simulation") {
  for (const int width : {4, 64}) {
    StackSpec spec = xiong_stack("pre");
    spec.model.width = width;
    theory::NormalStream numbers({.seed = 3, .replicate = 0, .place = 0});
    std::vector<double> kurtosis;
    for (int n = 0; n < 20'000; ++n) {
      Eigen::ArrayXd x = numbers.normals(width, 1).array();
      x -= x.mean();
      kurtosis.push_back(x.pow(4).mean() / std::pow(x.square().mean(), 2));
    }
    testing::check_consistent("kurtosis, width " + std::to_string(width), testing::estimate(kurtosis),
                              predicted(spec, Statistic::kurtosis, Signal::x_out)[0]);
  }
}

TEST_CASE("the largest entry before norm C agrees with simulation and differs from the one after norm C") {
  for (const char* placement : {"post", "keel", "deepnorm"}) {
    CAPTURE(std::string(placement));
    StackSpec spec = testing::placed(testing::tiny_stack(), placement);
    spec.model.layers = 4;
    spec.model.width = 128;
    spec.model.heads = spec.model.kv_heads = 8;
    spec.model.head_dim = 16;
    spec.model.mlp_width = 128;
    spec.input.tokens = 1;
    const Profile predicted = forward_profile(spec, {});
    const std::vector<double>& of_sum = predicted.find(Statistic::maximum, Signal::sum)->value;
    constexpr int seeds = 40;
    std::vector<std::vector<double>> measured(of_sum.size());
    for (int seed = 1; seed <= seeds; ++seed) {
      const GeneratedWeights weights(testing::truth(), spec, DType::f64, static_cast<std::uint64_t>(seed));
      const StackContext context{testing::truth(), spec.model, weights, 1};
      SignalStore signals(Pass::forward);
      const Tensor input = gaussian_input(testing::truth(), spec, DType::f64, static_cast<std::uint64_t>(seed));
      (void)stack_forward(context, input, {.recorders = {&signals}});
      for (std::size_t d = 1; d < of_sum.size(); ++d) {
        measured[d].push_back(
            testing::truth()
                .statistics_of(signals.at(static_cast<int>(d) - 1, Signal::sum), {.top_magnitudes = 1})
                .top_magnitudes[0]);
      }
    }
    for (std::size_t d = 1; d < of_sum.size(); ++d) {
      if (std::isnan(of_sum[d])) continue;  // KEEL's first layer has no norm C
      CAPTURE(d);
      const testing::Estimate found = testing::estimate(measured[d]);
      // The tolerance includes 2 %, because entries are not exactly normal at finite width.
      CHECK(std::abs(found.mean - of_sum[d]) <=
            testing::most_standard_errors * found.standard_error + 0.02 * of_sum[d]);
      if (std::string_view(placement) == "keel") {
        CHECK(of_sum[d] > 3.0 * predicted.find(Statistic::maximum, Signal::x_out)->value[d]);
      }
    }
  }
}

TEST_CASE("angular distances agree with simulation; a negative alpha turns the stream by more than a right angle") {
  StackSpec spec = testing::tiny_stack();
  spec.model.width = 256;
  spec.model.placement = custom_placement({.norm_a = true, .norm_b = true, .alpha = -0.8, .beta = 0.5});
  spec.model.final_norm = true;
  const std::vector<double> predicted = forward_profile(spec, {}).angular_distance;
  REQUIRE(predicted.size() == 25);
  const testing::RecordedStack record = testing::record_stack(testing::truth_target(), spec, 1);
  const auto n = static_cast<std::size_t>(spec.model.width);
  for (std::size_t depth = 1; depth < 5; ++depth) {
    const std::vector<double>& x = record.at(static_cast<int>(depth) - 1, Signal::x_out);
    double measured = 0.0;
    for (std::size_t t = 0; t < 5; ++t) {
      const auto dot = [&](const std::vector<double>& a, const std::vector<double>& b) {
        return std::inner_product(a.begin() + static_cast<std::ptrdiff_t>(t * n),
                                  a.begin() + static_cast<std::ptrdiff_t>((t + 1) * n),
                                  b.begin() + static_cast<std::ptrdiff_t>(t * n), 0.0);
      };
      const double cosine = dot(record.input, x) / std::sqrt(dot(record.input, record.input) * dot(x, x));
      measured += std::acos(cosine) / std::numbers::pi / 5.0;
    }
    CAPTURE(depth);
    CHECK((measured > 0.5) == (depth % 2 == 1));
    // The cosine of random directions has standard deviation 1/√D. The tolerance is four of these, divided by π.
    CHECK(std::abs(measured - predicted[depth]) < 4.0 / std::sqrt(256.0) / std::numbers::pi);
    CHECK(std::abs(1.0 - measured - predicted[depth]) > 4.0 / std::sqrt(256.0) / std::numbers::pi);
  }
}

TEST_CASE("the finite-width factor adds per sublayer with norms and multiplies without them (T19)") {
  const std::vector<double> q{1.0, 2.0, 4.0, 8.0};
  StackSpec tiny = testing::tiny_stack();
  tiny.model.mlp_width = 48;
  StackSpec spec = testing::placed(tiny, "peri");
  const std::vector<double> bounded = finite_width_factor(spec, q, q);
  REQUIRE(bounded.size() == 5);
  for (std::size_t i = 0; i < 5; ++i) CHECK(bounded[i] == exactly(static_cast<double>(i) / 12));
  // Without norms SwiGLU has degree 2. For equal shares of stream and branch, the elasticity is (1 + 2)/2.
  spec = testing::placed(tiny, "none");
  const std::vector<double> free = finite_width_factor(spec, q, q);
  CHECK(free[1] == exactly(1.0 / 12));
  CHECK(free[2] == exactly(2.25 / 12 + 1.0 / 12));
  CHECK(free[3] == exactly(free[2] + 1.0 / 12));
  spec.model.embedding_norm = true;
  CHECK(finite_width_factor(spec, q, q)[0] == exactly(1.0 / 12));
  spec.model.width = 512;
  spec.model.heads = 16;  // the hidden width 48 is less than 32 per head, 512
  CHECK(finite_width_factor(spec, q, q)[0] == exactly(1.0 / 48));
  spec.model.mlp_width = 2048;
  spec.model.heads = 2;  // 32 per head, 64, is less than both widths
  CHECK(finite_width_factor(spec, q, q)[0] == exactly(1.0 / 64));
  // With one gate per head, 1/(4 H) replaces 1/(32 H) for H heads.
  spec = testing::placed(tiny, "peri");
  spec.model.attention_gate = AttentionGate::channel;
  CHECK(finite_width_factor(spec, q, q)[1] == exactly(1.0 / 12));
  spec.model.heads = spec.model.kv_heads = 2;
  spec.model.attention_gate = AttentionGate::head;
  CHECK(finite_width_factor(spec, q, q)[1] == exactly(8.0 / 64));
  CHECK(finite_width_factor(spec, q, q)[2] == exactly(8.0 / 64 + 1.0 / 12));
}

}  // namespace
}  // namespace periscope::theory
