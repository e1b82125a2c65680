#include "tests/support/recorded_stack.h"

#include "tests/support/doctest.h"
#include "tests/support/edited_weights.h"

namespace periscope::testing {
namespace {

TEST_CASE("edited weights: an edit changes only its own matrix") {
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
      const std::vector<double> before = truth().to_host(matrix_of(source, spec.model, layer, weight));
      const std::vector<double> after = truth().to_host(matrix_of(edited, spec.model, layer, weight));
      CHECK((before != after) == (layer == 1 && weight == Weight::down));
    }
  }
}

TEST_CASE("random norms: all different, gains positive, biases only where the norm has one") {
  StackSpec spec = tiny_stack();
  spec.model.norm = NormKind::layer;
  spec.model.placement = custom_placement({.norm_a = true, .norm_b = true, .norm_c = true});
  spec.model.qk_norm = QkNorm::head;
  const GeneratedWeights source(truth(), spec, DType::f64, 1);
  const EditedWeights edited(source, same_matrix, random_norms(truth()));
  const auto gain = [&](int sublayer, Weight site) {
    return truth().to_host(norm_of(edited, spec.model, sublayer, site).gain);
  };
  CHECK(gain(0, Weight::norm_a) != gain(0, Weight::norm_b));
  CHECK(gain(0, Weight::norm_a) != gain(1, Weight::norm_a));
  for (const double g : gain(3, Weight::norm_c)) CHECK(g >= 0.5);
  CHECK_FALSE(norm_of(edited, spec.model, 0, Weight::norm_a).bias.empty());
  CHECK(norm_of(edited, spec.model, 0, Weight::q_norm).bias.empty());
}

}  // namespace
}  // namespace periscope::testing
