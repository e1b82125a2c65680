#include "tests/support/doctest.h"

#include <cmath>
#include <vector>

#include "tests/theory/xiong.h"

namespace periscope::theory {
namespace {

std::vector<double> stream(const StackSpec& spec) { return predicted(spec, Statistic::second_moment, Signal::x_out); }

TEST_CASE("Peri-LN and B-only grow by gamma^2 per sublayer for any modules (T12a)") {
  for (const char* placement : {"peri", "b-only"}) {
    for (const NormKind norm : {NormKind::rms, NormKind::layer}) {
      for (const MlpKind mlp : {MlpKind::relu, MlpKind::swiglu}) {
        for (const InitScheme scheme : {InitScheme::normal, InitScheme::he}) {
          StackSpec spec = testing::placed(testing::tiny_stack(), placement);  // softmax, RoPE, causal
          spec.model.norm = norm;
          spec.model.norm_eps = 0.0;
          spec.model.mlp = mlp;
          spec.init.scheme = scheme;
          spec.input.second_moment = 3.0;
          const std::vector<double> q = stream(spec);
          for (int l = 0; l <= spec.model.sublayers(); ++l)
            CHECK(q[static_cast<std::size_t>(l)] == exactly(3.0 + l * 0.64));
        }
      }
    }
  }
}

TEST_CASE("Pre-LN in Xiong's setting grows by (1 + (T-1)c)/T + 1/2 per layer (T12b)") {
  for (const double correlation : {0.0, 0.4, 1.0}) {
    StackSpec spec = xiong_stack("pre");
    spec.input.correlation = correlation;
    const std::vector<double> q = stream(spec);
    const std::vector<double> cosine = predicted(spec, Statistic::token_cosine, Signal::x_in);
    CHECK(cosine[0] == exactly(correlation));
    for (std::size_t layer = 0; layer < 6; ++layer) {
      const double increment = q[2 * layer + 2] - q[2 * layer];
      CHECK(increment == exactly(0.5 + (1.0 + 4.0 * cosine[2 * layer]) / 5.0));
      // bounds of Lemma 2 (Xiong et al.) for input of second moment 1
      CHECK(q[2 * layer + 2] >= 1.0 + static_cast<double>(layer + 1) / 2.0);
      CHECK(q[2 * layer + 2] <= 1.0 + 3.0 * static_cast<double>(layer + 1) / 2.0 + 1e-12);
    }
  }
}

TEST_CASE("LayerNorm scaling grows like the harmonic numbers (T12e)") {
  // One token or equal tokens: attention returns its input, ReLU halves the second moment.
  for (const bool one_token : {true, false}) {
    StackSpec spec = xiong_stack("lns");
    spec.input.tokens = one_token ? 1 : 5;
    spec.input.correlation = 1.0;
    const std::vector<double> q = stream(spec);
    double harmonic = 0.0;
    for (int layer = 1; layer <= 6; ++layer) {
      harmonic += 1.0 / layer;
      CHECK(q[static_cast<std::size_t>(2 * layer)] == exactly(1.0 + 1.5 * harmonic));
    }
  }
}

TEST_CASE("harmonic growth needs modules of degree one: the branch of a gated MLP falls like 1/layer^2 (T12e)") {
  StackSpec spec = xiong_stack("lns");
  spec.model.mlp = MlpKind::swiglu;
  spec.init.scheme = InitScheme::scaled;
  spec.init.factor = 1e-4;  // small, so that SiLU(x) ≈ x/2
  const std::vector<double> branch = predicted(spec, Statistic::second_moment, Signal::f_out);
  for (std::size_t layer = 1; layer <= 6; ++layer) {
    const double scaled = branch[2 * layer - 1] * static_cast<double>(layer * layer);
    CHECK(scaled == approx(branch[1]).epsilon(1e-3));
  }
}

TEST_CASE("the share of each branch falls like 1/sqrt(l) (T12g)") {
  // A hidden width of 2·D and standard deviations 1/√D give both branches a second moment of 1.
  StackSpec spec = xiong_stack("pre");
  spec.model.mlp_width = 128;
  spec.init.scheme = InitScheme::normal;
  spec.init.std = 0.125;
  spec.input.correlation = 1.0;
  spec.input.second_moment = 3.0;
  const std::vector<double> ratio = predicted(spec, Statistic::branch_ratio, Signal::B_out);
  for (int l = 0; l < 12; ++l) CHECK(ratio[static_cast<std::size_t>(l)] == exactly(std::sqrt(1.0 / (3.0 + l))));
}

}  // namespace
}  // namespace periscope::theory
