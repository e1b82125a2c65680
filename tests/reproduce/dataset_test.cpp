#include <cmath>

#include "experiments/studies/reproduce/reproduce.h"
#include "tests/reproduce/made_up_runs.h"
#include "tests/support/doctest.h"

namespace periscope::testing {
namespace {

std::vector<double> numbers_of(const dataset::Dataset& data, const char* name) {
  const dataset::Values& values = data.find(name)->values;
  std::vector<double> numbers;
  for (std::size_t i = 0; i < dataset::size_of(values); ++i) numbers.push_back(dataset::number_at(values, i));
  return numbers;
}

TEST_CASE("columns have standard errors of geometric means, top magnitudes and the parts of growth") {
  reproduce::ReproduceConfig config;
  config.base.model.layers = 3;
  config.run.seeds = 3;
  config.train.steps = 40;
  config.train.record_every = 40;
  reproduce::ReproduceResult result;
  result.groups.push_back(group_of("pre", 1.0, [](int seed) {
    training::TrainingResult run = run_with_loss(3.0);
    for (auto& [step, record] : run.history.records) {
      record.at("variance.x_out").assign(7, 50.0 * std::exp(static_cast<double>(seed)));
      record.at("top_magnitudes") = {9.0, 8.0, 7.0, 6.0};
      record["angular_distance"] = std::vector<double>(7UL * 7UL, 0.0);
      record["validation_loss"] = {3.0};
      record["scaled_second_moment_stderr"] = std::vector<double>(7, 0.0);
      record["profiled_second_moment_stderr"] = std::vector<double>(7, 0.0);
      // The second moment after the last sublayer is 3 before training and 7 at the end.
      record.at("second_moment.x_out").back() = step == 0 ? 3.0 : 7.0;
      record.at("scaled_second_moment").back() = 4.0;
      record.at("profiled_second_moment").back() = 5.0;
      record.at("rescaled_second_moment").back() = 6.0;
      record.at("profiled_deviation").back() = 0.25;
    }
    return run;
  }));
  const dataset::Dataset data = reproduce::dataset_of(config, result);
  const auto first = [&](const char* name) { return numbers_of(data, name).front(); };
  CHECK(first("variance_measured") == approx(50.0 * std::exp(1.0)));
  CHECK(first("variance_stderr") == approx(1.0 / std::sqrt(3.0)));  // of the logarithms 0, 1, 2
  CHECK(first("top_first") == 9.0);
  CHECK(first("top_last") == 6.0);
  // The three parts add up to the growth ln(7/3).
  CHECK(first("growth_from_scales") == approx(std::log(4.0 / 3.0)));
  CHECK(first("growth_from_sizes_inside") == approx(std::log(5.0 / 4.0)));
  CHECK(first("growth_from_alignment") == approx(std::log(7.0 / 5.0)));
  // In the opposite order, trained directions contribute ln(6/3). Given these, trained scales contribute ln(7/6).
  CHECK(first("growth_from_directions") == approx(std::log(6.0 / 3.0)));
  CHECK(first("growth_from_scales_given_directions") == approx(std::log(7.0 / 6.0)));
  CHECK(first("growth_interaction") == approx(std::log(7.0 / 6.0) - std::log(4.0 / 3.0)));
  CHECK(first("growth_alignment_error") == 0.25);
}

}  // namespace
}  // namespace periscope::testing
