#include "sim/model/matrix_free.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "sim/measure/signal_store.h"
#include "sim/model/input.h"
#include "sim/model/loss.h"
#include "sim/model/parameters.h"
#include "sim/model/resident_weights.h"
#include "tests/support/compare.h"
#include "tests/support/doctest.h"
#include "tests/support/recorded_stack.h"
#include "tests/support/stack_table.h"
#include "tests/support/threads.h"
#include "tests/support/tolerances.h"

namespace periscope::testing {
namespace {

/// Signals, gradients and squared gradients of a forward and a backward pass.
struct PassRecord {
  std::map<std::string, std::vector<double>> forward, backward;
  std::map<std::string, double> squares;
};

class GradientStore final : public GradientRecorder {
 public:
  GradientStore(const Backend& ops, PassRecord& record) : ops_(ops), record_(record) {}
  void on_gradient(const ParameterId& parameter, const ParameterGradient& gradient) override {
    const std::string name = name_of(parameter);
    record_.backward[name] = ops_.to_host(gradient.whole());
    for (const double s : ops_.to_host(gradient.squares())) record_.squares[name] += s;
  }

 private:
  const Backend& ops_;
  PassRecord& record_;
};

struct Problem {
  StackSpec spec;
  std::vector<int> ids;  ///< token ids if the input is tokens
  std::vector<int> labels;
  int sequences = 1;
};

PassRecord pass(const Backend& ops, const WeightSource& weights, const Problem& problem, DType dtype,
                std::size_t budget = StackTape().budget) {
  const StackContext context{
      .ops = ops, .model = problem.spec.model, .weights = weights, .sequences = problem.sequences};
  PassRecord record;
  SignalStore forward(Pass::forward);
  SignalStore backward(Pass::backward);
  GradientStore gradients(ops, record);
  const Hooks hooks{.recorders = {&forward, &backward}, .gradients = {&gradients}};
  const Tensor input = problem.ids.empty() ? gaussian_input(ops, problem.spec, dtype, 1)
                                           : embedding_forward(context, problem.ids, hooks);
  StackTape tape;
  tape.budget = budget;
  const Tensor output = stack_forward(context, input, hooks, &tape).output;
  const Loss loss = loss_of(context, output, problem.labels, hooks);
  const Tensor dinput = stack_backward(tape, loss.gradient);
  if (!problem.ids.empty()) embedding_backward(context, problem.ids, dinput, hooks);
  const auto named = [&](const SignalStore& store, auto& to) {
    for (const auto& [place, x] : store.all()) {
      to["sublayer " + std::to_string(place.first) + " " + std::string(name_of(place.second))] = ops.to_host(x);
    }
  };
  named(forward, record.forward);
  named(backward, record.backward);
  return record;
}

std::vector<int> some_labels(int tokens, int classes) {
  std::vector<int> labels;
  for (int t = 0; t < tokens; ++t) labels.push_back(t % 4 == 3 ? no_label : (5 * t + 1) % classes);
  return labels;
}

Problem problem_of(const StackSpec& spec) {
  validate(spec);
  return {.spec = spec,
          .ids = {},
          .labels = some_labels(spec.input.tokens, spec.model.unembedding ? spec.model.vocab : spec.model.width)};
}

double largest(const std::vector<double>& x) {
  double most = 0.0;
  for (const double v : x) most = std::max(most, std::abs(v));
  return most;
}

/// Compares signals and gradients with a dense stack of the completed matrices. Rounding errors and the neglected part
/// of dependent rows grow with depth. Gradients through attention scores cancel if all tokens are equal, so the
/// tolerance includes a few roundings of the largest gradient.
void check_completed(const std::string& what, const Problem& problem, bool dependent = false) {
  for (const Target& target : targets_and_truth()) {
    const Backend& ops = *target.backend;
    const ModelSpec& m = problem.spec.model;
    const MatrixFreeWeights weights(ops, problem.spec, target.dtype, 3, StoreFactors::yes);
    const PassRecord actual = pass(ops, weights, problem, target.dtype);
    const PassRecord expected = pass(ops, ResidentWeights(problem.spec, weights), problem, target.dtype);
    const double n = std::max({m.width, m.query_width(0), m.mlp_width, m.vocab});
    const double base_error = stack_error(0, n, target.dtype) + (dependent ? dependence_tolerance(target.dtype) : 0.0);
    const std::string where = target.name() + " " + what + ", ";
    REQUIRE(actual.forward.size() == expected.forward.size());
    REQUIRE(actual.backward.size() == expected.backward.size());
    for (const auto& [name, x] : expected.forward) {
      check_close_to_scale(where + name, actual.forward.at(name), x, base_error * std::pow(2.0, m.sublayers()));
    }
    double most = 0.0;
    for (const auto& [name, x] : expected.backward) most = std::max(most, largest(x));
    const double relative = base_error * std::pow(2.0, 2 * m.sublayers());
    const double few_roundings = 16.0 * unit_roundoff(target.dtype) * most;
    for (const auto& [name, x] : expected.backward) {
      check_close(where + "gradient of " + name, actual.backward.at(name), x, relative * largest(x) + few_roundings);
    }
    for (const auto& [name, square] : expected.squares) {
      const auto entries = static_cast<double>(expected.backward.at(name).size());
      check_close(where + "squared gradient of " + name, std::vector{actual.squares.at(name)}, std::vector{square},
                  2.0 * relative * square + entries * few_roundings * few_roundings);
    }
  }
}

TEST_CASE("matrix-free: every kind of stack equals a dense stack of the completed matrices") {
  for (const NamedStack& stack : stacks_of_every_kind()) check_completed(stack.name, problem_of(stack.spec));
  StackSpec spec = placed(tiny_stack(), "pre");
  spec.model.unembedding = false;
  check_completed("no unembedding", problem_of(spec));
}

TEST_CASE("matrix-free: stacks with singular Gram matrices equal dense stacks of the completed matrices") {
  StackSpec spec = placed(tiny_stack(), "peri");
  spec.input.kind = InputKind::tokens;
  Problem repeated = problem_of(spec);
  repeated.ids = {3, 3, 1, 3, 1};
  check_completed("repeated tokens", repeated, true);
  spec.model.causal = false;
  spec.model.rope = false;
  Problem equal = problem_of(spec);
  equal.ids = {2, 2, 2, 2, 2};
  check_completed("equal tokens that stay equal", equal, true);
  spec = placed(tiny_stack(), "post");
  spec.input.tokens = 1;
  Problem one = problem_of(spec);
  check_completed("one token", one);
  spec.input.tokens = 40;
  check_completed("more tokens than features", problem_of(spec), true);
  Problem several = problem_of(spec);
  several.sequences = 4;
  check_completed("several sequences", several, true);
}

TEST_CASE("matrix-free: the bits do not depend on the number of threads or the recomputation budget") {
  StackSpec spec = placed(tiny_stack(), "peri");
  spec.model.width = 48;
  spec.model.mlp_width = 200;
  spec.input.tokens = 70;
  const Problem problem = problem_of(spec);
  for (const Target& target : targets()) {
    const MatrixFreeWeights weights(*target.backend, spec, target.dtype, 3);
    std::vector<PassRecord> all;
    for (const int threads : {1, 2, 7}) {
      const Threads set(threads);
      for (const std::size_t budget : {std::size_t{0}, StackTape().budget}) {
        all.push_back(pass(*target.backend, weights, problem, target.dtype, budget));
      }
    }
    for (const PassRecord& other : all) {
      for (const auto& [name, x] : all.front().forward) check_same_bits(name, other.forward.at(name), x);
      for (const auto& [name, x] : all.front().backward) check_same_bits(name, other.backward.at(name), x);
      CHECK(other.squares == all.front().squares);
    }
  }
}

TEST_CASE("matrix-free: dense() needs stored factors, and a second backward pass throws") {
  const StackSpec spec = tiny_stack();
  const MatrixFreeWeights weights(truth(), spec, DType::f64, 4);
  CHECK_THROWS_AS(static_cast<void>(weights.fetch(0).matrix(Weight::q).map->dense()), std::logic_error);
  const Tensor x = truth().constant(1, 12, DType::f64, 1.0);
  const auto reading = weights.fetch(0).matrix(Weight::k).map->product(truth(), x, Save::for_backward);
  const Tensor y = reading->output();
  static_cast<void>(reading->backward(y));
  CHECK_THROWS_AS(static_cast<void>(reading->backward(y)), std::logic_error);
}

}  // namespace
}  // namespace periscope::testing
