#include "sim/model/resident_weights.h"

#include "sim/model/parameters.h"
#include "tests/support/doctest.h"
#include "tests/support/recorded_stack.h"

namespace periscope::testing {
namespace {

TEST_CASE("resident weights: fetch returns a replaced parameter") {
  StackSpec spec = placed(tiny_stack(), "peri");
  spec.model.norm = NormKind::layer;
  spec.model.qk_norm = QkNorm::head;
  spec.model.embedding_norm = true;
  spec.input.kind = InputKind::tokens;
  ResidentWeights resident(spec, GeneratedWeights(truth(), spec, DType::f64, 4));
  for (const ParameterId& id : all_parameters_of(spec)) {
    Tensor& parameter = resident.parameters().at(id);
    const Tensor other = truth().constant(parameter.rows(), parameter.cols(), DType::f64, 7.0);
    parameter = other;
    CHECK(parameter_of(resident, spec.model, id).same_as(other));
  }
}

}  // namespace
}  // namespace periscope::testing
