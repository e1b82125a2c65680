#include "experiments/engine/run/size_nulls.h"

#include <cmath>
#include <map>
#include <vector>

#include "sim/backends.h"
#include "sim/model/parameters.h"
#include "tests/scales/scaled_stack.h"
#include "tests/support/doctest.h"
#include "tests/support/edited_weights.h"
#include "tests/support/recorded_stack.h"

/// Null models: random weights with the sizes of given weights.
namespace periscope::testing {
namespace {

std::vector<double> means_of_squares(const std::vector<double>& w, std::size_t rows, bool of_rows) {
  const std::size_t columns = w.size() / rows;
  std::vector<double> means(of_rows ? rows : columns, 0.0);
  for (std::size_t i = 0; i < w.size(); ++i) {
    means[of_rows ? i / columns : i % columns] += w[i] * w[i] / static_cast<double>(of_rows ? columns : rows);
  }
  return means;
}

TEST_CASE("profiles of given weights have the mean square of every row and column") {
  const StackSpec spec = with_everything();
  const auto ops = make_backend("cpu");
  const GeneratedWeights weights(*ops, spec, DType::f64, 3);
  const std::vector<int> ids{4, 4, 7};
  const WeightScales rows = stacks::scales_of(*ops, spec.model, weights, ids, stacks::PreservedSizes::rows);
  const WeightScales both = stacks::scales_of(*ops, spec.model, weights, ids, stacks::PreservedSizes::rows_and_columns);
  const WeightScales none = stacks::scales_of(*ops, spec.model, weights, ids);
  CHECK(none.profiles.empty());
  CHECK(rows.stddev == none.stddev);
  CHECK(both.stddev == none.stddev);
  for (const ParameterId& id : matrices_of(spec)) {
    CAPTURE(name_of(id));
    const VarianceProfile& profile = both.profiles.at(id);
    CHECK(rows.profiles.at(id).rows == profile.rows);
    CHECK(rows.profiles.at(id).columns.empty());
    Tensor w = parameter_of(weights, spec.model, id);
    std::vector<double> row_sizes = profile.rows;
    if (is_table(id.weight)) {  // only the rows that tokens read, counted with repetition
      const std::map<Weight, std::vector<int>> used{
          {Weight::embedding, ids}, {Weight::positions, {2, 3, 4}}, {Weight::token_types, {0, 0, 0}}};
      w = ops->gather(w, used.at(id.weight));
      row_sizes.clear();
      for (const int row : used.at(id.weight)) row_sizes.push_back(profile.rows.at(static_cast<std::size_t>(row)));
      CHECK(profile.rows.size() == static_cast<std::size_t>(shape_of(spec.model, id.weight).fan_out));
    }
    const std::vector<double> entries = ops->to_host(w);
    const double whole = both.stddev.at(id) * both.stddev.at(id);
    const std::vector<double> of_rows = means_of_squares(entries, row_sizes.size(), true);
    const std::vector<double> of_columns = means_of_squares(entries, row_sizes.size(), false);
    REQUIRE(profile.columns.size() == of_columns.size());
    for (std::size_t i = 0; i < of_rows.size(); ++i) {
      CHECK(whole * row_sizes[i] * row_sizes[i] == approx(of_rows[i]).epsilon(1e-13));
    }
    for (std::size_t j = 0; j < of_columns.size(); ++j) {
      CHECK(whole * profile.columns[j] * profile.columns[j] == approx(of_columns[j]).epsilon(1e-13));
    }
  }
  // A matrix of zeros has no profile, and a row of zeros has the size 0.
  const EditedWeights zeros(
      weights,
      [&](int /*layer*/, Weight w, const Tensor& x) {
        if (w == Weight::v) return ops->scale(0.0, x);
        return w == Weight::up ? ops->replace_rows(x, 1, ops->constant(1, x.cols(), DType::f64, 0.0)) : x;
      },
      same_norm);
  const WeightScales of_zeros =
      stacks::scales_of(*ops, spec.model, zeros, ids, stacks::PreservedSizes::rows_and_columns);
  CHECK(of_zeros.profiles.at(matrix_id(0, Weight::v)).rows.empty());
  CHECK(of_zeros.profiles.at(matrix_id(0, Weight::v)).columns.empty());
  CHECK(of_zeros.profiles.at(matrix_id(0, Weight::up)).rows.at(1) == 0.0);
}

TEST_CASE("random signs preserve magnitudes and flip half of the signs") {
  const StackSpec spec = with_everything();
  const auto ops = make_backend("cpu");
  const GeneratedWeights plain(*ops, spec, DType::f64, 3);
  const EditedWeights weights(plain, same_matrix, random_norms(*ops));
  const stacks::RandomSigns signs(*ops, weights, 9);
  const stacks::RandomSigns other(*ops, weights, 10);
  double count = 0.0;
  double flipped = 0.0;
  double alike = 0.0;
  for (const ParameterId& id : all_parameters_of(spec)) {
    CAPTURE(name_of(id));
    const std::vector<double> before = ops->to_host(parameter_of(weights, spec.model, id));
    const std::vector<double> after = ops->to_host(parameter_of(signs, spec.model, id));
    REQUIRE(before.size() == after.size());
    if (id.part == ParameterId::Part::gain) {
      CHECK(before == after);
      continue;
    }
    if (id.part == ParameterId::Part::bias) CHECK(before != after);
    const std::vector<double> of_other = ops->to_host(parameter_of(other, spec.model, id));
    for (std::size_t i = 0; i < before.size(); ++i) {
      REQUIRE(std::abs(before[i]) == std::abs(after[i]));
      count += 1.0;
      flipped += before[i] != after[i] ? 1.0 : 0.0;
      alike += of_other[i] == after[i] ? 1.0 : 0.0;
    }
    if (is_table(id.weight) && id.part == ParameterId::Part::matrix) {
      const std::vector<int> ids{1, 0, 1};
      CHECK(ops->to_host(signs.rows(*ops, id.weight, ids)) ==
            ops->to_host(signs.WeightSource::rows(*ops, id.weight, ids)));
    }
  }
  // The limit is five standard deviations of fair coin flips.
  CHECK(std::abs(flipped - count / 2.0) < 2.5 * std::sqrt(count));
  CHECK(std::abs(alike - count / 2.0) < 2.5 * std::sqrt(count));
}

TEST_CASE("repeating a sequence does not change log second moments; deviations equal hand-computed values") {
  StackSpec spec = with_everything();
  spec.input.tokens = 6;
  const auto ops = make_backend("cpu");
  const GeneratedWeights weights(*ops, spec, DType::f64, 3);
  const std::vector<int> ids{1, 2, 3, 1, 2, 3};
  const std::vector<double> two = stacks::log_second_moments(*ops, spec.model, weights, ids, 2);
  const std::vector<double> one = stacks::log_second_moments(*ops, spec.model, weights, std::vector<int>{1, 2, 3}, 1);
  REQUIRE(two.size() == static_cast<std::size_t>(spec.model.sublayers()) + 1);
  for (std::size_t i = 0; i < two.size(); ++i) CHECK(two[i] == approx(one[i]).epsilon(1e-12));
  const stacks::NullDraws draws{.log_moment = {{1.0}, {2.0}, {4.5}}};
  CHECK(draws.mean(0) == approx(2.5));
  CHECK(draws.deviation_from(2.0, 0) == approx(std::sqrt((1.0 + 0.0 + 6.25) / 3.0)));
  CHECK(draws.deviation_from_mean(0) == approx(std::sqrt((2.25 + 0.25 + 4.0) / 2.0 * (4.0 / 3.0))));
  CHECK(std::isnan(stacks::NullDraws{}.mean(0)));
  CHECK(std::isnan(stacks::NullDraws{.log_moment = {{1.0}}}.deviation_from_mean(0)));
}

}  // namespace
}  // namespace periscope::testing
