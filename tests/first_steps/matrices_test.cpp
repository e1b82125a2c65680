#include <cmath>
#include <utility>
#include <vector>

#include "tests/first_steps/small_case.h"
#include "tests/support/doctest.h"
#include "theory/first_steps/first_matrix.h"
#include "theory/first_steps/last_matrix.h"
#include "theory/first_steps/moved_norm.h"

/// The parts of the prediction that AdamW's updates go through, each by itself.
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

MovedSignal signal_of(const Sampled& x, const TokensNow& now, Sampled response) {
  MovedSignal signal{.x = MovedParts::zero(now.count(), x.cols()),
                     .correction = Matrix::Zero(now.count(), now.count()),
                     .response = std::move(response)};
  signal.x.kept = now.rows_of(x);
  return signal;
}

TEST_CASE("first matrix: the response of its fields to a gradient is the difference that the gradient makes") {
  const TrainingTokens tokens = three_and_two();
  const StackSpec spec = small_stack("pre");
  const int width = spec.model.width;
  NormalStream numbers({.seed = 4, .replicate = 0, .place = 0});
  const Sampled x = numbers.normals_float(tokens.all(), width);
  constexpr Index rows = 6;
  const Sampled gradient = numbers.normals_float(batch, rows);
  const Sampled response = 0.1F * numbers.normals_float(held_out, batch);
  constexpr double variance = 0.3;
  const ChainDraws draws;
  for (OptimizerLaw optimizer : {adam({0.02}), sgd({0.02})}) {
    optimizer.weight_decay = 5.0;
    const UpdateLaw law(optimizer, {1.0}, 1.0);
    const ModuleContext context{spec, tokens, draws, law, StepFault::no_noise};
    const TokensNow now{tokens, 1};
    struct Moved {
      FirstMatrix::Fields fields;
      Sampled to_row;  // ∂z(s)/∂g(t) of row 1
    };
    const auto moved = [&](const Sampled& g) {
      ReadHistory history(context);
      FirstMatrix matrix(context, history, {0, 0, rows, rows, std::sqrt(variance)});
      const TokensNow before{tokens, 0};
      history.read(signal_of(x, before, Sampled::Zero(before.count(), 0)), before);
      double square = 0.0;
      (void)matrix.now(before);
      (void)matrix.back(g, before, square);
      history.read(signal_of(x, now, response), now);
      Moved result{.fields = matrix.now(now), .to_row = {}};
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
        // Values of about 5 are rounded by 3e-7, over 1/32; 1/C's third derivative times step²/6 is below 1e-3 of it.
        CHECK(difference(s, 1) == doctest::Approx(at.to_row(s, t)).epsilon(2e-3));
      }
    }
  }
}

