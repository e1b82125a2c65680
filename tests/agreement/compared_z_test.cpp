#include <cmath>

#include "experiments/studies/propagate/propagate.h"
#include "experiments/studies/studies.h"
#include "tests/support/doctest.h"

/// The z beside a squared gradient is that of the number that the verdict compares.
namespace periscope {
namespace {

/// One layer whose gradients' squares say little, z = 0.5, and whose logarithms are far off.
stacks::StackResult heavy_tailed() {
  stacks::StackResult result{.spec = {}, .prediction = {}, .measurement = stacks::Measurement{}, .agreement = {}};
  result.spec.model.layers = 1;
  result.measurement->seeds = 16;
  const auto add = [&](auto& measured, auto& predicted, auto place, std::size_t length) {
    measured[{Statistic::grad_sq, place}] = {std::vector(length, 2.0), std::vector(length, 2.0)};
    measured[{Statistic::log_grad_sq, place}] = {std::vector(length, -3.0), std::vector(length, 0.05)};
    predicted[{Statistic::grad_sq, place}] = {std::vector(length, 1.0), std::vector(length, 0.0)};
    predicted[{Statistic::log_grad_sq, place}] = {std::vector(length, 0.0), std::vector(length, 0.0)};
  };
  add(result.measurement->profile.curves, result.prediction.profile.curves, Signal::x_out, 3);
  add(result.measurement->profile.weight_curves, result.prediction.profile.weight_curves, Weight::q, 1);
  result.prediction.finite_width.assign(3, 0.0);
  result.prediction.replicates = 16;
  result.prediction.gradient_tolerance = 0.1;
  return result;
}

}  // namespace

TEST_CASE("a squared gradient's z is the compared logarithm's, and its square's where that is compared") {
  config::Config config = config::load_config(
      sections(), "", {"model.layers=1", "model.placement=pre", "run.seeds=16", "run.backward=true"});
  stacks::StackResult result = heavy_tailed();
  result.spec = config.stacks().front();
  for (const int index : {0, 2}) {
    result.agreement.cells.push_back({.statistic = Statistic::log_grad_sq,
                                      .index = index,
                                      .measured = -3.0,
                                      .measured_error = 0.05,
                                      .predicted = 0.0,
                                      .seeds = 16});
  }
  result.agreement.cells.push_back({.statistic = Statistic::log_grad_sq,
                                    .weight = Weight::q,
                                    .measured = -3.0,
                                    .measured_error = 0.05,
                                    .predicted = 0.0,
                                    .seeds = 16});
  result.agreement.worst = 0;
  const dataset::Dataset data = propagate::dataset_of(config, {result});
  const auto z = [&](const char* column, std::size_t i) { return dataset::number_at(data.find(column)->values, i); };
  CHECK(z("grad_sq_z", 0) == doctest::Approx(-60.0));
  CHECK(z("grad_sq_z", 1) == doctest::Approx(0.5));  // compared as a square, or not at all
  CHECK(z("grad_sq_z", 2) == doctest::Approx(-60.0));
  CHECK(z("weight_grad_sq_z", 0) == doctest::Approx(-60.0));
  CHECK(z("worst_z", 0) == doctest::Approx(-60.0));
}

}  // namespace periscope
