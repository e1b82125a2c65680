#include "theory/attention/token_grid.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tests/support/doctest.h"
#include "tests/support/significance.h"
#include "tests/theory/xiong.h"
#include "theory/attention/grid_attention.h"
#include "theory/kernels/kernel.h"
#include "theory/predict/predict.h"

namespace periscope::theory {
namespace {

using Index = Eigen::Index;

TEST_CASE("grid positions are sorted, singles then pairs of neighbours, and cells cover all other tokens") {
  for (const Index tokens : {64, 200, 513, 4096, 100000}) {
    for (const bool causal : {true, false}) {
      INFO("tokens := ", tokens, ", causal := ", causal);
      const TokenGrid grid(tokens, causal);
      const std::vector<Index>& positions = grid.positions();
      CHECK(positions.front() == 0);
      CHECK(positions.back() == tokens - 1);
      for (std::size_t i = 1; i < positions.size(); ++i) CHECK(positions[i] > positions[i - 1]);
      for (auto i = static_cast<std::size_t>(grid.singles()); i < positions.size(); i += 2) {
        CHECK(positions[i + 1] == positions[i] + 1);
      }
      Index next = grid.singles();
      for (const auto& [node, first, end] : grid.cells()) {
        CHECK(first == next);
        CHECK(node + 1 < grid.nodes());
        next = end;
      }
      CHECK(next == tokens);
      CHECK(grid.mean(Vector::Ones(grid.size())) == approx(1.0));
      CHECK(grid.mean_of_pairs(Matrix::Ones(grid.size(), grid.size())) == approx(1.0));
    }
  }
  CHECK(TokenGrid(64, true).size() == 64);
  CHECK(TokenGrid(4096, true).size() < 300);
}

TEST_CASE("on a grid of all tokens, means are exact and interpolation is the identity") {
  const TokenGrid grid = TokenGrid::of_all_tokens(9);
  // Kernel of causal averages: 1/max(t, s), doubled on the diagonal, plus a constant.
  const Matrix k = Matrix::NullaryExpr(
      9, 9, [](Index t, Index s) { return 0.3 + (t == s ? 2.0 : 1.0) / static_cast<double>(std::max(t, s) + 1); });
  CHECK(grid.mean(k.diagonal()) == approx(k.diagonal().mean()).epsilon(1e-14));
  CHECK(grid.mean_of_pairs(k) == approx((k.sum() - k.trace()) / 72).epsilon(1e-14));
  CHECK(grid.between(k) == k);
  CHECK(grid.all(k.diagonal()) == k.diagonal());
  CHECK(grid.diagonal(k, grid.kinks(k)) == k.diagonal());
}

StackSpec long_stack(std::string_view placement, int tokens, double correlation) {
  StackSpec spec = testing::placed(testing::tiny_stack(), placement);
  spec.model.heads = spec.model.kv_heads = 4;
  spec.model.head_dim = 8;
  spec.model.rope = true;
  spec.input.tokens = tokens;
  spec.input.correlation = correlation;
  return spec;
}

TEST_CASE("two layers of uniform attention on a grid: errors fall with the square of the node distance") {
  for (const bool causal : {true, false}) {
    CAPTURE(causal);
    StackSpec spec = long_stack("pre", 700, 0.1);
    spec.model.causal = causal;
    spec.init.qk_factor = 0.0;
    const PatternLaw law = pattern_law(spec, 0);
    const Matrix input = input_kernel(spec, {}).product;
    const AttentionAverage full(law, 700);
    const auto stream = [](const Matrix& branch, const Matrix& before) { return Matrix(before + 2.0 * branch); };
    const Matrix once = stream(full.head_output_kernel(input, 2, {}), input);
    const Matrix twice = full.head_output_kernel(once, 2, {});
    std::vector<double> moment;
    std::vector<double> cosine;
    for (const double refinement : {1.0, 2.0}) {
      const TokenGrid grid(700, causal, refinement);
      const AttentionAverage average(law, grid);
      StackSpec positions = spec;
      positions.input.tokens = static_cast<int>(grid.size());
      const Matrix start = input_kernel(positions, {}).product;
      const Matrix k = average.head_output_kernel(stream(average.head_output_kernel(start, 2, {}), start), 2, {});
      const Vector inverse = k.diagonal().cwiseSqrt().cwiseInverse();
      moment.push_back(std::abs(grid.mean(k.diagonal()) / twice.diagonal().mean() - 1.0));
      cosine.push_back(
          std::abs(grid.mean_of_pairs(inverse.asDiagonal() * k * inverse.asDiagonal()) - token_cosine(twice)));
    }
    constexpr double of_floats = 2e-6;  // rounding of 700 terms in float
    CHECK(moment[0] < 1e-3);
    CHECK(cosine[0] < 1e-3);
    CHECK(moment[1] < 0.4 * moment[0] + of_floats);
    CHECK(cosine[1] < 0.4 * cosine[0] + of_floats);
  }
}

TEST_CASE("a grid is used only for long Gaussian input without windows and with sampled patterns") {
  const StackSpec spec = long_stack("pre", 256, 0.3);
  REQUIRE(grid_for(spec).has_value());
  CHECK(2 * grid_for(spec)->size() <= 256);
  StackSpec longer = spec;
  longer.input.tokens *= 4;
  for (const bool backward : {false, true}) {  // for all tokens, costs grow with the third power
    CHECK(pattern_operations(longer, backward) < 20.0 * pattern_operations(spec, backward));
  }
  const auto is_used = [&](const std::function<void(StackSpec&)>& change) {
    StackSpec other = spec;
    other.model.attention.resize(static_cast<std::size_t>(spec.model.layers));
    change(other);
    return grid_for(other).has_value();
  };
  CHECK_FALSE(is_used([](StackSpec& s) { s.input.tokens = 128; }));
  CHECK_FALSE(is_used([](StackSpec& s) { s.input.kind = InputKind::tokens; }));
  CHECK_FALSE(is_used([](StackSpec& s) { s.init.qk_factor = 0.0; }));
  CHECK_FALSE(is_used([](StackSpec& s) { s.model.attention.back().scores.window = 100; }));
  CHECK(is_used([](StackSpec& s) { s.model.attention.back().scores.window = 256; }));
}

TEST_CASE("with nearly constant patterns, standard errors on a grid cover the interpolation error") {
  StackSpec spec = long_stack("peri", 300, 0.0);
  spec.init.qk_factor = 0.01;
  const Prediction on_grid = predict(spec, {}, {});
  spec.init.qk_factor = 0.0;
  const Prediction exact = predict(spec, {}, {});  // all tokens; logits of 1e-4 are negligible
  const Curve& cosine = *on_grid.profile.find(Statistic::token_cosine, Signal::x_out);
  const Curve& other = *exact.profile.find(Statistic::token_cosine, Signal::x_out);
  for (std::size_t i = 1; i < cosine.value.size(); ++i) {
    CHECK(cosine.standard_error[i] < 1e-3);
    CHECK(std::abs(cosine.value[i] - other.value[i]) < 4.0 * cosine.standard_error[i]);
  }
  CHECK(cosine.value.back() != other.value.back());
}

/// Returns the entries of all curves over replicates of `samples` patterns, on a grid or for all tokens.
std::map<std::string, std::vector<double>> replicate_entries(const StackSpec& spec, int samples, int replicates,
                                                             bool on_grid) {
  const std::optional<TokenGrid> grid = grid_for(spec);
  std::map<std::string, std::vector<double>> entries;
  for (int r = 0; r < replicates; ++r) {
    ForwardReplicate chain;
    chain.samples = samples;
    chain.seed = on_grid ? 1 : 2;
    chain.index = static_cast<std::uint64_t>(r);
    if (on_grid) chain.grid = &grid.value();
    for (const auto& [key, curve] : forward_profile(spec, chain).curves) {
      for (std::size_t i = 0; i < curve.value.size(); ++i) {
        entries[fmt::format("{} {}[{}]", statistic_names[static_cast<std::size_t>(key.first)], name_of(key.second), i)]
            .push_back(curve.value[i]);
      }
    }
  }
  return entries;
}

TEST_CASE("replicates on a grid and for all tokens have equal means within the stated error" *
          doctest::test_suite("slow")) {
  struct Case {
    const char* placement;
    double correlation;
    bool causal, rope;
  };
  for (const Case c : {Case{"pre", 0.0, true, true}, Case{"peri", 0.5, true, true}, Case{"post", 0.2, true, false},
                       Case{"pre", 0.3, false, true}}) {
    CAPTURE(std::string(c.placement));
    StackSpec spec = long_stack(c.placement, c.causal ? 256 : 500, c.correlation);
    spec.model.causal = c.causal;
    spec.model.rope = c.rope;
    constexpr int samples = 32;
    constexpr int replicates = 12;
    const auto on_grid = replicate_entries(spec, samples, 2 * replicates, true);
    const auto full = replicate_entries(spec, samples, replicates, false);
    for (const auto& entry : full) {
      const std::string& name = entry.first;
      const testing::Estimate all = testing::estimate(entry.second);
      const testing::Estimate grid = testing::estimate(on_grid.at(name));
      const double error = std::hypot(all.standard_error, grid.standard_error);
      if (std::isnan(all.mean) || error <= 1e-6 * std::abs(all.mean)) continue;
      // The grid error that predict() states: 2 % of the standard deviation of one pattern.
      const double own = 0.02 * std::sqrt(1.0 * replicates * samples) * all.standard_error;
      CHECK_MESSAGE(std::abs(grid.mean - all.mean) < own + 5.0 * error, name, ": ", grid.mean, " ± ",
                    grid.standard_error, ", of all tokens ", all.mean, " ± ", all.standard_error);
    }
  }
}

}  // namespace
}  // namespace periscope::theory
