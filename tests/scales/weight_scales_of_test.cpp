#include "experiments/engine/run/weight_scales_of.h"

#include <cmath>
#include <memory>
#include <numeric>
#include <vector>

#include "sim/backends.h"
#include "sim/model/parameters.h"
#include "tests/scales/scaled_stack.h"
#include "tests/support/doctest.h"
#include "tests/support/edited_weights.h"
#include "tests/support/recorded_stack.h"

namespace periscope::testing {
namespace {

double rms(const std::vector<double>& x) {
  return std::sqrt(std::inner_product(x.begin(), x.end(), x.begin(), 0.0) / static_cast<double>(x.size()));
}

TEST_CASE("scales are root mean squares of all entries, and gains are complete") {
  const StackSpec spec = with_everything();
  const auto ops = make_backend("cpu");
  const GeneratedWeights plain(*ops, spec, DType::f64, 3);
  const EditedWeights weights(plain, same_matrix, random_norms(*ops));  // gains and biases per channel
  const std::vector<int> ids{4, 4, 7};
  const WeightScales scales = stacks::scales_of(*ops, spec.model, weights, ids);
  const auto host = [&](const ParameterId& id) { return ops->to_host(parameter_of(weights, spec.model, id)); };
  std::size_t named = 0;
  for (const ParameterId& id : matrices_of(spec)) {
    CAPTURE(name_of(id));
    REQUIRE(scales.stddev.contains(id));
    ++named;
    if (is_table(id.weight)) continue;
    CHECK(scales.stddev.at(id) == approx(rms(host(id))).epsilon(1e-14));
    CHECK_FALSE(scales.stddev.contains(bias_of(id)));
  }
  for (const ParameterId& id : gains_of(spec.model)) {
    CAPTURE(name_of(id));
    REQUIRE(scales.gains.contains(id));
    CHECK(scales.gains.at(id) == host(id));
    const bool of_heads = id.weight == Weight::q_norm || id.weight == Weight::k_norm;
    CHECK(scales.stddev.contains(bias_of(id)) == !of_heads);
    if (of_heads) continue;
    ++named;
    CHECK(scales.stddev.at(bias_of(id)) == approx(rms(host(bias_of(id)))).epsilon(1e-14));
  }
  CHECK(scales.stddev.size() == named);
  CHECK(scales.gains.size() == gains_of(spec.model).size());
}

TEST_CASE("scales of tables use the rows of the tokens, with repetition") {
  const StackSpec spec = with_everything();
  const auto ops = make_backend("cpu");
  const GeneratedWeights weights(*ops, spec, DType::f64, 3);
  const auto stddev = stacks::scales_of(*ops, spec.model, weights, std::vector<int>{4, 4, 7}).stddev;
  for (const auto& [table, rows] : {std::pair(Weight::embedding, std::vector{4, 4, 7}),
                                    {Weight::positions, {2, 3, 4}},
                                    {Weight::token_types, {0}}}) {
    CHECK(stddev.at(matrix_id(0, table)) == approx(rms(ops->to_host(weights.rows(*ops, table, rows)))).epsilon(1e-14));
  }
  CHECK_FALSE(stacks::scales_of(*ops, spec.model, weights, {}).stddev.contains(matrix_id(0, Weight::embedding)));
}

TEST_CASE("row and column sizes scale with the matrix, even where squares overflow or underflow") {
  StackSpec spec = with_everything();
  spec.init.scheme = InitScheme::normal;
  const auto ops = make_backend("cpu");
  const auto profiles = [&](double stddev) {
    spec.init.std = stddev;
    return stacks::scales_of(*ops, spec.model, GeneratedWeights(*ops, spec, DType::f32, 3), std::vector<int>{1, 2},
                             stacks::PreservedSizes::rows_and_columns)
        .profiles;
  };
  const auto of_one = profiles(1.0);
  REQUIRE_FALSE(of_one.empty());
  for (const int exponent : {-80, 70}) {
    const auto scaled = profiles(std::ldexp(1.0, exponent));
    for (const auto& entry : of_one) {
      CAPTURE(name_of(entry.first));
      CHECK(scaled.at(entry.first).rows == entry.second.rows);
      CHECK(scaled.at(entry.first).columns == entry.second.columns);
    }
  }
  for (const auto& [id, profile] : profiles(std::ldexp(1.0, -130))) {  // subnormal: about 19 of 24 bits remain
    REQUIRE(profile.columns.size() == of_one.at(id).columns.size());
    for (std::size_t k = 0; k < profile.columns.size(); ++k) {
      CHECK(profile.columns[k] == approx(of_one.at(id).columns[k]).epsilon(1e-3));
    }
  }
}

TEST_CASE("scales include alphas of norms, and drawn weights use them") {
  StackSpec spec = with_everything();
  spec.model.norm = NormKind::dyt;
  const auto ops = make_backend("cpu");
  const std::vector<int> ids{1, 2, 3, 4, 5};
  WeightScales scales = stacks::scales_of(*ops, spec.model, GeneratedWeights(*ops, spec, DType::f64, 3), ids);
  REQUIRE_FALSE(scales.alphas.empty());
  double next = 0.5;
  for (auto& [id, alpha] : scales.alphas) {
    CHECK(id.part == ParameterId::Part::alpha);
    CHECK(id.weight != Weight::q_norm);
    CHECK(id.weight != Weight::k_norm);
    CHECK(alpha == 0.5);
    alpha = next += 0.25;
  }
  spec.scales = std::make_shared<const WeightScales>(scales);
  CHECK(stacks::scales_of(*ops, spec.model, GeneratedWeights(*ops, spec, DType::f64, 4), ids).alphas == scales.alphas);
}

}  // namespace
}  // namespace periscope::testing
