#include "sim/model/resident_weights.h"

#include <array>

#include "sim/model/parameters.h"
#include "tests/support/compare.h"
#include "tests/support/doctest.h"
#include "tests/support/recorded_stack.h"

namespace periscope::testing {
namespace {

StackSpec token_stack(NormKind norm) {
  StackSpec spec = placed(tiny_stack(), "peri");
  spec.model.layers = 1;
  spec.model.norm = norm;
  spec.model.qk_norm = QkNorm::head;
  spec.model.embedding_norm = true;
  spec.input.kind = InputKind::tokens;
  return spec;
}

std::vector<double> host(const Tensor& x) { return x.empty() ? std::vector<double>{} : truth().to_host(x); }

TEST_CASE("resident weights have the bits of their source") {
  for (const NormKind norm : {NormKind::rms, NormKind::layer}) {
    const StackSpec spec = token_stack(norm);
    const GeneratedWeights source(truth(), spec, DType::f64, 4);
    const ResidentWeights resident(spec, source);
    for (int sublayer = -1; sublayer <= spec.model.sublayers(); ++sublayer) {
      const SublayerWeights expected = source.fetch(sublayer);
      const SublayerWeights actual = resident.fetch(sublayer);
      for (const Weight weight : weights_in(spec.model, sublayer)) {
        const std::string name(name_of(weight));
        if (is_norm(weight)) {
          check_same_bits(name, host(actual.norm(weight).gain), host(expected.norm(weight).gain));
          check_same_bits(name, host(actual.norm(weight).bias), host(expected.norm(weight).bias));
        } else {
          check_same_bits(name, host(actual.matrix(weight).map->dense()), host(expected.matrix(weight).map->dense()));
          CHECK(actual.matrix(weight).bias.empty());
        }
      }
    }
    constexpr std::array ids{3, 0, 3};
    check_same_bits("rows", host(resident.rows(truth(), Weight::embedding, ids)),
                    host(source.rows(truth(), Weight::embedding, ids)));
  }
}

TEST_CASE("resident weights: a replaced parameter is fetched") {
  const StackSpec spec = token_stack(NormKind::layer);
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
