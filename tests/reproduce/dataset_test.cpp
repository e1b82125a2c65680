#include <fmt/format.h>

#include <cmath>
#include <functional>

#include "experiments/studies/reproduce/reproduce.h"
#include "tests/reproduce/made_up_runs.h"
#include "tests/support/doctest.h"

namespace periscope::testing {
namespace {

/// The values of a column of numbers.
std::vector<double> numbers_of(const dataset::Dataset& data, const char* name) {
  const dataset::Values& values = data.find(name)->values;
  std::vector<double> numbers;
  for (std::size_t i = 0; i < dataset::size_of(values); ++i) numbers.push_back(dataset::number_at(values, i));
  return numbers;
}

std::vector<std::string> words_of(const dataset::Dataset& data, const char* name) {
  return std::get<std::vector<std::string>>(data.find(name)->values);
}

TEST_CASE("columns: geometric means have the standard error of the mean logarithm; the last of the top magnitudes") {
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
      // At the top: 7 at the end, 3 before training.
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
  CHECK(first("variance_measured") == doctest::Approx(50.0 * std::exp(1.0)));
  CHECK(first("variance_stderr") == doctest::Approx(1.0 / std::sqrt(3.0)));  // of 0, 1, 2
  CHECK(first("top_first") == 9.0);
  CHECK(first("top_last") == 6.0);
  // The three parts of growth add up to it.
  CHECK(first("growth_from_scales") == doctest::Approx(std::log(4.0 / 3.0)));
  CHECK(first("growth_from_sizes_inside") == doctest::Approx(std::log(5.0 / 4.0)));
  CHECK(first("growth_from_alignment") == doctest::Approx(std::log(7.0 / 5.0)));
  // In the other order: sizes make 4/3 alone and 7/6 of trained directions.
  CHECK(first("growth_from_directions") == doctest::Approx(std::log(6.0 / 3.0)));
  CHECK(first("growth_from_scales_given_directions") == doctest::Approx(std::log(7.0 / 6.0)));
  CHECK(first("growth_interaction") == doctest::Approx(std::log(7.0 / 6.0) - std::log(4.0 / 3.0)));
  CHECK(first("growth_alignment_error") == 0.25);
}

/// A result of one group, whose variance over depth at the end is `law` of seed and depth.
reproduce::ReproduceResult with_growth(const std::function<double(int, double)>& law) {
  reproduce::ReproduceResult result;
  result.groups.push_back(group_of("pre", 1.0, [&](int seed) {
    training::TrainingResult run = run_with_loss(3.0);
    std::vector<double> variance;
    for (int d = 0; d < 9; ++d) variance.push_back(law(seed, d));
    for (auto& [step, record] :
         run.history.records) {  // of four layers: nine depths, the fewest that are fitted are eight
      for (auto& [name, values] : record) {
        if (values.size() == 7) values = {1, 2, 3, 4, 5, 6, 7, 8, 9};
        if (values.size() == 6) values.assign(8, 1.0);
      }
      record.at("grad_sq.weight.q").assign(4, 1.0);
      record["angular_distance"] = std::vector<double>(9UL * 9UL, 0.0);
      record["validation_loss"] = {3.0};
      record["scaled_second_moment_stderr"] = std::vector<double>(9, 0.0);
      record["profiled_second_moment_stderr"] = std::vector<double>(9, 0.0);
    }
    run.history.records.rbegin()->second.at("variance.x_out") = variance;
    return run;
  }));
  return result;
}

reproduce::ReproduceConfig small() {
  reproduce::ReproduceConfig config;
  config.base.model.layers = 4;
  config.run.seeds = 3;
  config.train.steps = 40;
  config.train.record_every = 40;
  return config;
}

TEST_CASE(
    "beside every claim's own chance stands that among all claims, and the table counts what chance would decide") {
  reproduce::ReproduceResult result = with_growth([](int, double d) { return 1.0 + d; });
  for (const double p : {1e-5, 0.03, 0.96, 0.4}) {
    result.claims.push_back({.id = fmt::format("C{}", result.claims.size()),
                             .exhibit = "1",
                             .statement = "s",
                             .quantity = "q",
                             .verdict = p < 0.05   ? judge::ClaimVerdict::holds
                                        : p > 0.95 ? judge::ClaimVerdict::fails
                                                   : judge::ClaimVerdict::not_shown,
                             .values = {1.0, 2.0, 3.0},
                             .p = p,
                             .reason = ""});
  }
  result.claims.push_back({.id = "C4",
                           .exhibit = "1",
                           .statement = "large",
                           .quantity = "q",
                           .verdict = judge::ClaimVerdict::not_testable,
                           .values = {1.0, 2.0, 3.0},
                           .p = std::nan(""),
                           .reason = "too short",
                           .regime = {"width 8", reproduce::regime_of(small()).front()}});
  judge::apply_holm_correction(result.claims);
  const dataset::Dataset data = reproduce::dataset_of(small(), result);
  CHECK(numbers_of(data, "claim_holm")[0] == doctest::Approx(4.0 * 2e-5));
  CHECK(numbers_of(data, "claim_holm")[1] == doctest::Approx(3.0 * 0.06));
  const std::string text = reproduce::table(small(), result);
  CHECK(text.find(
            "4 claims tested one by one, 3 decided; if every number were 0, up to 0.4 would be decided by chance") !=
        std::string::npos);
  CHECK(text.find("(p of all at most 5 %): C0.\n") != std::string::npos);
  // Not counted, with the part of its regime that is not the run's.
  CHECK(text.find("C4 cannot be tested here: too short.") != std::string::npos);
  CHECK(text.find("not-testable-here") != std::string::npos);
  CHECK(text.find("large [width 8]") != std::string::npos);
  CHECK(text.find("in the regime σ√D ") != std::string::npos);
  CHECK(words_of(data, "claim_regime")[4].starts_with("width 8, σ√D "));
}

}  // namespace
}  // namespace periscope::testing
