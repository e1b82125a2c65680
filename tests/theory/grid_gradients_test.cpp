#include "theory/attention/grid_gradients.h"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "tests/support/doctest.h"
#include "tests/support/significance.h"
#include "tests/theory/xiong.h"
#include "theory/kernels/normal_stream.h"
#include "theory/passes/backward.h"

namespace periscope::theory {
namespace {

/// Returns W [T, g].
Matrix interpolation(const TokenGrid& grid) {
  Eigen::MatrixXf w = Eigen::MatrixXf::Zero(grid.tokens(), grid.nodes());
  grid.add_interpolated(w, Eigen::MatrixXf::Identity(grid.nodes(), grid.nodes()),
                        Eigen::MatrixXf::Zero(static_cast<Index>(grid.cells().size()), grid.nodes()));
  return w.cast<double>();
}

TEST_CASE("fits of kernels of all tokens preserve sums, and are exact for kernels on the nodes") {
  NormalStream numbers({.seed = 3, .replicate = 0, .place = 0});
  for (const bool causal : {true, false}) {
    for (const Index tokens : {40, 300, 700}) {  // for 40 tokens, all are nodes
      INFO("tokens := ", tokens, ", causal := ", causal);
      const TokenGrid grid(tokens, causal);
      const GridFit fit(grid);
      const Matrix w = interpolation(grid);
      const auto restricted = [&](const Matrix& x) { return fit.restricted(w.transpose() * x * w, x.diagonal()); };
      const Matrix factor = numbers.normals(tokens, 30);
      const Matrix noise = factor * factor.transpose();
      const Matrix reduced = restricted(noise);
      const auto n = static_cast<double>(tokens);
      const double sum = n * (n - 1.0) * grid.mean_of_pairs(reduced) + n * grid.mean(reduced.diagonal());
      CHECK(sum == approx(noise.sum()).epsilon(1e-6));  // W has float entries
      CHECK(grid.mean(reduced.diagonal()) == approx(noise.diagonal().mean()).epsilon(1e-6));
      const FittedKernel again = fit.fitted(reduced);
      const Matrix whole = w * again.between * w.transpose() + Matrix(again.remainder.asDiagonal());
      CHECK(whole.sum() == approx(noise.sum()).epsilon(1e-6));
      CHECK((restricted(whole) - reduced).cwiseAbs().maxCoeff() < 1e-5 * reduced.cwiseAbs().maxCoeff());
      // Sums weighted by a kernel of the nodes: pairs of different tokens and the diagonal are preserved separately.
      const Matrix x = w * numbers.normals(grid.nodes(), 2);
      Matrix different = whole - noise;
      different.diagonal().setZero();
      CHECK(std::abs((x.transpose() * different * x).trace()) < 1e-5 * (x.transpose() * noise * x).trace());
    }
  }
}

TEST_CASE("for small logits the loss on a grid preserves label pairs and unlabelled tokens (T7)") {
  StackSpec spec = testing::placed(testing::tiny_stack(), "pre");
  constexpr Index tokens = 300;
  std::vector<int> labels;
  for (int t = 0; t < tokens; ++t) labels.push_back(t * t % 19 - 1);
  const TokenGrid grid(tokens, true);
  const GridFit fit(grid);
  const Matrix all = loss_gradient(spec, 1e-12 * Matrix::Identity(tokens, tokens), {labels}, 1, {});
  const Matrix some = loss_gradient(spec, 1e-12 * Matrix::Identity(grid.size(), grid.size()), {labels}, 1, {}, &fit);
  const FittedKernel fitted = fit.fitted(some);
  const Matrix w = interpolation(grid);
  const Matrix whole = w * fitted.between * w.transpose() + Matrix(fitted.remainder.asDiagonal());
  CHECK(whole.sum() == approx(all.sum()).epsilon(1e-4));
  CHECK(grid.mean(some.diagonal()) == approx(all.diagonal().mean()).epsilon(1e-5));
  const Matrix smooth = w * Vector::LinSpaced(grid.nodes(), -1.0, 2.0);
  Matrix different = whole - all;
  different.diagonal().setZero();
  CHECK(std::abs((smooth.transpose() * different * smooth)(0)) < 1e-4 * (smooth.transpose() * all * smooth)(0));
}

/// Returns every gradient curve of one replicate, on a grid or, if null, for all tokens. The logits of the loss are
/// small, so the loss is not sampled.
Profile gradients_of(StackSpec spec, const ForwardReplicate& replicate) {
  spec.model.vocab = 5000;
  spec.init.head_std = 1e-4;
  std::vector<int> labels;
  for (int t = 0; t < spec.input.tokens; ++t) labels.push_back(t % 1000);
  ForwardTrace trace;
  (void)forward_profile(spec, replicate, &trace);
  Profile profile;
  backward_profile(spec, replicate, trace, {labels}, profile);
  return profile;
}

StackSpec long_stack(std::string_view placement, int tokens) {
  StackSpec spec = testing::placed(testing::tiny_stack(), placement);
  spec.model.heads = spec.model.kv_heads = 4;
  spec.model.head_dim = 8;
  spec.input.tokens = tokens;
  spec.input.correlation = 0.2;
  return spec;
}

TEST_CASE("gradients through uniform attention on a grid: errors fall with the square of the node distance") {
  for (const bool causal : {true, false}) {
    CAPTURE(causal);
    StackSpec spec = long_stack("post", 700);
    spec.model.causal = causal;
    spec.init.qk_factor = 0.0;
    const Profile exact = gradients_of(spec, {.ids = {}, .samples = 2});
    std::vector<double> stream;
    std::vector<double> matrices;
    for (const double refinement : {0.5, 1.0}) {
      const TokenGrid grid(spec.input.tokens, causal, refinement);
      ForwardReplicate replicate{.ids = {}, .samples = 2};
      replicate.grid = &grid;
      stream.push_back(0.0);
      matrices.push_back(0.0);
      for (const auto& [key, curve] : gradients_of(spec, replicate).curves) {
        if (key.first != Statistic::grad_sq) continue;
        double& largest = std::holds_alternative<Weight>(key.second) ? matrices.back() : stream.back();
        const std::vector<double>& all = exact.curves.at(key).value;
        for (std::size_t i = 0; i < all.size(); ++i) {
          if (all[i] != 0.0) largest = std::max(largest, std::abs(curve.value[i] / all[i] - 1.0));
        }
      }
    }
    constexpr double of_floats = 5e-6;  // sums of 700 terms in float
    CHECK(stream[1] < 1e-4);
    CHECK(matrices[1] < 1e-4);
    CHECK(stream[1] < 0.4 * stream[0] + of_floats);
    CHECK(matrices[1] < 0.4 * matrices[0] + of_floats);
  }
}

/// Returns the entries of all gradient curves over replicates, on a grid or for all tokens.
std::map<std::string, std::vector<double>> replicate_entries(const StackSpec& spec, int samples, int replicates,
                                                             const TokenGrid* grid) {
  std::map<std::string, std::vector<double>> entries;
  for (int r = 0; r < replicates; ++r) {
    ForwardReplicate replicate{.ids = {}, .samples = samples};
    replicate.seed = grid != nullptr ? 1 : 2;
    replicate.index = static_cast<std::uint64_t>(r);
    replicate.grid = grid;
    for (const auto& [key, curve] : gradients_of(spec, replicate).curves) {
      for (std::size_t i = 0; i < curve.value.size(); ++i) {
        entries[fmt::format("{} {}[{}]", statistic_names[static_cast<std::size_t>(key.first)], name_of(key.second), i)]
            .push_back(curve.value[i]);
      }
    }
  }
  return entries;
}

// One standard error is 1.3 to 3.1 % for the gradients of W_q and W_k, and below 0.1 % for all other matrices. A test
// rejects correct code with a probability of about 2e-5 (t distribution), any of the 105 tests with 2e-3.
TEST_CASE("replicates of gradients on a grid and for all tokens have equal means within the stated error" *
          doctest::test_suite("slow")) {
  struct Case {
    const char* placement;
    bool causal, rope;
    QkNorm qk_norm;
    double cap;
    bool inside;  ///< V-norm, gates and inner norm
  };
  for (const Case c :
       {Case{"pre", true, true, QkNorm::none, 0.0, true}, Case{"peri", true, true, QkNorm::head, 0.0, false},
        Case{"post", true, false, QkNorm::none, 2.0, false}, Case{"keel", true, true, QkNorm::none, 0.0, false},
        Case{"pre", false, true, QkNorm::full, 0.0, false}}) {
    INFO(std::string(c.placement), ", causal := ", c.causal);
    StackSpec spec = long_stack(c.placement, c.causal ? 256 : 340);
    spec.model.causal = c.causal;
    spec.model.rope = c.rope;
    spec.model.qk_norm = c.qk_norm;
    spec.model.attention.resize(static_cast<std::size_t>(spec.model.layers));
    for (auto& layer : spec.model.attention) layer.scores.soft_cap = c.cap;
    if (c.inside) {
      spec.model.v_norm = true;
      spec.model.attention_gate = AttentionGate::head;
      spec.model.inner_norm = InnerNorm::o;
    }
    constexpr int samples = 16;
    constexpr int replicates = 16;
    const TokenGrid grid(spec.input.tokens, c.causal);
    const auto on_grid = replicate_entries(spec, samples, 2 * replicates, &grid);
    const auto full = replicate_entries(spec, samples, replicates, nullptr);
    for (const auto& entry : full) {
      const std::string& name = entry.first;
      const testing::Estimate all = testing::estimate(entry.second);
      const testing::Estimate reduced = testing::estimate(on_grid.at(name));
      const double error = std::hypot(all.standard_error, reduced.standard_error);
      if (std::isnan(all.mean)) continue;
      // The grid error that predict() states: 2 % of the standard deviation of one pattern.
      const double own = 0.02 * std::sqrt(1.0 * replicates * samples) * all.standard_error;
      CHECK_MESSAGE(std::abs(reduced.mean - all.mean) < own + 5.0 * error + 1e-6 * all.mean, name, ": ", reduced.mean,
                    " ± ", reduced.standard_error, ", of all tokens ", all.mean, " ± ", all.standard_error);
    }
  }
}

}  // namespace
}  // namespace periscope::theory
