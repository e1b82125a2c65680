#include "theory/modules/fault.h"

#include "tests/support/doctest.h"

#include <cmath>

#include "sim/spec/model_spec.h"

namespace periscope::theory {
namespace {

StackSpec small_stack(const char* placement) {
  StackSpec spec;
  spec.model = {.layers = 3, .width = 64, .heads = 4, .kv_heads = 4, .head_dim = 16, .mlp_width = 128};
  spec.model.placement = *find_placement(placement);
  take_defaults(spec.model.placement, spec.model);
  spec.init.scheme = InitScheme::lecun;
  spec.input.tokens = 6;
  return spec;
}

}  // namespace

TEST_CASE("depth_constant uses the constants of one more layer; acts_on is true if a fault changes a prediction") {
  const ModelSpec lns = small_stack("lns").model;
  CHECK(step_under(Fault::depth_constant, lns, 2).branches[0].input_gain == approx(1.0 / std::sqrt(3.0)));
  const ModelSpec deepnorm = small_stack("deepnorm").model;
  CHECK(step_under(Fault::depth_constant, deepnorm, 0).mixing[0][0] == approx(std::pow(8.0, 0.25)));
  for (const Placement& p : placement_table()) {
    CAPTURE(p.name);
    StackSpec spec = small_stack(std::string(p.name).c_str());
    spec.model.layers = 7;  // Mix-LN switches at floor(L/4), which is 1 for 7 layers and 2 for 8
    bool differs = false;
    for (int l = 0; l < 14; ++l)
      differs = differs || step_under(Fault::depth_constant, spec.model, l) != spec.model.step(l);
    CHECK(differs == acts_on(Fault::depth_constant, spec, false));
  }
  for (const Fault fault : {Fault::no_score_path, Fault::query_gradient}) {
    CHECK(acts_on(fault, small_stack("pre"), true));
    CHECK_FALSE(acts_on(fault, small_stack("pre"), false));
  }
  CHECK_FALSE(acts_on(Fault::none, small_stack("pre"), true));
}

}  // namespace periscope::theory
