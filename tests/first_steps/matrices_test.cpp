#include <cmath>
#include <utility>
#include <vector>

#include "sim/measure/running_moments.h"
#include "tests/first_steps/small_case.h"
#include "tests/support/doctest.h"
#include "theory/first_steps/trained_ends.h"
#include "theory/first_steps/trained_matrices.h"
#include "theory/first_steps/trained_norm.h"

/// Parts of the prediction of optimizer steps: matrices, norms and streams.
namespace periscope::theory {
namespace {

using Index = Eigen::Index;

constexpr Index batch = 3;
constexpr Index held_out = 2;

TrainingTokens three_and_two() {
  TrainingTokens tokens{.ids = {0, 1, 2, 3, 4}, .labels = {1, 2, 3, 4, 0}};
  tokens.batch = batch;
  tokens.steps = 1;
  return tokens;
}

TrainedSignal signal_of(const Sampled& x, const CurrentTokens& now, Sampled response) {
  TrainedSignal signal{.x = SignalParts::zero(now.count(), x.cols()),
                       .correction = Matrix::Zero(now.count(), now.count()),
                       .response = std::move(response)};
  signal.x.initial = now.rows_of(x);
  return signal;
}

TEST_CASE("input matrix: the response to a gradient matches finite differences") {
  const TrainingTokens tokens = three_and_two();
  const StackSpec spec = small_stack("pre");
  const int width = spec.model.width;
  NormalStream numbers({.seed = 4, .replicate = 0, .place = 0});
  const Sampled x = numbers.normals_float(tokens.all(), width);
  constexpr Index rows = 6;
  const Sampled gradient = numbers.normals_float(batch, rows);
  const Sampled response = 0.1F * numbers.normals_float(held_out, batch);
  constexpr double variance = 0.3;
  const ReplicateDraws draws;
  for (OptimizerLaw optimizer : {adam({0.02}), sgd({0.02})}) {
    optimizer.weight_decay = 5.0;
    const UpdateLaw law(optimizer, {1.0}, 1.0);
    const ModuleContext context{spec, tokens, draws, law, StepFault::no_noise};
    const CurrentTokens now{tokens, 1};
    struct Moved {
      InputMatrix::Fields fields;
      Sampled to_row;  // ∂z(s)/∂g(t) of row 1
    };
    const auto moved = [&](const Sampled& g) {
      InputHistory history(context);
      InputMatrix matrix(context, history, {0, 0, rows, rows, std::sqrt(variance)});
      const CurrentTokens before{tokens, 0};
      history.update(signal_of(x, before, Sampled::Zero(before.count(), 0)), before);
      double square = 0.0;
      (void)matrix.forward(before);
      (void)matrix.backward(g, before, square);
      history.update(signal_of(x, now, response), now);
      Moved result{.fields = matrix.forward(now), .to_row = {}};
      Sampled one = Sampled::Zero(held_out, rows);
      Sampled of = Sampled::Zero(batch, rows);
      one.col(1).setOnes();
      of.col(1).setOnes();
      result.to_row = static_cast<float>(rows) * matrix.response(result.fields, one, of);
      return result;
    };
    const Moved at = moved(gradient);
    for (const Index t : {Index{0}, Index{2}}) {
      constexpr float step = 1.0F / 64.0F;
      Sampled up = gradient;
      Sampled down = gradient;
      up(t, 1) += step;
      down(t, 1) -= step;
      const Sampled difference = (moved(up).fields.values - moved(down).fields.values) / (2.0F * step);
      for (Index s = 0; s < held_out; ++s) {
        // Rounding errors are 3e-7 times values of about 5, divided by 1/32. The third-order term is below 1e-3.
        CHECK(difference(s, 1) == approx(at.to_row(s, t)).epsilon(2e-3));
      }
    }
  }
}

TEST_CASE("input matrix: SGD subtracts the gradients of each batch, taken at the tokens of that step") {
  TrainingTokens tokens{.ids = {0, 1, 2, 3, 4, 5, 6, 7}, .labels = {1, 2, 3, 4, 5, 6, 7, 0}};
  tokens.batch = batch;
  tokens.steps = 2;
  OptimizerLaw optimizer = sgd({0.02, 0.01});
  optimizer.momentum = 0.5;
  optimizer.weight_decay = 5.0;
  const StackSpec spec = small_stack("pre");
  const int width = spec.model.width;
  constexpr Index rows = 6;
  constexpr double stddev = 0.3;
  const UpdateLaw law(optimizer, {1.0, 1.0}, 1.0);
  const ReplicateDraws draws;
  const ModuleContext context{spec, tokens, draws, law, StepFault::none};
  InputHistory history(context);
  InputMatrix matrix(context, history,
                     {.sublayer = 0, .number = 0, .rows = rows, .drawn = rows, .stddev = stddev, .transposed = true});
  NormalStream numbers({.seed = 5, .replicate = 0, .place = 0});
  Sampled left = matrix.initial_output(Sampled::Identity(width, width));  // W₀ᵀ after decay
  Sampled taken = Sampled::Zero(width, rows);
  Sampled memory = taken;
  Sampled trained(0, width);  // tokens of all batches, at their steps
  const auto differ = [](const Sampled& a, const Sampled& b) { return (a - b).norm() / b.norm(); };
  for (Index done = 0; done <= tokens.steps; ++done) {
    CAPTURE(done);
    const CurrentTokens now{tokens, done};
    const Sampled all = numbers.normals_float(tokens.all(), width);
    const Sampled x = now.rows_of(all);
    history.update(signal_of(all, now, Sampled::Zero(now.count(), now.trained())), now);
    const InputMatrix::Fields fields = matrix.forward(now);
    CHECK(differ(fields.values, x * (left - taken)) < 1e-5F);
    if (done > 0) CHECK(differ(history.past(), trained * trained.transpose() / static_cast<float>(width)) < 1e-5F);
    const Sampled seen = x.bottomRows(held_out);
    const double decay = std::pow((1.0 - law.decay_factor(done)) * stddev, 2) * seen.squaredNorm() / held_out;
    if (done > 0) CHECK(fields.update_square == approx((seen * taken).cwiseAbs2().mean() + decay).epsilon(1e-4));
    if (now.next() == 0) break;
    const Sampled gradient = numbers.normals_float(batch, rows);
    double square = 0.0;
    CHECK(differ(matrix.backward(gradient, now, square), gradient * (left - taken).transpose()) < 1e-5F);
    trained.conservativeResize(trained.rows() + batch, width);
    trained.bottomRows(batch) = x.topRows(batch);
    const Sampled entries = x.topRows(batch).transpose() * gradient;
    CHECK(square == approx(entries.squaredNorm()).epsilon(1e-5));
    const auto rate = static_cast<float>(optimizer.rates[static_cast<std::size_t>(done)]);
    const auto stays = static_cast<float>(1.0 - rate * optimizer.weight_decay);
    memory = 0.5F * memory + entries;
    taken = stays * taken + rate * memory;
    left *= stays;
  }
}

TEST_CASE("input matrix: the predicted effect of a sign step on held-out tokens matches sampling") {
  // Channels are independent, so fluctuations of the tokens' Gram matrix dominate the effect on other tokens.
  const TrainingTokens tokens = three_and_two();
  const StackSpec spec = small_stack("pre");
  constexpr double rate = 0.01;
  constexpr int repetitions = 1000;
  constexpr Index rows = 64;
  const UpdateLaw law(adam({rate}), {1.0}, 1.0);
  NormalStream numbers({.seed = 11, .replicate = 0, .place = 0});
  RunningMoments difference;
  double exact_mean = 0.0;
  for (int r = 0; r < repetitions; ++r) {
    const ReplicateDraws draws{.seed = 1, .replicate = static_cast<std::uint64_t>(r)};
    const ModuleContext context{spec, tokens, draws, law, StepFault::none};
    InputHistory history(context);
    InputMatrix matrix(context, history, {0, 0, rows, rows, 0.0});
    const Sampled x = numbers.normals_float(tokens.all(), spec.model.width);
    const Sampled gradient = numbers.normals_float(batch, rows);
    const CurrentTokens before{tokens, 0};
    const CurrentTokens now{tokens, 1};
    double square = 0.0;
    history.update(signal_of(x, before, Sampled::Zero(before.count(), 0)), before);
    (void)matrix.backward(gradient, before, square);
    history.update(signal_of(x, now, Sampled::Zero(held_out, batch)), now);
    const double predicted = matrix.forward(now).values.squaredNorm();
    const Sampled entries = x.topRows(batch).transpose() * gradient;
    const Sampled update = static_cast<float>(rate) * entries.cwiseSign();
    const double exact = (x.bottomRows(held_out) * update).squaredNorm();
    difference.add(predicted - exact);
    exact_mean += exact / repetitions;
  }
  const double error = difference.standard_error();
  INFO("relative difference ", difference.mean() / exact_mean, " +- ", error / exact_mean);
  CHECK(error < 0.01 * exact_mean);
  // The theory treats the remainder of U as independent of gradient sizes, with an error of order 1/D.
  CHECK(std::abs(difference.mean()) < 4.0 * error + exact_mean / spec.model.width);
}

/// Context of an OutputMatrix in a stack with 64 channels.
struct OutputCase {
  StackSpec spec = small_stack("pre");
  TrainingTokens tokens;
  ReplicateDraws draws;
  UpdateLaw law;
  InitialBranch branch;
  ModuleContext context{spec, tokens, draws, law, StepFault::none};

