#include "theory/passes/backward.h"

#include "tests/support/doctest.h"

#include <algorithm>
#include <boost/random/mersenne_twister.hpp>
#include <boost/random/normal_distribution.hpp>
#include <cmath>
#include <functional>
#include <stdexcept>

#include "tests/support/significance.h"
#include "tests/theory/xiong.h"
#include "theory/predict/predict.h"

/// The backward recursion (T7–T11) in cases with closed forms.
namespace periscope::theory {
namespace {

using doctest::Approx;

Profile with_gradients(const StackSpec& spec, const std::vector<std::vector<int>>& labels,
                       GradientPaths paths = GradientPaths::all) {
  const ForwardReplicate chain{.ids = {}, .samples = 4};
  ForwardTrace trace;
  Profile profile = forward_profile(spec, chain, &trace);
  backward_profile(spec, chain, trace, labels, profile, paths);
  return profile;
}

const std::vector<int> distinct{0, 1, 2, 3, 4};

std::vector<double> stream_gradient(const StackSpec& spec, GradientPaths paths) {
  return with_gradients(spec, {distinct}, paths).find(Statistic::grad_sq, Signal::x_out)->value;
}

}  // namespace

TEST_CASE("T7: for small logits the gradient kernel is label collisions minus 1/V") {
  StackSpec spec = xiong_stack("pre");
  spec.model.vocab = 50;
  const Matrix tiny = 1e-12 * Matrix::Identity(5, 5);
  const std::vector<int> labels{7, 7, 1, 2, 3};
  const Matrix g = loss_gradient(spec, tiny, {labels}, 3, {});
  const double gain = 1.0;  // lecun: σ_U² D = 1
  CHECK(g(0, 0) == Approx(gain / 25 * (1.0 - 1.0 / 50)).epsilon(1e-5));
  CHECK(g(0, 1) == Approx(gain / 25 * (1.0 - 1.0 / 50)).epsilon(1e-5));
  CHECK(g(0, 2) == Approx(-gain / 25 / 50).epsilon(1e-4));
}

TEST_CASE("T7: label sequences are averaged") {
  const StackSpec spec = xiong_stack("pre");
  const Matrix k = Matrix::Identity(5, 5);
  const std::vector<int> same(5, 3);
  const Matrix mean = loss_gradient(spec, k, {distinct, same}, 2, {});
  const Matrix sum = loss_gradient(spec, k, {distinct}, 2, {}) + loss_gradient(spec, k, {same}, 2, {});
  CHECK((2.0 * mean - sum).cwiseAbs().maxCoeff() < 1e-15);
}

TEST_CASE("T7: tokens without a label have no gradient, and the mean is over the others") {
  const StackSpec spec = xiong_stack("pre");
  const Matrix k = Matrix::Identity(5, 5);
  const Matrix all = loss_gradient(spec, k, {distinct}, 2, {});
  const Matrix some = loss_gradient(spec, k, {{0, -1, 2, 3, -1}}, 2, {});
  CHECK(some(0, 2) == Approx(all(0, 2) * 25 / 9));
  CHECK(some(3, 3) == Approx(all(3, 3) * 25 / 9));
  for (Eigen::Index t = 0; t < 5; ++t) CHECK((some(1, t) == 0.0 && some(t, 4) == 0.0));
}

TEST_CASE("T7: a soft cap of the logits, against sampled gradients") {
  StackSpec spec = xiong_stack("pre");
  spec.model.vocab = 3;
  spec.model.head.soft_cap = 1.5;
  Matrix k(2, 2);
  k << 4.0, 1.5, 1.5, 1.0;
  const std::vector<int> labels{2, 2};
  const Matrix predicted = loss_gradient(spec, k, {labels}, 40000, {});
  boost::random::mt19937 engine(5);
  boost::random::normal_distribution<double> unit;
  std::vector<std::vector<double>> draws(3);
  for (int n = 0; n < 40000; ++n) {
    double d[2][3];
    double z[2][3];
    for (int v = 0; v < 3; ++v) {
      const double common = unit(engine);
      z[0][v] = 2.0 * common;
      z[1][v] = 0.75 * common + std::sqrt(1.0 - 0.75 * 0.75) * unit(engine);
    }
    for (int t = 0; t < 2; ++t) {
      double total = 0.0;
      for (int v = 0; v < 3; ++v) total += std::exp(1.5 * std::tanh(z[t][v] / 1.5));
      for (int v = 0; v < 3; ++v) {
        const double p = std::exp(1.5 * std::tanh(z[t][v] / 1.5)) / total;
        d[t][v] = (p - (v == 2 ? 1.0 : 0.0)) / 2.0 / std::pow(std::cosh(z[t][v] / 1.5), 2);
      }
    }
    for (int pair = 0; pair < 3; ++pair) {
      const int s = pair / 2;
      const int t = (pair + 1) / 2;
      draws[static_cast<std::size_t>(pair)].push_back(d[s][0] * d[t][0] + d[s][1] * d[t][1] + d[s][2] * d[t][2]);
    }
  }
  for (int pair = 0; pair < 3; ++pair) {
    const testing::Estimate drawn = testing::estimate(draws[static_cast<std::size_t>(pair)]);
    // Both sides are means of 40000 draws.
    const double tolerance = 5.0 * std::sqrt(2.0) * drawn.standard_error;
    CHECK(std::abs(predicted(pair / 2, (pair + 1) / 2) - drawn.mean) < tolerance);
  }
}

TEST_CASE("T7: gradients through BERT's head transform are unsupported; forward statistics are predicted") {
  StackSpec spec = testing::placed(testing::tiny_stack(), "post");
  const Matrix output = Matrix::Identity(spec.input.tokens, spec.input.tokens);
  const std::vector<std::vector<int>> labels{{1, 2, 3, 4, 5}};
  CHECK(loss_unsupported(spec.model).empty());
  CHECK(loss_gradient(spec, output, labels, 1, {1, 2, 3}).size() == 25);
  CHECK(predict(spec, {}, {.max_samples = 8, .labels = labels}).gradient_unsupported.empty());
  spec.model.head.transform = true;
  CHECK_THROWS_AS((void)loss_gradient(spec, output, labels, 1, {1, 2, 3}), std::invalid_argument);
  const Prediction prediction = predict(spec, {}, {.max_samples = 8, .labels = labels});
  CHECK(prediction.unsupported.empty());
  CHECK(prediction.gradient_unsupported.find("BERT") != std::string::npos);
  CHECK(prediction.profile.find(Statistic::second_moment, Signal::x_out) != nullptr);
  CHECK(prediction.profile.find(Statistic::grad_sq, Signal::x_out) == nullptr);
  CHECK(std::ranges::none_of(prediction.profile.curves,
                             [](const auto& curve) { return std::holds_alternative<Weight>(curve.first.second); }));
  CHECK(predict(spec, {}, {.max_samples = 8}).gradient_unsupported.empty());
}

TEST_CASE("gradients with infinite mean squares are unsupported: norms over one or two values") {
  const std::vector<std::vector<int>> labels{{1, 2, 3, 4, 5}};
  const auto unsupported_reason = [&](const char* placement, const std::function<void(StackSpec&)>& change) {
    StackSpec spec = testing::placed(testing::tiny_stack(), placement);
    spec.model.qk_norm = QkNorm::none;
    change(spec);
    const Prediction prediction = predict(spec, {}, {.max_samples = 8, .labels = labels});
    CHECK(prediction.unsupported.empty());
    CHECK((prediction.profile.find(Statistic::grad_sq, Signal::x_out) == nullptr) ==
          !prediction.gradient_unsupported.empty());
    return prediction.gradient_unsupported;
  };
  const auto values = [](int kv_heads, int head_dim, bool causal) {
    return [=](StackSpec& spec) {
      spec.model.heads = 4;
      spec.model.kv_heads = kv_heads;
      spec.model.head_dim = head_dim;
      spec.model.rope = false;
      spec.model.causal = causal;
    };
  };
  CHECK(unsupported_reason("b-only", values(1, 2, true)).find("with 2 value") != std::string::npos);
  CHECK(unsupported_reason("b-only", values(2, 1, true)).find("with 2 value") != std::string::npos);
  CHECK(unsupported_reason("b-only", values(1, 3, true)).empty());
  CHECK(unsupported_reason("pre", values(1, 2, true)).empty());      // no norm B
  CHECK(unsupported_reason("b-only", values(1, 2, false)).empty());  // five tokens, which attention mixes
  const auto equal_tokens = [&](InputKind kind) {
    return [=](StackSpec& spec) {
      values(1, 2, false)(spec);
      spec.input.kind = kind;
      spec.input.correlation = 1.0;
    };
  };
  CHECK(unsupported_reason("b-only", equal_tokens(InputKind::gaussian)).find("with 2 value") != std::string::npos);
  const auto hidden = [](int channels) { return [=](StackSpec& spec) { spec.model.mlp_width = channels; }; };
  CHECK(unsupported_reason("peri", hidden(2)).find("with 2 hidden") != std::string::npos);
  CHECK(unsupported_reason("peri", hidden(3)).empty());
  CHECK(unsupported_reason("pre", hidden(2)).empty());
  const auto normed = [](int head_dim) {
    return [=](StackSpec& spec) {
      spec.model.qk_norm = QkNorm::head;
      spec.model.head_dim = head_dim;
    };
  };
  CHECK(unsupported_reason("pre", normed(2)).find("QK-norm over 2 features") != std::string::npos);
  CHECK(unsupported_reason("pre", normed(4)).empty());
}

TEST_CASE("T13, T14e: with norm B, scaling W_down by k divides its gradient by k") {
  StackSpec spec = xiong_stack("peri");
  spec.init.scheme = InitScheme::scaled;
  spec.init.factor = 4.0;
  spec.model.unembedding = false;  // logits are the stream, without a gain
  StackSpec plain = spec;
  plain.init.factor = 1.0;
  const Profile scaled = with_gradients(spec, {distinct});
  const Profile base = with_gradients(plain, {distinct});
  for (std::size_t l = 0; l < 6; ++l) {
    CHECK(4.0 * scaled.find(Statistic::grad_sq, Weight::down)->value[l] ==
          Approx(base.find(Statistic::grad_sq, Weight::down)->value[l]).epsilon(1e-6));
  }
}

TEST_CASE("uniform attention has no score path: gradients of queries and keys are 0") {
  const Profile p = with_gradients(xiong_stack("pre"), {distinct});
  for (const double v : p.find(Statistic::grad_sq, Weight::q)->value) CHECK(v == 0.0);
  for (const double v : p.find(Statistic::grad_sq, Weight::v)->value) CHECK(v > 0.0);
  for (std::size_t l = 0; l < 12; l += 2) CHECK(p.find(Statistic::score_share, Signal::A_out)->value[l] == 0.0);
}

TEST_CASE("T9: the share of the score path is the part of the gradient that is lost without it") {
  StackSpec spec = xiong_stack("pre");
  spec.init.qk_factor = 1.5;
  spec.model.layers = 1;
  const Profile all = with_gradients(spec, {distinct});
  const std::vector<double>& share = all.find(Statistic::score_share, Signal::A_out)->value;
  REQUIRE(share.size() == 2);
  CHECK(std::isnan(share[1]));
  CHECK((share[0] > 0.05 && share[0] < 0.95));
  const std::vector<double>& g = all.find(Statistic::grad_sq, Signal::x_out)->value;
  const std::vector<double> value_path = stream_gradient(spec, GradientPaths::without_scores);
  // Pre-LN with unit input: r_a = 1, so the branch adds the gradient kernel of the module.
  CHECK(value_path[0] - g[1] == Approx((1.0 - share[0]) * (g[0] - g[1])).epsilon(1e-9));
}

TEST_CASE("skip path: constant without norms, else divided by the input size of every norm") {
  const std::vector<double> pre = stream_gradient(xiong_stack("pre"), GradientPaths::skip_only);
  for (const double v : pre) CHECK(v == Approx(pre.back()).epsilon(1e-12));
  StackSpec post = xiong_stack("post");
  post.input.tokens = 1;
  const std::vector<double> g =
      with_gradients(post, {{0}}, GradientPaths::skip_only).find(Statistic::grad_sq, Signal::x_out)->value;
  for (std::size_t l = 0; l < 12; ++l) {
    const double sum = l % 2 == 0 ? 2.0 : 1.5;  // mean square before norm C: attention of one token, ReLU MLP
    CHECK(g[l] == Approx(g[l + 1] / sum).epsilon(1e-6));
  }
}

}  // namespace periscope::theory
