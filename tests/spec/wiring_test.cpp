#include "sim/spec/wiring.h"

#include <numeric>

#include "tests/support/doctest.h"

namespace periscope {
namespace {

ModelSpec stack(const char* placement, int layers = 3) {
  ModelSpec m;
  m.layers = layers;
  m.placement = *find_placement(placement);
  return m;
}

using Weights = std::vector<double>;

TEST_CASE("parallel blocks: one addition per layer; the MLP shares the norm of attention, or has its own") {
  for (const char* name : {"parallel", "parallel-two"}) {
    const ModelSpec m = stack(name);
    CHECK(m.steps() == 3);
    CHECK(m.depths() == 4);
    CHECK(m.curve_length(Signal::x_out) == 4);
    CHECK(m.curve_length(Signal::f_out) == 6);
    const Step step = m.step(1);
    REQUIRE(step.branches.size() == 2);
    CHECK(step.branches[0].sublayer == 2);
    CHECK(step.branches[1].sublayer == 3);
    CHECK(step.branches[1].kind == ModuleKind::mlp);
    const bool one = m.placement.wiring == Wiring::parallel;
    CHECK(step.branches[1].shares_input == one);
    CHECK(step.branches[1].norm_a == !one);
    CHECK_FALSE(step.is_one_addition());
  }
}

TEST_CASE("SpanNorm: the MLP reads the output of attention and is added to the same residual as attention") {
  const ModelSpec m = stack("span");
  const Step attention = m.step(2);
  const Step mlp = m.step(3);
  CHECK(attention.branches[0].read_stream() == 0);
  CHECK(attention.mixing == std::vector<Weights>{{1.0, 0.0}, {1.0, 0.0}});
  CHECK(mlp.branches[0].read_stream() == 0);
  CHECK(mlp.mixing[0] == Weights{0.0, 1.0});
  CHECK(attention.norm_c == std::vector<bool>{true, false});
  CHECK(m.step(0).branches[0].norm_a);
  CHECK_FALSE(m.step(2).branches[0].norm_a);
}

TEST_CASE("x0: attention reads a weighted sum of the stream and the input of the stack") {
  const ModelSpec m = stack("x0");
  for (const auto& [step, kept, added] : {std::tuple{0, 1.15, 0.20}, {2, 1.10, 0.125}, {4, 1.05, 0.05}}) {
    CHECK(m.step(step).branches[0].reads[0] == doctest::Approx(kept).epsilon(1e-14));
    CHECK(m.step(step).branches[0].reads[1] == doctest::Approx(added).epsilon(1e-14));
    CHECK(m.step(step).mixing[0] == m.step(step).branches[0].reads);
  }
  CHECK(m.step(1).mixing == std::vector<Weights>{{1.0, 0.0}, {0.0, 1.0}});
}

TEST_CASE("hyper: streams are read in turn; random mixing is doubly stochastic and differs between steps") {
  ModelSpec m = stack("hyper");
  m.streams = 3;
  m.stream_mixing = StreamMixing::random;
  CHECK(m.ends().parts_of_stream() == 3);
  for (int s = 0; s < 6; ++s) {
    const Step step = m.step(s);
    CHECK(step.branches[0].read_stream() == s % 3);
    CHECK(step.branches[0].writes == Weights{1.0, 1.0, 1.0});
    for (std::size_t i = 0; i < 3; ++i) {
      double column = 0.0;
      for (std::size_t j = 0; j < 3; ++j) column += step.mixing[j][i];
      CHECK(std::accumulate(step.mixing[i].begin(), step.mixing[i].end(), 0.0) == doctest::Approx(1.0).epsilon(1e-14));
      CHECK(column == doctest::Approx(1.0).epsilon(1e-12));
    }
    CHECK(step.mixing != m.step((s + 1) % 6).mixing);
  }
  m.stream_write = StreamWrite::one;
  CHECK(m.step(1).branches[0].writes == Weights{0.0, 1.0, 0.0});
}

TEST_CASE("step_of with a layer offset counts layers as in a deeper stack") {
  CHECK(step_of(stack("keel"), 2, 1).mixing[0][0] == 8.0);
  CHECK(step_of(stack("keel"), 0, 1).norm_c[0]);  // with offset 1, layer 0 counts as layer 1
}

}  // namespace
}  // namespace periscope