/// What one sign step makes of a held-out token, ΔW x, mean square over its rows, by sampling gradients of 64 rows.
TEST_CASE(
    "first matrix: signs of its entries' gradients do to a token what the prediction says, Gram matrix included") {
  // Tokens of independent channels: their Gram matrix's own fluctuation is most of what an update does to others.
  const TrainingTokens tokens = three_and_two();
  const StackSpec spec = small_stack("pre");
  constexpr double rate = 0.01;
  constexpr int repetitions = 1000;
  constexpr Index rows = 64;
  const UpdateLaw law(adam({rate}), {1.0}, 1.0);
  NormalStream numbers({.seed = 11, .replicate = 0, .place = 0});
  std::vector<double> differences;
  double mean = 0.0;
  double exact_mean = 0.0;
  for (int r = 0; r < repetitions; ++r) {
    const ChainDraws draws{.seed = 1, .replicate = static_cast<std::uint64_t>(r)};
    const ModuleContext context{spec, tokens, draws, law, StepFault::none};
    ReadHistory history(context);
    FirstMatrix matrix(context, history, {0, 0, rows, rows, 0.0});
    const Sampled x = numbers.normals_float(tokens.all(), spec.model.width);
    const Sampled gradient = numbers.normals_float(batch, rows);
    const TokensNow before{tokens, 0};
    const TokensNow now{tokens, 1};
    double square = 0.0;
    history.read(signal_of(x, before, Sampled::Zero(before.count(), 0)), before);
    (void)matrix.back(gradient, before, square);
    history.read(signal_of(x, now, Sampled::Zero(held_out, batch)), now);
    const double predicted = matrix.now(now).values.squaredNorm();
    const Sampled entries = x.topRows(batch).transpose() * gradient;
    const Sampled update = static_cast<float>(rate) * entries.cwiseSign();
    const double exact = (x.bottomRows(held_out) * update).squaredNorm();
    differences.push_back(predicted - exact);
    mean += (predicted - exact) / repetitions;
    exact_mean += exact / repetitions;
  }
  double spread = 0.0;
  for (const double d : differences) spread += (d - mean) * (d - mean);
  const double error = std::sqrt(spread / (repetitions * (repetitions - 1.0)));
  INFO("relative difference ", mean / exact_mean, " +- ", error / exact_mean);
  CHECK(error < 0.01 * exact_mean);
  // U's remainder counts as independent of the sizes of gradients: an error of the order of 1/D.
  CHECK(std::abs(mean) < 4.0 * error + exact_mean / spec.model.width);
}

/// A LastMatrix of a stack of 64 channels, and its context.
struct LastCase {
  StackSpec spec = small_stack("pre");
  TrainingTokens tokens;
  ChainDraws draws;
  UpdateLaw law;
  InitialBranch branch;
  ModuleContext context{spec, tokens, draws, law, StepFault::none};

  LastCase(TrainingTokens all, const OptimizerLaw& optimizer)
      : tokens(std::move(all)), law(optimizer, std::vector<double>(optimizer.rates.size(), 1.0), 1.0) {
    branch.written = Sampled::Zero(tokens.all(), spec.model.width);
  }
};

