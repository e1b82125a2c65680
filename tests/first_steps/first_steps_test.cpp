#include "theory/first_steps/first_steps.h"

#include <cmath>
#include <numbers>

#include "sim/measure/running_moments.h"
#include "tests/first_steps/small_case.h"
#include "tests/support/doctest.h"
#include "theory/first_steps/attention_heads.h"
#include "theory/first_steps/initial_stack.h"
#include "theory/kernels/activation_values.h"
#include "theory/kernels/normal_stream.h"
#include "theory/width/gram_signal.h"

namespace periscope::theory {
namespace {

TEST_CASE("activation_slopes matches finite differences of activation_values") {
  Eigen::MatrixXf x(1, 5);
  x << -2.0F, -0.5F, 0.25F, 1.0F, 3.0F;
  constexpr float step = 1.0F / 256.0F;
  for (const Activation a : {Activation::relu, Activation::gelu, Activation::silu, Activation::gelu_tanh}) {
    CAPTURE(static_cast<int>(a));
    const Eigen::MatrixXf up = activation_values<Eigen::MatrixXf>(a, x.array() + step);
    const Eigen::MatrixXf down = activation_values<Eigen::MatrixXf>(a, x.array() - step);
    // Third derivatives are below 2, so the central difference has an error of 2/6·step² = 5e-6. Rounding adds
    // 4·6e-8/step = 6e-5.
    CHECK(((up - down) / (2.0F * step) - activation_slopes(a, x)).cwiseAbs().maxCoeff() < 1e-4F);
  }
}

TEST_CASE("sequence attention: the gradient of the scores matches finite differences") {
  StackSpec spec = small_stack("pre");
  const SequenceAttention attention(spec.model, 0, 4);
  NormalStream numbers({.seed = 2, .replicate = 0, .place = 0});
  const Sampled q = numbers.normals_float(8, 16);
  const Sampled k = numbers.normals_float(8, 16);
  const Sampled v = numbers.normals_float(8, 16);
  const Sampled g = numbers.normals_float(8, 16);
  const Eigen::VectorXf none;
  const auto loss = [&](const Sampled& query) {
    const auto scores =
        attention.scores(attention.rotated(query, none, 4).rotated, attention.rotated(k, none, 4).rotated);
    return attention.mixed(scores.pattern, v).cwiseProduct(g).cast<double>().sum();
  };
  const auto rotated = attention.rotated(q, none, 4);
  const auto scores = attention.scores(rotated.rotated, attention.rotated(k, none, 4).rotated);
  const auto dz = attention.score_gradient(scores, g, v);
  const Sampled dq = attention.backward(rotated, attention.mixed(dz, attention.rotated(k, none, 4).rotated), 4);
  constexpr float step = 1.0F / 64.0F;
  for (const Eigen::Index t : {1, 3, 6}) {
    Sampled up = q;
    Sampled down = q;
    up(t, 5) += step;
    down(t, 5) -= step;
    const double difference = (loss(up) - loss(down)) / (2.0 * step);
    CHECK(std::abs(difference - dq(t, 5)) < 2e-3);
  }
  CHECK(dq.row(0).norm() == 0.0F);  // the first token attends only to itself
}

TEST_CASE("attention at initialisation: sequences are independent, and each starts at position 0") {
  const StackSpec spec = small_stack("pre");
  constexpr Eigen::Index length = 4;
  NormalStream inputs({.seed = 5, .replicate = 0, .place = 0});
  const Matrix one = inputs.normals(length, spec.model.width);
  const Matrix other = inputs.normals(length, spec.model.width);
  const auto gram = [&](const Matrix& first, const Matrix& second) {
    Matrix both(2 * length, first.cols());
    both << first, second;
    NormalStream numbers({.seed = 6, .replicate = 0, .place = 0});  // the same matrices every time
    const Matrix root = attention_root(spec, 0, both, length, numbers);
    return Matrix(root * root.transpose());
  };
  const Matrix mixed = gram(one, other);
  const double rounding = 1e-5 * mixed.norm();
  const Matrix swapped = gram(other, one);
  CHECK((mixed.topLeftCorner(length, length) - swapped.bottomRightCorner(length, length)).norm() < rounding);
  CHECK((mixed.bottomRightCorner(length, length) - swapped.topLeftCorner(length, length)).norm() < rounding);
  CHECK((mixed.topRightCorner(length, length) - swapped.bottomLeftCorner(length, length)).norm() < rounding);
}

TEST_CASE("at initialisation a norm after a module does not change the output of the module") {
  const TrainingTokens tokens = tokens_of(small_stack("pre"), small_input({0.1}), 0);
  const InitialStack pre = initial_stack(small_stack("pre"), tokens, ReplicateDraws());
  const InitialStack peri = initial_stack(small_stack("peri"), tokens, ReplicateDraws());
  CHECK((pre.branches.front().input - peri.branches.front().input).norm() == 0.0F);
  CHECK((pre.branches.front().output - peri.branches.front().output).norm() == 0.0F);
}

TEST_CASE("first steps: gradients of keys and values shared by heads are sums over these heads") {
  // With uniform attention patterns, the gradients of heads are independent and of equal size.
  StackSpec spec = flat_stack("pre", 1);
  FirstStepsInput input = small_input({1e-3});
  input.optimizer = sgd({1e-3});
  FirstStepsOptions options = few();
  options.replicates = 512;
  const auto updates = [&](int kv_heads) {
    spec.model.kv_heads = kv_heads;
    return predict_first_steps(spec, input, options).steps[1].update;
  };
  const auto own = updates(4);
  const auto shared = updates(1);
  for (const Weight weight : {Weight::k, Weight::v}) {
    CAPTURE(static_cast<int>(weight));
    const Curve& one = own.at(weight);
    const Curve& all = shared.at(weight);
    const double ratio = all.value[0] / one.value[0];
    const double error = ratio * std::hypot(all.standard_error[0] / all.value[0], one.standard_error[0] / one.value[0]);
    INFO(ratio, " +- ", error);
    CHECK(error < 0.3);
    CHECK(std::abs(ratio - 4.0) < 5.0 * error);
  }
}

TEST_CASE("first steps: weight decay alone acts like smaller initial weights") {
  for (const char* placement : {"pre", "peri", "post"}) {
    INFO(placement);
    StackSpec spec = small_stack(placement);
    spec.model.embedding_norm = std::string_view(placement) == "post";
    FirstStepsInput input = small_input({1e-9, 1e-9});
    input.optimizer.adam = false;  // SGD updates are negligible at these rates
    input.optimizer.weight_decay = 1e8;
    FirstStepsOptions options = few();
    options.replicates = 128;
    const FirstSteps decayed = predict_first_steps(spec, input, options);
    spec.init.std *= 0.81;
    spec.input.second_moment *= 0.81 * 0.81;
    const FirstSteps smaller = predict_first_steps(spec, small_input({0.0, 0.0}), options);
    const StepReading& now = decayed.steps[2];
    const StepReading& then = smaller.steps[0];
    for (std::size_t l = 0; l < then.second_moment.value.size(); ++l) {
      CHECK(now.second_moment.value[l] == approx(then.second_moment.value[l]).epsilon(0.02));
    }
    CHECK(now.loss.value[0] == approx(then.loss.value[0]).epsilon(0.02));
  }
}

TEST_CASE("first steps: a rate of 0 changes nothing") {
  FirstStepsOptions options = few();
  options.replicates = 256;
  const FirstSteps p = predict_first_steps(small_stack("peri"), small_input({0.0, 0.0}), options);
  REQUIRE(p.steps.size() == 3);
  for (const StepReading& step : p.steps) {
    CHECK(step.coherent.value.back() == 0.0);
    for (const double change : step.change.value) CHECK(std::abs(change) < 1e-4);
    CHECK(step.input_correlation == approx(1.0).epsilon(1e-4));
    // Every Peri-LN sublayer adds a second moment of 1 for any weights; the tolerance is five standard errors.
    const double added = step.second_moment.value.back() - step.second_moment.value.front();
    const double error =
        std::hypot(step.second_moment.standard_error.back(), step.second_moment.standard_error.front());
    CHECK(error < 0.05);
    CHECK(std::abs(added - 4.0) < 5.0 * error);
  }
  CHECK(p.holds_until == 2);
}

TEST_CASE("first steps: input correlation compares every token with itself, also without norms") {
  // The mean of equal tokens of a sequence is larger than the mean of different tokens.
  FirstStepsInput input = small_input({0.0});
  input.runs.front().inputs.front() = {1, 1, 1, 1, 2, 2, 2, 2};
  input.ids = {1, 2, 3, 4, 5, 6, 7, 8};
  StackSpec spec = small_stack("none");
  spec.model.final_norm = true;
  const FirstSteps p = predict_first_steps(spec, input, few());
  for (const StepReading& step : p.steps) CHECK(step.input_correlation == approx(1.0).epsilon(1e-4));
}

TEST_CASE("first steps: every step uses the labels of its batch; the loss uses the held-out labels") {
  FirstStepsInput input = seen_input(adam({1e-3, 1e-3}));
  const auto all = [&](int label) { return std::vector<int>(input.ids.size(), label); };
  input.runs.front().labels = {all(5), all(9)};
  input.labels = all(9);
  const FirstSteps p = predict_first_steps(small_stack("pre"), input, few());
  CHECK(p.steps[1].loss.value[0] > p.steps[0].loss.value[0]);
  CHECK(p.steps[2].loss.value[0] < p.steps[1].loss.value[0]);
}

TEST_CASE("first steps: the input correlation gives the neglected share, and the sum of rates gives the gain drift") {
  const std::vector<double> rates{1e-3, 3e-3, 2e-3};
  const FirstSteps p = predict_first_steps(small_stack("peri"), small_input(rates), few());
  REQUIRE(p.steps.size() == 4);
  CHECK(p.steps[0].neglected == 0.0);
  CHECK(p.steps[3].input_correlation < 0.999);
  double rate_sum = 0.0;
  for (std::size_t r = 0; r < p.steps.size(); ++r) {
    const StepReading& step = p.steps[r];
    const double share = std::pow(1.0 - step.input_correlation, 2);
    if (r > 0) CHECK(step.neglected == approx(r > 1 ? 2.0 * share : share).epsilon(1e-12));
    if (r > 0) rate_sum += rates[r - 1];
    CHECK(step.gain_drift == approx(2.0 * rate_sum).epsilon(1e-12));
  }
  for (const StepReading& step : predict_first_steps(small_stack("pre"), small_input(rates), few()).steps) {
    CHECK(step.gain_drift == 0.0);  // no norm after a module
  }
  StackSpec normed = small_stack("pre");
  normed.model.embedding_norm = true;
  CHECK(predict_first_steps(normed, small_input(rates), few()).steps[1].gain_drift == approx(2.0 * rates[0]));
}

TEST_CASE("first steps: the theory stops at a large step and names the estimated reason") {
  for (const char* placement : {"pre", "peri"}) {
    const FirstSteps p = predict_first_steps(small_stack(placement), small_input({0.1}), few());
    REQUIRE(p.steps[1].input_correlation < 0.7);
    CHECK(p.holds_until == 0);
    CHECK(p.stopped_by.find("estimated") != std::string::npos);
  }
}

TEST_CASE("first steps: with one key head, QK-norm over all heads lowers the key update by 5 %") {
  // With flat patterns, queries are independent of score gradients, and only the queries' mean square matters. It is 1
  // with a norm per head, and 5 % less with a norm over all heads, whose divisor contains the square of the head. With
  // four features per head, a quarter of the squared gradient is parallel to the key and is removed by the norm.
  StackSpec spec = flat_stack("pre", 1);
  spec.model.heads = 8;
  spec.model.kv_heads = 1;
  spec.model.head_dim = 4;
  FirstStepsInput input = small_input({1e-3});
  input.optimizer = sgd({1e-3});
  FirstStepsOptions options = few();
  options.replicates = 64;
  const auto update = [&](QkNorm norm) {
    spec.model.qk_norm = norm;
    return predict_first_steps(spec, input, options).steps[1].update.at(Weight::k).value.front();
  };
  RunningMoments by_head;
  RunningMoments difference;  // paired: both norms use the same random numbers
  for (options.seed = 0; options.seed < 48; ++options.seed) {
    const double one = update(QkNorm::head);
    by_head.add(one);
    difference.add(update(QkNorm::full) - one);
  }
  const double relative = difference.mean() / by_head.mean();
  const double error = difference.standard_error() / by_head.mean();
  INFO("relative difference ", relative, " +- ", error);
  CHECK(error < 0.03);
  CHECK(std::abs(relative + 0.05) < 4.0 * error);
}

TEST_CASE("first steps: every planted fault changes the prediction; sign_constant changes it by the factor π/2") {
  const FirstSteps right = predict_first_steps(small_stack("pre"), small_input({1e-4}), few());
  for (int f = 1; f < static_cast<int>(step_fault_names.size()); ++f) {
    CAPTURE(step_fault_names[static_cast<std::size_t>(f)]);
    FirstStepsOptions options = few();
    options.fault = static_cast<StepFault>(f);
    const FirstSteps wrong = predict_first_steps(small_stack("pre"), small_input({1e-4}), options);
    CHECK(wrong.steps[1].second_moment.value.back() != right.steps[1].second_moment.value.back());
    CHECK_FALSE(meaning_of(options.fault).empty());
    if (options.fault == StepFault::sign_constant) {
      const double ratio = wrong.steps[1].coherent.value.back() / right.steps[1].coherent.value.back();
      CHECK(ratio == approx(std::numbers::pi / 2.0).epsilon(0.05));
    }
  }
}

TEST_CASE("first steps: a vocabulary may have odd size; with size 1 the loss is 0") {
  for (const int vocab : {1, 15}) {
    CAPTURE(vocab);
    StackSpec spec = small_stack("pre");
    spec.model.vocab = vocab;
    FirstStepsInput input = small_input({1e-3, 1e-3});
    for (auto* ids : {&input.ids, &input.labels, &input.runs[0].inputs[0], &input.runs[0].inputs[1],
                      &input.runs[0].labels[0], &input.runs[0].labels[1]}) {
      for (int& id : *ids) id %= vocab;
    }
    const FirstSteps p = predict_first_steps(spec, input, few());
    CHECK(p.holds_until == 2);
    for (const StepReading& step : p.steps) {
      for (const double q : step.second_moment.value) CHECK(std::isfinite(q));
      if (vocab == 1) CHECK(step.loss.value[0] == 0.0);
      if (vocab == 1) CHECK(step.coherent.value.back() == 0.0);
    }
  }
}

TEST_CASE("first steps: the theory stops at a non-finite prediction") {
  const FirstSteps p = predict_first_steps(small_stack("pre"), small_input({1e-4, 1e300}), few());
  REQUIRE_FALSE(std::isfinite(p.steps[2].second_moment.value.back()));
  CHECK(p.holds_until == 1);
  CHECK(p.stopped_by.find("not finite at step 2") != std::string::npos);
}

TEST_CASE("first steps: mean squares are not negative with few samples") {
  FirstStepsOptions options = few();
  options.neurons = 2;
  bool is_clipped = false;
  for (options.seed = 0; options.seed < 20; ++options.seed) {
    const FirstSteps p = predict_first_steps(small_stack("peri"), small_input({1e-4}), options);
    for (const double q : p.steps[1].branch_second_moment.value) CHECK(q >= 0.0);
    for (const auto& [weight, curve] : p.steps[1].update) {
      for (const double q : curve.value) {
        CHECK(q >= 0.0);
        is_clipped = is_clipped || q == 0.0;
      }
    }
  }
  CHECK(is_clipped);
}

TEST_CASE("first steps: placements with several branches and streams are predicted; unsupported options are named") {
  for (const char* name : {"parallel", "parallel-two", "residual-dual", "deepnorm", "span", "x0", "hyper"}) {
    CAPTURE(name);
    const FirstSteps p = predict_first_steps(small_stack(name), small_input({1e-3}), few());
    CHECK(p.unsupported.empty());
    for (const StepReading& step : p.steps)
      for (const double q : step.second_moment.value) CHECK(std::isfinite(q));
  }
  const auto reason = [](const auto& change) {
    StackSpec spec = small_stack("pre");
    change(spec.model);
    return first_steps_unsupported(spec);
  };
  CHECK(reason([](ModelSpec&) {}).empty());
  CHECK(reason([](ModelSpec& m) { m.norm = NormKind::dyt; }).find("pointwise norms") != std::string::npos);
  CHECK(reason([](ModelSpec& m) { m.gamma = 0.0; }).find("gains of 0") != std::string::npos);
  CHECK(reason([](ModelSpec& m) { m.attention_gate = AttentionGate::head; }).find("inside") != std::string::npos);
  CHECK(reason([](ModelSpec& m) { m.final_norm = false; }).find("before the unembedding") != std::string::npos);
  CHECK(reason([](ModelSpec& m) { m.head.soft_cap = 30.0; }).find("soft cap") != std::string::npos);
  CHECK(first_steps_unsupported(small_stack("layer-scale")).find("per-channel") != std::string::npos);
}

}  // namespace
}  // namespace periscope::theory
