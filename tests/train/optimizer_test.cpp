#include "sim/train/optimizer.h"

#include <cmath>

#include "tests/support/compare.h"
#include "tests/support/doctest.h"
#include "tests/support/tolerances.h"
#include "tests/support/twin.h"

namespace periscope::testing {
namespace {

using Numbers = std::vector<double>;

constexpr int updates = 6;
constexpr std::size_t size = 33;
constexpr ParameterId matrix = matrix_id(1, Weight::down);
constexpr ParameterId gain = gain_id(1, Weight::norm_b);
constexpr ParameterId bias = bias_of(gain);

TrainSpec train_spec(OptimizerKind optimizer) {
  return {.steps = updates,
          .optimizer = optimizer,
          .lr = 0.3,
          .warmup = 0.3,
          .beta1 = 0.7,
          .beta2 = 0.8,
          .eps = 0.02,
          .momentum = 0.6,
          .weight_decay = 0.2};
}

double gradient_scale(int step) { return step % 2 == 0 ? 0.25 : 1.0; }

/// Applies the formulas of optimizer.h entry by entry. `decays` is true for matrices.
Numbers by_hand(const TrainSpec& train, Numbers p, const std::vector<Numbers>& gradients, bool decays) {
  for (std::size_t i = 0; i < p.size(); ++i) {
    double mean = 0.0;
    double square = 0.0;
    for (int t = 1; t <= updates; ++t) {
      const double g = gradient_scale(t) * gradients[static_cast<std::size_t>(t - 1)][i];
      const double rate = learning_rate(train, t);
      if (decays) p[i] -= rate * train.weight_decay * p[i];
      if (train.optimizer == OptimizerKind::sgd) {
        mean = train.momentum * mean + g;
        p[i] -= rate * mean;
      } else {
        mean = train.beta1 * mean + (1.0 - train.beta1) * g;
        square = train.beta2 * square + (1.0 - train.beta2) * g * g;
        const double unbiased = mean / (1.0 - std::pow(train.beta1, t));
        p[i] -= rate * unbiased / (std::sqrt(square / (1.0 - std::pow(train.beta2, t))) + train.eps);
      }
    }
  }
  return p;
}

/// Rounding bound for values up to `largest`: about 20 roundings per update.
double allowed(DType dtype, double largest) { return rounding_bound(20.0 * updates, dtype) * (largest + 3.0); }

void check_parameter(const Target& target, const TrainSpec& train, const ParameterId& id) {
  const bool is_matrix = id.part == ParameterId::Part::matrix;
  const Tensor::Index rows = is_matrix ? 3 : 1;
  const auto cols = static_cast<Tensor::Index>(size) / rows;
  const Twin start = normal_twin(target, rows, cols, 1);
  Optimizer optimizer(*target.backend, train, {{id, start.here}});
  Tensor parameter = start.here;
  std::vector<Numbers> gradients;
  for (int step = 1; step <= updates; ++step) {
    const Twin gradient = normal_twin(target, rows, cols, static_cast<std::uint32_t>(1 + step), 0.5);
    gradients.push_back(truth().to_host(gradient.truth));
    parameter = optimizer.updated(id, std::move(parameter), gradient.here, gradient_scale(step), step);
    CHECK(target.backend->to_host(gradient.here) == gradients.back());
  }
  const Numbers before = truth().to_host(start.truth);
  CHECK(target.backend->to_host(start.here) == before);
  check_close(target.name(), target.backend->to_host(parameter), by_hand(train, before, gradients, is_matrix),
              allowed(target.dtype, 4.0));
  CHECK(optimizer.state().at(id).square.empty() == (train.optimizer == OptimizerKind::sgd));
}

TEST_CASE("optimizer: AdamW and SGD follow their formulas; only matrices decay") {
  for (const Target& target : targets()) {
    for (const OptimizerKind kind : {OptimizerKind::adamw, OptimizerKind::sgd}) {
      for (const ParameterId& id : {matrix, gain, bias}) check_parameter(target, train_spec(kind), id);
    }
  }
}

constexpr AdamRule clipped{
    .rate = 0.1, .decay = 0.01, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .gradient_scale = 1e-30, .step = 3};

TEST_CASE("AdamW scales a gradient before squaring it, so that clipping prevents overflow") {
  for (const Target& target : targets()) {
    const Backend& ops = *target.backend;
    const auto all = [&](double value) { return ops.constant(1, 20, target.dtype, value); };
    const AdamState s = ops.adamw({.parameter = all(1.0), .mean = all(0.0), .square = all(0.0)}, all(1e30), clipped);
    INFO(target.name());
    CHECK(ops.to_host(s.square)[0] == approx(0.05).epsilon(1e-5));
    CHECK(std::isfinite(ops.to_host(s.parameter)[0]));
  }
}

}  // namespace
}  // namespace periscope::testing