TEST_CASE("last matrix: on what is independent of its batch an update of signs is noise, at the stack's width") {
  // (ΔW h)_k = −η Σ_j sign(g_k) sign(h_j(t)) h_j(s): n terms of variance η² where h(s) knows nothing of h(t). Of 8
  // drawn channels the sum has n/8 times as much.
  TrainingTokens tokens{.ids = {0, 1}, .labels = {1, 0}};
  tokens.batch = tokens.steps = 1;
  constexpr double rate = 0.01;
  constexpr int fan_in = 128;
  constexpr Index drawn = 8;
  constexpr int repetitions = 10000;
  OptimizerLaw optimizer = adam({rate});
  optimizer.weight_decay = 50.0;
  const LastCase one(tokens, optimizer);
  NormalStream numbers({.seed = 8, .replicate = 0, .place = 0});
  std::vector<double> squares;
  double mean = 0.0;
  double update = 0.0;
  for (int r = 0; r < repetitions; ++r) {
    LastMatrix last(one.context, one.branch, 1, Weight::down, fan_in, drawn);
    const Sampled hidden = numbers.normals_float(2, drawn);
    double square = 0.0;
    last.append(hidden.topRows(1), numbers.normals_float(1, one.spec.model.width), {tokens, 0}, square);
    const Sampled now = hidden.bottomRows(1);
    const MovedModule module = last.output(now, now, now, Sampled::Zero(1, 1), {tokens, 1});
    squares.push_back(module.output.x.follows.cwiseAbs2().mean() + module.output.correction(0, 0));
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
  // Its ΔW has besides what decay took, of variance (ηλσ)².
  const double decayed = std::pow(rate * optimizer.weight_decay * stddev_of(one.spec, 0, Weight::down), 2) * fan_in;
  const double of_decayed = decayed * std::sqrt(2.0 / (drawn * repetitions));  // of drawn h²
  CHECK(std::abs(update - expected - decayed) < 5.0 * std::hypot(error, of_decayed));
}

TEST_CASE("moved norm: gradients are those of differences, for every kind that divides") {
  TrainingTokens tokens{.ids = {0, 1}, .labels = {1, 0}};
  tokens.batch = tokens.steps = 1;
  const TokensNow now{tokens, 0};
  StackSpec spec = small_stack("pre");
  spec.model.gamma = 1.5;
  spec.model.norm_eps = 0.5;
  NormalStream numbers({.seed = 10, .replicate = 0, .place = 0});
  const Sampled x = numbers.normals_float(2, spec.model.width);
  const Sampled gradient = numbers.normals_float(1, spec.model.width);
  for (const NormKind kind : {NormKind::rms, NormKind::layer, NormKind::l2}) {
    CAPTURE(static_cast<int>(kind));
    spec.model.norm = kind;
    const auto passed = [&](const Sampled& in, MovedNorm& norm) {
      MovedSignal signal = signal_of(in, now, Sampled::Zero(2, 0));
      norm.pass(signal, now);
      return Sampled(signal.x.kept);
    };
    MovedNorm norm(spec, tokens, true, 2.0);
    (void)passed(x, norm);
    double square = 0.0;
    const Sampled back = norm.back(gradient, now, square);
    const Sampled z = passed(x, norm).topRows(1) / static_cast<float>(spec.model.gamma);
    const double of_gains = gradient.cwiseProduct(z).squaredNorm();
    CHECK(square == doctest::Approx(of_gains + (kind == NormKind::layer ? 4.0 * gradient.squaredNorm() : 0.0)));
    for (const Index k : {Index{0}, Index{7}}) {
      constexpr float step = 1.0F / 64.0F;
      Sampled up = x;
      Sampled down = x;
      up(0, k) += step;
      down(0, k) -= step;
      MovedNorm other(spec, tokens, true, 2.0);
      const Sampled difference = (passed(up, other) - passed(down, other)) / (2.0F * step);
      const double expected = difference.row(0).cwiseProduct(gradient).sum();
      CHECK(std::abs(back(0, k) - expected) < 1e-3);  // rounding of float over 1/32; the slope's curvature is below
    }
  }
}

TEST_CASE("moved norm: its response is the trace of its derivatives' product, for every kind that divides") {
  TrainingTokens tokens{.ids = {0, 1, 2}, .labels = {1, 2, 0}};
  tokens.batch = 1;
  tokens.steps = 2;
  StackSpec spec = small_stack("pre");
  const int width = spec.model.width = 8;  // so that the directions that a norm removes count
  spec.model.norm_eps = 1e-12;
  NormalStream numbers({.seed = 12, .replicate = 0, .place = 0});
  const Sampled x = numbers.normals_float(tokens.all(), width);
  for (const NormKind kind : {NormKind::rms, NormKind::layer, NormKind::l2}) {
    CAPTURE(static_cast<int>(kind));
    spec.model.norm = kind;
    MovedNorm norm(spec, tokens, true, 2.0);
    std::vector<Sampled> derivatives;  // of every batch's token at its step
    for (Index done = 0; done < tokens.steps; ++done) {
      const TokensNow now{tokens, done};
      MovedSignal signal = signal_of(x, now, Sampled::Ones(now.count(), done));
      norm.pass(signal, now);
      Sampled& derivative = derivatives.emplace_back(width, width);
      for (Index k = 0; k < width; ++k) {
        double square = 0.0;
        derivative.row(k) = norm.back(Sampled::Identity(width, width).row(k), now, square);
      }
      if (done == 0) continue;
      const double expected = derivatives[1].cwiseProduct(derivatives[0]).sum() / static_cast<float>(width);
      CHECK(signal.response(0, 0) == doctest::Approx(expected).epsilon(1e-4));  // rounding of float
    }
  }
}

}  // namespace
}  // namespace periscope::theory
