#include "sim/model/weights.h"

#include "tests/support/doctest.h"

#include "tests/support/edited_weights.h"
#include "tests/support/targets.h"
#include "tests/support/weight_contract.h"

namespace periscope::testing {
namespace {

TEST_CASE("edited weights without edits equal their source, including rows and biases") {
  const DistinctWeights source;
  check_same_weights(EditedWeights(source, same_matrix, same_norm), source);
}

TEST_CASE("edited weights: rows of a table are edited") {
  const DistinctWeights source;
  const EditedWeights doubled(
      source, [](int, Weight, const Tensor& w) { return truth().scale(2.0, w); }, same_norm);
  check_rows_of_tables(doubled);
  const std::vector<int> ids{3, 1};
  const std::vector<double> once = truth().to_host(source.rows(truth(), Weight::embedding, ids));
  const std::vector<double> twice = truth().to_host(doubled.rows(truth(), Weight::embedding, ids));
  REQUIRE(once.size() == 2 * 3);
  for (std::size_t i = 0; i < once.size(); ++i) CHECK(twice[i] == 2.0 * once[i]);
}

}  // namespace
}  // namespace periscope::testing
