#include "sim/train/optimizer.h"

#include <cmath>
#include <limits>

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

/// The formulas of the header, entry by entry. `decays`: of matrices.
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

/// A bound of the rounding of the updates of numbers up to `largest`: some twenty roundings each, of the number,
/// and of an update that is a quotient of sums of terms of the gradients' size.
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

TEST_CASE("AdamW and SGD follow their formulas; matrices decay, gains and biases do not") {
  for (const Target& target : targets()) {
    for (const OptimizerKind kind : {OptimizerKind::adamw, OptimizerKind::sgd}) {
      for (const ParameterId& id : {matrix, gain, bias}) check_parameter(target, train_spec(kind), id);
    }
  }
}

TEST_CASE("without a gradient only the decay is left") {
  const Target target = truth_target();
  for (const OptimizerKind kind : {OptimizerKind::adamw, OptimizerKind::sgd}) {
    const TrainSpec train = train_spec(kind);
    Optimizer optimizer(
        truth(), train,
        {{matrix, truth().constant(1, 3, DType::f64, 2.0)}, {gain, truth().constant(1, 3, DType::f64, 2.0)}});
    const auto updated = [&](const ParameterId& id) {
      return truth().to_host(optimizer.updated(id, truth().constant(1, 3, DType::f64, 2.0),
                                               truth().constant(1, 3, DType::f64, 0.0), 1.0, 2))[0];
    };
    CHECK(updated(matrix) == doctest::Approx(2.0 * (1.0 - 0.3 * 0.2)).epsilon(1e-15));
    CHECK(updated(gain) == 2.0);
  }
}

TEST_CASE("the first step of AdamW is the sign of the gradient where that is far above eps") {
  TrainSpec train{.steps = 1, .lr = 0.5, .eps = 1e-12, .weight_decay = 0.0};
  Optimizer optimizer(truth(), train, {{matrix, truth().constant(1, 3, DType::f64, 0.0)}});
  const Numbers moved =
      truth().to_host(optimizer.updated(matrix, truth().constant(1, 3, DType::f64, 0.0),
                                        truth().from_host(1, 3, DType::f64, Numbers{3.0, -1e-3, 0.0}), 0.1, 1));
  check_close("signs", moved, Numbers{-0.5, 0.5, 0.0}, 1e-7);
}

TEST_CASE("an optimizer that gets another's memory goes on as that one does, to the last bit") {
  for (const Target& target : targets()) {
    for (const OptimizerKind kind : {OptimizerKind::adamw, OptimizerKind::sgd}) {
      const TrainSpec train = train_spec(kind);
      const Twin start = normal_twin(target, 3, 11, 1);
      Optimizer first(*target.backend, train, {{matrix, start.here}});
      const auto step = [&](Optimizer& optimizer, Tensor x, int number) {
        const Twin gradient = normal_twin(target, 3, 11, static_cast<std::uint32_t>(number));
        return optimizer.updated(matrix, std::move(x), gradient.here, 0.5, number);
      };
      Tensor x = step(first, step(first, start.here, 1), 2);
      Optimizer second(*target.backend, train, {{matrix, start.here}});
      second.set_state(first.state());
      const Numbers after = target.backend->to_host(step(first, x, 3));
      check_same_bits(target.name(), target.backend->to_host(step(second, x, 3)), after);
      Optimizer forgetful(*target.backend, train, {{matrix, start.here}});
      CHECK(target.backend->to_host(step(forgetful, x, 3)) != after);
    }
  }
}

}  // namespace
}  // namespace periscope::testing
