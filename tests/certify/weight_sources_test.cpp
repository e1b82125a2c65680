#include <numeric>

#include "experiments/engine/settings/theory_parameters.h"
#include "sim/model/scaled_weights.h"
#include "tests/certify/certified_stack.h"
#include "tests/support/doctest.h"
#include "tests/support/recorded_stack.h"
#include "tests/support/weight_contract.h"

/// Sources that pass on what others say, here those of the certificate.
namespace periscope::testing {
namespace {

TEST_CASE("weights scaled by one are the source's: rows and biases too") {
  const DistinctWeights source;
  for (const Placement& placement : placement_table()) {
    const ModelSpec model = placed(tiny_stack(), placement.name).model;
    check_same_weights(ScaledWeights(truth(), model, source, {}), source);
  }
}

TEST_CASE("rows of a scaled table are those of its scaled matrix") {
  const DistinctWeights source;
  for (const bool embedding_norm : {false, true}) {
    ModelSpec model = placed(tiny_stack(), "peri").model;
    model.embedding_norm = embedding_norm;
    const ScaledWeights scaled(truth(), model, source, {.stream = 3.0});
    check_rows_of_tables(scaled);
    const std::vector<int> id{1};
    const double position = truth().to_host(source.rows(truth(), Weight::positions, id))[0];
    CHECK(truth().to_host(scaled.rows(truth(), Weight::positions, id))[0] == (embedding_norm ? 1.0 : 3.0) * position);
  }
}

TEST_CASE("theory reads a table of more rows than it takes at once, each row in its place") {
  StackSpec spec = placed(tiny_stack(), "pre");
  spec.model.vocab = 2 * 4096 + 3;
  spec.input.kind = InputKind::tokens;
  const GeneratedWeights weights(truth(), spec, DType::f64, 1);
  const config::TheoryParameters parameters(truth(), spec.model, weights);
  std::vector<int> ids(static_cast<std::size_t>(spec.model.vocab));
  std::iota(ids.begin(), ids.end(), 0);
  const std::vector<double> table = truth().to_host(weights.rows(truth(), Weight::embedding, ids));
  std::vector<double> read;
  parameters.visit_rows(Weight::embedding, [&](Eigen::Index first, const theory::RowMatrix& rows) {
    CHECK(static_cast<std::size_t>(first * rows.cols()) == read.size());
    read.insert(read.end(), rows.data(), rows.data() + rows.size());
  });
  CHECK((read == table));
}

TEST_CASE("weights with biases of nothing are the source's, which has biases and tables of its own") {
  const DistinctWeights source;
  check_same_weights(BiasedWeights(truth(), source, 0.0), source);
}

}  // namespace
}  // namespace periscope::testing
