#include "theory/first_steps/moved_fields.h"

#include <cmath>
#include <utility>

#include "tests/first_steps/small_case.h"
#include "tests/support/doctest.h"
#include "theory/first_steps/moved_modules.h"
#include "theory/first_steps/moved_norm.h"

/// The parts of the prediction that AdamW's updates go through, each by itself.
namespace periscope::theory {
namespace {

using Index = Eigen::Index;

constexpr int width = 64;
constexpr Index batch = 3;
constexpr Index held_out = 2;
constexpr Index channels = 4;
constexpr Index rows = 6;

TrainingTokens three_and_two() {
  TrainingTokens tokens{.ids = {0, 1, 2, 3, 4}, .labels = {1, 2, 3, 4, 0}};
  tokens.batch = batch;
  tokens.steps = 1;
  return tokens;
}

MovedInput input_of(const Sampled& kernel, const TokensNow& now, Sampled response) {
  return {.own = now.square_of(kernel).cast<double>(),
          .cross = now.rows_of(kernel),
          .follows = Sampled::Zero(now.count(), channels),
          .wanders = Sampled::Zero(now.count(), channels),
          .response = std::move(response)};
}

TEST_CASE("moved fields: their response to a gradient is the difference that the gradient makes") {
  const TrainingTokens tokens = three_and_two();
  NormalStream numbers({.seed = 4, .replicate = 0, .place = 0});
  const Sampled factor = numbers.normals_float(tokens.all(), 8);
  const Sampled kernel = factor * factor.transpose() / 8.0F;
  RowFields fields{.before = numbers.normals_float(tokens.all(), rows), .gradient = numbers.normals_float(batch, rows)};
  const Sampled response = 0.1F * numbers.normals_float(held_out, batch);
  for (OptimizerLaw optimizer : {adam({0.02}), sgd({0.02})}) {
    optimizer.weight_decay = 5.0;
    const UpdateLaw law(optimizer, {1.0}, 1.0);
    const TokensNow before{tokens, 0};
    const TokensNow now{tokens, 1};
    // The noise of all rows depends on the gradients of all.
    constexpr StepFault fault = StepFault::no_noise;
    ReadHistory history(tokens, channels);
    const MovedInput first = input_of(kernel, before, Sampled::Zero(before.count(), 0));
    const FieldMover start(kernel, first, history, before, law, width, fault);
    history.append(first, before, start.keep(), start.true_cross());
    const MovedInput input = input_of(kernel, now, response);
    const FieldMover mover(kernel, input, history, now, law, width, fault);
    constexpr double variance = 0.3;
    const auto moved = [&](const RowFields& f) {
      NormalStream projection({.seed = 5, .replicate = 0, .place = 0});
      NormalStream fresh({.seed = 6, .replicate = 0, .place = 0});
      return mover.move(f, variance, projection, fresh);
    };
    const MovedFields at = moved(fields);
    for (const Index t : {Index{0}, Index{2}}) {
      constexpr Index row = 1;
      constexpr float step = 1.0F / 64.0F;
      RowFields up = fields;
      RowFields down = fields;
      up.gradient(t, row) += step;
      down.gradient(t, row) -= step;
      const Sampled difference = (moved(up).values - moved(down).values) / (2.0F * step);
      for (Index s = 0; s < held_out; ++s) {
        // 0.9 is left of the matrix through which the gradient goes forward; it came back through all of it.
        double expected = variance * width * 0.9 * response(s, t) - width * mover.cross()(s, t) * at.slope(t, row);
        if (at.w.size() > 0) expected += width * at.v(s, row) * at.w(t, row);
        // Values of about 5 are rounded by 3e-7, over 1/32; 1/C's third derivative times step²/6 is below 1e-3 of it.
        CHECK(difference(s, row) == doctest::Approx(expected).epsilon(2e-3));
      }
    }
  }
}

TEST_CASE("last matrix: on what is independent of its batch an update of signs is noise, at the stack's width") {
  // (ΔW h)_k = −η Σ_j sign(g_k) sign(h_j(t)) h_j(s): n terms of variance η² where h(s) knows nothing of h(t). Sampled
  // are 16 channels in 8 pairs, whose own sum has n/8 times as much.
  const StackSpec spec = small_stack("pre");
  TrainingTokens tokens{.ids = {0, 1}, .labels = {1, 0}};
  tokens.batch = tokens.steps = 1;
  constexpr double rate = 0.01;
  constexpr int fan_in = 128;
  constexpr Index pairs = 8;
  constexpr int repetitions = 10000;
  const UpdateLaw law(adam({rate}), {1.0}, 1.0);
  const StepSamples samples{.hidden = pairs, .channels = channels};
  const ModuleContext context{spec, tokens, samples, law, StepFault::none};
  const InitialBranch branch;
  NormalStream numbers({.seed = 8, .replicate = 0, .place = 0});
  std::vector<double> squares;
  double mean = 0.0;
  double update = 0.0;
  for (int r = 0; r < repetitions; ++r) {
    LastMatrix last(context, branch, 0, Weight::down, fan_in, 2 * pairs);
    const Sampled hidden = numbers.normals_float(2, pairs).replicate(1, 2);
    last.append(hidden.topRows(1), numbers.normals_float(1, channels), {tokens, 0});
    MovedModule module;
    last.fill(module, hidden.bottomRows(1), {tokens, 1});
    squares.push_back(module.taken.squaredNorm() / channels + module.correction(0, 0));
    mean += squares.back() / repetitions;
    update += module.update_square.at(Weight::down) / repetitions;
  }
  double spread = 0.0;
  for (const double square : squares) spread += (square - mean) * (square - mean);
  const double error = std::sqrt(spread / (repetitions * (repetitions - 1.0)));
  const double expected = rate * rate * fan_in;
  CAPTURE(mean);
  CAPTURE(error);
  // Without the correction the mean is 16 times as much.
  CHECK(error < 0.5 * expected);
  CHECK(std::abs(mean - expected) < 5.0 * error);
  CHECK(std::abs(update - expected) < 5.0 * error);
}

TEST_CASE("last matrix: what its update adds to cotangents is the transpose of what it adds to outputs") {
  const StackSpec spec = small_stack("pre");
  TrainingTokens tokens{.ids = {0, 1, 2}, .labels = {1, 0, 2}};
  tokens.batch = 1;
  tokens.steps = 2;
  constexpr int fan_in = 128;
  constexpr Index pairs = 8;
  OptimizerLaw optimizer = adam({0.01, 0.01});
  optimizer.weight_decay = 10.0;
  const UpdateLaw law(optimizer, {1.0, 1.0}, 1.0);
  const StepSamples samples{.hidden = pairs, .channels = channels};
  const ModuleContext context{spec, tokens, samples, law, StepFault::none};
  NormalStream numbers({.seed = 9, .replicate = 0, .place = 0});
  InitialBranch branch;
  branch.gradients = numbers.normals_float(2, channels);
  LastMatrix last(context, branch, 0, Weight::down, fan_in, 2 * pairs);
  last.append(numbers.normals_float(1, 2 * pairs), branch.gradients.topRows(1), {tokens, 0});
  const TokensNow now{tokens, 1};
  const Sampled hidden = numbers.normals_float(2, 2 * pairs);
  MovedModule module;
  last.fill(module, hidden, now);
  // The gradient of the next batch as it was before training: nothing but the update and decay changes the cotangent.
  const Sampled gradient = branch.gradients.bottomRows(1);
  const Sampled before = numbers.normals_float(1, 2 * pairs);
  const Sampled added = last.cotangent(before, gradient, now) - 0.9F * before;
  const double forward = gradient.cwiseProduct(module.taken.topRows(1)).sum() * (2.0 * pairs / fan_in);
  const double back = hidden.topRows(1).cwiseProduct(added).sum() * (1.0 * channels / spec.model.width);
  CHECK(std::abs(forward) > 1e-3);
  CHECK(back == doctest::Approx(forward).epsilon(1e-4));  // rounding of float
}

TEST_CASE("moved norm: no gradient comes back along what came out, where all of it follows gradients") {
  TrainingTokens tokens{.ids = {0, 1}, .labels = {1, 0}};
  tokens.batch = tokens.steps = 1;
  const TokensNow now{tokens, 0};
  NormalStream numbers({.seed = 10, .replicate = 0, .place = 0});
  constexpr double gain = 1.5;
  Sampled out = numbers.normals_float(2, channels);
  for (Index s = 0; s < 2; ++s) out.row(s) *= static_cast<float>(gain * std::sqrt(channels)) / out.row(s).norm();
  MovedNorm norm(tokens);
  norm.append(Vector::Constant(2, 0.25), out, now);
  CHECK(norm.back(out.topRows(1), gain, now).norm() < 1e-6F * out.row(0).norm());
  const Sampled gradient = numbers.normals_float(1, channels);
  const Sampled back = norm.back(gradient, gain, now);
  CHECK(std::abs(back.cwiseProduct(out.topRows(1)).sum()) < 1e-5F);
  const Sampled across =
      gradient - gradient.cwiseProduct(out.topRows(1)).sum() / out.row(0).squaredNorm() * out.topRows(1);
  CHECK((back - 0.25F * across).norm() < 1e-5F);
}

}  // namespace
}  // namespace periscope::theory
