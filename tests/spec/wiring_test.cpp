#include "sim/spec/wiring.h"

#include <cmath>
#include <numeric>
#include <string_view>

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

// Parallel blocks and SpanNorm are compared with plain loops in tests/model/stack_test.cpp.
TEST_CASE("with x0, attention reads a weighted sum of the stream and the stack's input") {
  const ModelSpec m = stack("x0");
  for (const auto& [step, kept, added] : {std::tuple{0, 1.15, 0.20}, {2, 1.10, 0.125}, {4, 1.05, 0.05}}) {
    CHECK(m.step(step).branches[0].reads[0] == approx(kept).epsilon(1e-14));
    CHECK(m.step(step).branches[0].reads[1] == approx(added).epsilon(1e-14));
    CHECK(m.step(step).mixing[0] == m.step(step).branches[0].reads);
  }
  CHECK(m.step(1).mixing == std::vector<Weights>{{1.0, 0.0}, {0.0, 1.0}});
}

TEST_CASE("every layer of a deep stack is wired alike; KEEL scales by layer, Beam by addition") {
  constexpr int layers = 5;
  const ModelSpec span = stack("span", layers), keel = stack("keel", layers), beam = stack("beam", layers);
  for (int layer = 0; layer < layers; ++layer) {
    CAPTURE(layer);
    CHECK(span.step(2 * layer).mixing == std::vector<Weights>{{1.0, 0.0}, {1.0, 0.0}});
    CHECK(span.step(2 * layer + 1).mixing == std::vector<Weights>{{0.0, 1.0}, {0.0, 1.0}});
    for (const char* name : {"parallel", "parallel-two"}) {
      const std::vector<Branch> branches = stack(name, layers).step(layer).branches;
      REQUIRE(branches.size() == 2);
      CHECK(branches[0].sublayer == 2 * layer);
      CHECK(branches[1].sublayer == 2 * layer + 1);
      CHECK(branches[1].shares_input == (std::string_view(name) == "parallel"));
    }
    for (const int l : {2 * layer, 2 * layer + 1}) {
      CHECK(span.step(l).norm_c == std::vector<bool>{true, false});
      CHECK(keel.step(l).norm_c[0] == (layer > 0));
      CHECK(keel.step(l).mixing[0][0] == (layer > 0 ? 10.0 : 1.0));
      CHECK(beam.step(l).mixing[0][0] == approx(std::sqrt((l + 1.0) / (l + 2.0))).epsilon(1e-14));
      CHECK(beam.step(l).branches[0].writes[0] == approx(1.0 / std::sqrt(l + 2.0)).epsilon(1e-14));
    }
  }
}

TEST_CASE("with hyper, streams are read in turn; random mixing is doubly stochastic and differs between steps") {
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
      CHECK(std::accumulate(step.mixing[i].begin(), step.mixing[i].end(), 0.0) == approx(1.0).epsilon(1e-14));
      CHECK(column == approx(1.0).epsilon(1e-12));
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
