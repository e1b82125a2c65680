#include "tests/support/recorded_stack.h"

#include <doctest/doctest.h>

#include "tests/support/edited_weights.h"

namespace periscope::testing {
namespace {

TEST_CASE("the recorder keeps every site of every sublayer") {
  for (const bool two_streams : {false, true}) {
    const StackSpec spec = placed(tiny_stack(), two_streams ? "residual-dual" : "peri");
    const RecordedStack r = record_stack(truth_target(), spec, 1);
    const std::size_t sites = two_streams ? 6 : 5;
    CHECK(r.site.size() == sites * static_cast<std::size_t>(spec.model.sublayers()));
    CHECK(r.at(0, Signal::x_in) == r.input);
    CHECK(r.at(1, Signal::x_in) == r.at(0, Signal::x_out));
    CHECK(r.stream == r.at(3, Signal::x_out));
    CHECK(r.output != r.stream);
  }
}

TEST_CASE("edited weights: an edit reaches the matrix that it names and no other") {
  const StackSpec spec = tiny_stack();
  const GeneratedWeights source(truth(), spec, DType::f64, 1);
  const EditedWeights edited(
      source,
      [](int layer, Weight weight, const Tensor& w) {
        return layer == 1 && weight == Weight::down ? truth().scale(2.0, w) : w;
      },
      same_norm);
  for (const int layer : {0, 1}) {
    for (const Weight weight : {Weight::down, Weight::up}) {
      const std::vector<double> before = truth().to_host(source.matrix(layer, weight));
      const std::vector<double> after = truth().to_host(edited.matrix(layer, weight));
      CHECK((before != after) == (layer == 1 && weight == Weight::down));
    }
  }
}

TEST_CASE("random norms: no two alike, gains positive, biases only where there were some") {
  StackSpec spec = tiny_stack();
  spec.model.norm = NormKind::layer;
  const GeneratedWeights source(truth(), spec, DType::f64, 1);
  const EditedWeights edited(source, same_matrix, random_norms(truth()));
  const auto gain = [&](int sublayer, NormSite site) { return truth().to_host(edited.norm(sublayer, site).gain); };
  CHECK(gain(0, NormSite::a) != gain(0, NormSite::b));
  CHECK(gain(0, NormSite::a) != gain(1, NormSite::a));
  for (const double g : gain(3, NormSite::c)) CHECK(g >= 0.5);
  CHECK_FALSE(edited.norm(0, NormSite::a).bias.empty());
  CHECK(edited.norm(0, NormSite::q).bias.empty());
}

TEST_CASE("second moments by hand") {
  CHECK(second_moments({3.0, 4.0, 0.0, 1.0}, 2) == std::vector<double>{12.5, 0.5});
}

}  // namespace
}  // namespace periscope::testing
