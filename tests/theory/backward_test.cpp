#include "theory/passes/backward.h"

#include "tests/support/doctest.h"

#include <Eigen/Cholesky>
#include <algorithm>
#include <cmath>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/support/significance.h"
#include "tests/theory/xiong.h"
#include "theory/kernels/normal_stream.h"
#include "theory/predict/predict.h"

namespace periscope::theory {
namespace {

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

TEST_CASE("for small logits the gradient kernel equals label collisions minus 1/V (T7)") {
  StackSpec spec = xiong_stack("pre");
  spec.model.vocab = 50;
  const Matrix tiny = 1e-12 * Matrix::Identity(5, 5);
  const std::vector<int> labels{7, 7, 1, 2, 3};
  const Matrix g = loss_gradient(spec, tiny, {labels}, 3, {});
  const double gain = 1.0;  // lecun: σ_U² D = 1
  CHECK(g(0, 0) == approx(gain / 25 * (1.0 - 1.0 / 50)).epsilon(1e-5));
  CHECK(g(0, 1) == approx(gain / 25 * (1.0 - 1.0 / 50)).epsilon(1e-5));
  CHECK(g(0, 2) == approx(-gain / 25 / 50).epsilon(1e-4));
  spec.init.scheme = InitScheme::normal;
  spec.model.embedding.width = spec.model.width / 2;  // logits read a projection of the output
  const double projected = std::pow(stddev_of(spec, 0, Weight::unembedding), 2) * spec.model.embedding.width *
                           std::pow(stddev_of(spec, 0, Weight::project_out), 2) * spec.model.width;
  CHECK(loss_gradient(spec, tiny, {labels}, 3, {})(0, 0) == approx(projected * g(0, 0)).epsilon(1e-4));
}

TEST_CASE("label sequences are averaged; unlabeled tokens have no gradient and are excluded from the mean (T7)") {
  const StackSpec spec = xiong_stack("pre");
  const auto gradient = [&](const std::vector<std::vector<int>>& labels) {
    return loss_gradient(spec, Matrix::Identity(5, 5), labels, 2, {});
  };
  const std::vector<int> same(5, 3);
  const Matrix all = gradient({distinct});
  CHECK((2.0 * gradient({distinct, same}) - all - gradient({same})).cwiseAbs().maxCoeff() < 1e-15);
  const Matrix some = gradient({{0, -1, 2, 3, -1}});
  CHECK(some(0, 2) == approx(all(0, 2) * 25 / 9));
  CHECK(some(3, 3) == approx(all(3, 3) * 25 / 9));
  for (Eigen::Index t = 0; t < 5; ++t) CHECK((some(1, t) == 0.0 && some(t, 4) == 0.0));
}

TEST_CASE("gradients through a soft cap agree with sampled gradients (T7)" * doctest::test_suite("slow")) {
  StackSpec spec = xiong_stack("pre");
  spec.model.vocab = 3;
  spec.model.head.soft_cap = 1.5;
  Matrix k(2, 2);
  k << 4.0, 1.5, 1.5, 1.0;
  const Matrix predicted = loss_gradient(spec, k, {{2, 2}}, 40000, {});
  const Matrix factor = k.llt().matrixL();
  NormalStream numbers({.seed = 5, .replicate = 0, .place = 0});
  std::vector<std::vector<double>> draws(4);
  for (int n = 0; n < 40000; ++n) {
    const Eigen::ArrayXXd t = (factor * numbers.normals(2, 3) / 1.5).array().tanh();  // [tokens, classes]
    Eigen::ArrayXXd d = (1.5 * t).exp();
    d.colwise() /= d.rowwise().sum().eval();
    d.col(2) -= 1.0;
    d *= (1.0 - t.square()) / 2.0;
    const Matrix product = d.matrix() * d.matrix().transpose();
    for (std::size_t i = 0; i < 4; ++i) draws[i].push_back(product(static_cast<Eigen::Index>(i)));
  }
  for (std::size_t i = 0; i < 4; ++i) {
    const testing::Estimate drawn = testing::estimate(draws[i]);
    // Both sides are means of 40000 draws.
    CHECK(std::abs(predicted(static_cast<Eigen::Index>(i)) - drawn.mean) < 5.0 * std::sqrt(2.0) * drawn.standard_error);
  }
}

TEST_CASE("gradients through BERT's head transform are unsupported; forward statistics are predicted (T7)") {
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

TEST_CASE("gradients with infinite mean squares, from norms over one or two features, are unsupported") {
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
  const auto values = [](int kv_heads, int head_dim, bool causal = true) {
    return [=](StackSpec& spec) {
      spec.model.heads = 4;
      spec.model.kv_heads = kv_heads;
      spec.model.head_dim = head_dim;
      spec.model.rope = false;
      spec.model.causal = causal;
    };
  };
  const auto equal_tokens = [&](StackSpec& spec) {
    values(1, 2, false)(spec);
    spec.input.correlation = 1.0;
  };
  const auto hidden = [](int channels) { return [=](StackSpec& spec) { spec.model.mlp_width = channels; }; };
  const auto qk_norm = [](int head_dim) {
    return [=](StackSpec& spec) {
      spec.model.qk_norm = QkNorm::head;
      spec.model.head_dim = head_dim;
    };
  };
  const auto v_norm = [&](bool normed) {
    return [=](StackSpec& spec) {
      values(2, 2)(spec);
      spec.model.v_norm = normed;
    };
  };
  const auto inner_norm = [&](int kv_heads) {
    return [=](StackSpec& spec) {
      values(kv_heads, 2)(spec);
      spec.model.inner_norm = InnerNorm::o;
    };
  };
  struct Row {
    const char* placement;
    std::function<void(StackSpec&)> change;
    const char* reason;  ///< nullptr: supported
  };
  for (const Row& row : {
           Row{"b-only", values(1, 2), "with 2 value"},
           {"b-only", values(2, 1), "with 2 value"},
           {"b-only", values(1, 3), nullptr},
           {"pre", values(1, 2), nullptr},            // no norm B
           {"b-only", values(1, 2, false), nullptr},  // attention mixes five tokens
           {"b-only", equal_tokens, "with 2 value"},
           {"peri", hidden(2), "with 2 hidden"},
           {"peri", hidden(3), nullptr},
           {"pre", hidden(2), nullptr},
           {"pre", qk_norm(2), "QK-norm over 2 features"},
           {"pre", qk_norm(4), nullptr},
           {"pre", v_norm(true), "V-norm over 2 features"},
           {"pre", v_norm(false), nullptr},
           {"pre", inner_norm(1), "inner norm of attention over 2 features"},
           {"pre", inner_norm(2), nullptr},
       }) {
    const std::string reason = unsupported_reason(row.placement, row.change);
    INFO("row.placement := ", row.placement, ", reason := ", reason);
    CHECK(reason.empty() == (row.reason == nullptr));
    if (row.reason != nullptr) CHECK(reason.find(row.reason) != std::string::npos);
  }
}

TEST_CASE("with norm B, scaling W_down by k divides its gradient by k (T13, T14e)") {
  StackSpec spec = xiong_stack("peri");
  spec.init.scheme = InitScheme::scaled;
  spec.init.factor = 4.0;
  spec.model.unembedding = false;  // the logits are the stream itself, without a gain
  StackSpec plain = spec;
  plain.init.factor = 1.0;
  const Profile scaled = with_gradients(spec, {distinct});
  const Profile base = with_gradients(plain, {distinct});
  for (std::size_t l = 0; l < 6; ++l) {
    CHECK(4.0 * scaled.find(Statistic::grad_sq, Weight::down)->value[l] ==
          approx(base.find(Statistic::grad_sq, Weight::down)->value[l]).epsilon(1e-6));
  }
}

TEST_CASE("uniform attention has no score path: gradients of queries and keys are 0") {
  const Profile p = with_gradients(xiong_stack("pre"), {distinct});
  for (const double v : p.find(Statistic::grad_sq, Weight::q)->value) CHECK(v == 0.0);
  for (const double v : p.find(Statistic::grad_sq, Weight::v)->value) CHECK(v > 0.0);
  for (std::size_t l = 0; l < 12; l += 2) CHECK(p.find(Statistic::score_share, Signal::A_out)->value[l] == 0.0);
}

TEST_CASE("score_share is the fraction of the gradient that disappears without the score path (T9)") {
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
  // With unit input, norm A of Pre-LN divides by 1, so the branch adds the module's gradient kernel unscaled.
  CHECK(value_path[0] - g[1] == approx((1.0 - share[0]) * (g[0] - g[1])).epsilon(1e-9));
}

TEST_CASE("the skip-path gradient is constant without norms, else divided by the second moment before every norm") {
  const std::vector<double> pre = stream_gradient(xiong_stack("pre"), GradientPaths::skip_only);
  for (const double v : pre) CHECK(v == approx(pre.back()).epsilon(1e-12));
  StackSpec post = xiong_stack("post");
  post.input.tokens = 1;
  const std::vector<double> g =
      with_gradients(post, {{0}}, GradientPaths::skip_only).find(Statistic::grad_sq, Signal::x_out)->value;
  for (std::size_t l = 0; l < 12; ++l) {
    const double sum = l % 2 == 0 ? 2.0 : 1.5;  // mean square before norm C: 1 + 1 (one token), 1 + 1/2 (ReLU)
    CHECK(g[l] == approx(g[l + 1] / sum).epsilon(1e-6));
  }
}

}  // namespace periscope::theory