  OutputCase(TrainingTokens all, const OptimizerLaw& optimizer)
      : tokens(std::move(all)), law(optimizer, std::vector<double>(optimizer.rates.size(), 1.0), 1.0) {
    branch.output = Sampled::Zero(tokens.all(), spec.model.width);
  }
};

TEST_CASE("output matrix: a sign update of independent tokens is noise with the variance of the full width") {
  // (ΔW h)_k = −η Σ_j sign(g_k) sign(h_j(t)) h_j(s): n terms of variance η² if h(s) and h(t) are independent. Without
  // the correction, scaling up 8 drawn channels would give n/8 times as much.
  TrainingTokens tokens{.ids = {0, 1}, .labels = {1, 0}};
  tokens.batch = tokens.steps = 1;
  constexpr double rate = 0.01;
  constexpr int fan_in = 128;
  constexpr Index drawn = 8;
  constexpr int repetitions = 10000;
  OptimizerLaw optimizer = adam({rate});
  optimizer.weight_decay = 50.0;
  const OutputCase one(tokens, optimizer);
  NormalStream numbers({.seed = 8, .replicate = 0, .place = 0});
  RunningMoments squares;
  double update = 0.0;
  for (int r = 0; r < repetitions; ++r) {
    OutputMatrix last(one.context, one.branch, 1, Weight::down, fan_in, drawn);
    const Sampled hidden = numbers.normals_float(2, drawn);
    double square = 0.0;
    last.append(hidden.topRows(1), numbers.normals_float(1, one.spec.model.width), {tokens, 0}, square);
    const Sampled now = hidden.bottomRows(1);
    const ModuleOutput module = last.output(now, now, now, Sampled::Zero(1, 1), {tokens, 1});
    squares.add(module.output.x.coherent.cwiseAbs2().mean() + module.output.correction(0, 0));
    update += module.update_square.at(Weight::down) / repetitions;
  }
  const double mean = squares.mean(), error = squares.standard_error();
  const double expected = rate * rate * fan_in;
  INFO("mean := ", mean, ", error := ", error);
  // Without the correction, the mean would be 128/8 = 16 times as large.
  CHECK(error < 0.5 * expected);
  CHECK(std::abs(mean - expected) < 5.0 * error);
  // ΔW also contains the decay, of variance (ηλσ)².
  const double decayed = std::pow(rate * optimizer.weight_decay * stddev_of(one.spec, 0, Weight::down), 2) * fan_in;
  const double of_decayed = decayed * std::sqrt(2.0 / (drawn * repetitions));  // sampling error of h²
  CHECK(std::abs(update - expected - decayed) < 5.0 * std::hypot(error, of_decayed));
}

TEST_CASE("output matrix: the update of the backward pass is the transpose of the forward update") {
  TrainingTokens tokens{.ids = {0, 1, 2}, .labels = {1, 0, 2}};
  tokens.batch = 1;
  tokens.steps = 2;
  constexpr Index drawn = 16;
  OptimizerLaw optimizer = adam({0.01, 0.01});
  optimizer.weight_decay = 10.0;
  const OutputCase one(tokens, optimizer);
  NormalStream numbers({.seed = 9, .replicate = 0, .place = 0});
  OutputMatrix last(one.context, one.branch, 1, Weight::down, 2 * drawn, drawn);
  const Sampled trained = numbers.normals_float(1, drawn);
  const Sampled first = numbers.normals_float(1, one.spec.model.width);
  double square = 0.0;
  last.append(trained, first, {tokens, 0}, square);
  CHECK(square == approx(2.0 * trained.squaredNorm() * first.squaredNorm()).epsilon(1e-5));
  const CurrentTokens now{tokens, 1};
  const Sampled hidden = numbers.normals_float(2, drawn);
  const Sampled gradient = numbers.normals_float(1, one.spec.model.width);
  const Sampled left = static_cast<float>(one.law.decay_factor(1)) * last.backward(gradient, {tokens, 0});
  const ModuleOutput module = last.output(hidden, hidden, hidden, Sampled::Zero(2, 1), now);
  const double forward = gradient.cwiseProduct(module.output.x.coherent.topRows(1)).sum();
  const double back = hidden.topRows(1).cwiseProduct(last.backward(gradient, now) - left).sum();
  CHECK(std::abs(forward) > 1e-3);
  CHECK(2.0 * back == approx(forward).epsilon(1e-4));  // half of the channels are drawn; 1e-4 for float rounding
}

TEST_CASE("trained norm: gradients match finite differences for every kind with a divisor") {
  TrainingTokens tokens{.ids = {0, 1}, .labels = {1, 0}};
  tokens.batch = tokens.steps = 1;
  const CurrentTokens now{tokens, 0};
  StackSpec spec = small_stack("pre");
  spec.model.gamma = 1.5;
  spec.model.norm_eps = 0.5;
  NormalStream numbers({.seed = 10, .replicate = 0, .place = 0});
  const Sampled x = numbers.normals_float(2, spec.model.width);
  const Sampled gradient = numbers.normals_float(1, spec.model.width);
  for (const NormKind kind : {NormKind::rms, NormKind::layer, NormKind::l2}) {
    CAPTURE(static_cast<int>(kind));
    spec.model.norm = kind;
    const auto passed = [&](const Sampled& in, TrainedNorm& norm) {
      TrainedSignal signal = signal_of(in, now, Sampled::Zero(2, 0));
      norm.forward(signal, now);
      return Sampled(signal.x.initial);
    };
    TrainedNorm norm(spec, tokens, true, 2.0);
    (void)passed(x, norm);
    double square = 0.0;
    const Sampled dx = norm.backward(gradient, now, square);
    const Sampled z = passed(x, norm).topRows(1) / static_cast<float>(spec.model.gamma);
    const double of_gains = gradient.cwiseProduct(z).squaredNorm();
    CHECK(square == approx(of_gains + (kind == NormKind::layer ? 4.0 * gradient.squaredNorm() : 0.0)));
    for (const Index k : {Index{0}, Index{7}}) {
      constexpr float step = 1.0F / 64.0F;
      Sampled up = x;
      Sampled down = x;
      up(0, k) += step;
      down(0, k) -= step;
      TrainedNorm other(spec, tokens, true, 2.0);
      const Sampled difference = (passed(up, other) - passed(down, other)) / (2.0F * step);
      const double expected = difference.row(0).cwiseProduct(gradient).sum();
      CHECK(std::abs(dx(0, k) - expected) < 1e-3);  // float rounding times 32; the third-order term is smaller
    }
  }
}

TEST_CASE("trained norm: the divisor includes the correction, which is scaled with the signal") {
  const TrainingTokens tokens = three_and_two();
  const CurrentTokens now{tokens, 0};
  StackSpec spec = small_stack("pre");
  spec.model.norm_eps = 0.0;
  NormalStream numbers({.seed = 14, .replicate = 0, .place = 0});
  const Sampled x = numbers.normals_float(tokens.all(), spec.model.width);
  TrainedSignal signal = signal_of(x, now, Sampled::Zero(now.count(), 0));
  signal.correction = Vector::LinSpaced(now.count(), 0.5, 2.5).asDiagonal();
  TrainedNorm(spec, tokens, true, 3.0).forward(signal, now);
  for (Index s = 0; s < now.count(); ++s) {
    const double own = signal.x.total().row(s).cast<double>().squaredNorm() / spec.model.width;
    CHECK(own + signal.correction(s, s) == approx(9.0).epsilon(1e-5));
  }
}

TEST_CASE("trained streams: sums commute with scaling one stream and with a step") {
  NormalStream numbers({.seed = 15, .replicate = 0, .place = 0});
  constexpr Index now = 3;
  constexpr Index trained = 2;
  const auto drawn = [&] {
    return TrainedSignal{.x = SignalParts::zero(now, 4),
                         .correction = numbers.normals(now, now),
                         .response = numbers.normals_float(now, trained)};
  };
  TrainedStreams streams{
      .x = {2, SignalParts::zero(now, 4)}, .correction = {2, drawn().correction}, .response = {2, drawn().response}};
  for (std::size_t i = 0; i < 2; ++i) {
    streams.x[i].coherent = numbers.normals_float(now, 4);
    for (std::size_t j = 0; j < 2; ++j) {
      streams.correction(i, j) = drawn().correction;
      streams.response(i, j) = drawn().response;
    }
  }
  const auto check_same = [](const TrainedSignal& a, const TrainedSignal& b) {
    CHECK((a.x.total() - b.x.total()).norm() < 1e-5F);
    CHECK((a.correction - b.correction).norm() < 1e-5);
    CHECK((a.response - b.response).norm() < 1e-5F);
  };
  Step step;
  step.mixing = {{0.5, -1.0}, {2.0, 0.25}};
  step.branches.emplace_back().writes = {0.75, -0.5};
  const TrainedSignal written = drawn();
  TrainedSignal summed = streams.sum({0.5 + 3.0 * 2.0, -1.0 + 3.0 * 0.25});
  const double weight = 0.75 - 3.0 * 0.5;
  summed.x.add(weight, written.x);
  summed.correction += weight * weight * written.correction;
  summed.response += static_cast<float>(weight * weight) * written.response;
  check_same(added(step, streams, {written}).sum({1.0, 3.0}), summed);

  const Vector by = Eigen::Vector3d(0.5, 2.0, 3.0);
  const Vector times = Eigen::Vector2d(0.7, 1.3);
  const auto rows = by.cast<float>().eval();
  const auto columns = times.cast<float>().eval();
  const auto c = streams.correction;
  const auto r = streams.response;
  streams.x[1].scale(by);
  TrainedSignal expected = streams.sum({1.0, 1.0});
  expected.correction = c(0, 0) + c(0, 1) * by.asDiagonal() + by.asDiagonal() * c(1, 0);
  expected.correction += by.asDiagonal() * c(1, 1) * by.asDiagonal();
  expected.response = r(0, 0) + r(0, 1) * columns.asDiagonal() + rows.asDiagonal() * r(1, 0);
  expected.response += rows.asDiagonal() * r(1, 1) * columns.asDiagonal();
  streams.correction.scale(1, by, by);
  streams.response.scale(1, rows, columns);
  check_same(streams.sum({1.0, 1.0}), expected);
}

TEST_CASE("trained norm: the response is the trace of the product of derivatives for every kind with a divisor") {
  TrainingTokens tokens{.ids = {0, 1, 2}, .labels = {1, 2, 0}};
  tokens.batch = 1;
  tokens.steps = 2;
  StackSpec spec = small_stack("pre");
  const int width = spec.model.width = 8;  // narrow, so that the directions that a norm removes matter
  spec.model.norm_eps = 1e-12;
  NormalStream numbers({.seed = 12, .replicate = 0, .place = 0});
  const Sampled x = numbers.normals_float(tokens.all(), width);
  for (const NormKind kind : {NormKind::rms, NormKind::layer, NormKind::l2}) {
    CAPTURE(static_cast<int>(kind));
    spec.model.norm = kind;
    TrainedNorm norm(spec, tokens, true, 2.0);
    std::vector<Sampled> derivatives;  // one per batch, at the batch's token and step
    for (Index done = 0; done < tokens.steps; ++done) {
      const CurrentTokens now{tokens, done};
      TrainedSignal signal = signal_of(x, now, Sampled::Ones(now.count(), done));
      norm.forward(signal, now);
      Sampled& derivative = derivatives.emplace_back(width, width);
      for (Index k = 0; k < width; ++k) {
        double square = 0.0;
        derivative.row(k) = norm.backward(Sampled::Identity(width, width).row(k), now, square);
      }
      if (done == 0) continue;
      const double expected = derivatives[1].cwiseProduct(derivatives[0]).sum() / static_cast<float>(width);
      CHECK(signal.response(0, 0) == approx(expected).epsilon(1e-4));  // float rounding
    }
  }
}

}  // namespace
}  // namespace periscope::theory
