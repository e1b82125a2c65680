#include <string>

#include "sim/model/parameters.h"
#include "tests/gradient/loss_problem.h"
#include "tests/support/doctest.h"
#include "tests/support/finite_difference.h"
#include "tests/support/recorded_stack.h"
#include "tests/support/stack_table.h"

/// Gradients of the loss of whole stacks compared with finite differences, on the reference.
namespace periscope::testing {
namespace {

/// Returns the loss as a function of `numbers`, which is part of the problem.
Differentiable loss_by(LossProblem& problem, std::vector<double>& numbers, const std::vector<double>& gradient,
                       double loss) {
  return {.loss =
              [&](std::span<const double> values) {
                const std::vector<double> before = numbers;
                numbers.assign(values.begin(), values.end());
                const double moved = loss_at(problem);
                numbers = before;
                return moved;
              },
          .point = numbers,
          .gradient = gradient,
          .loss_error = loss_rounding(problem, loss),
          .step = step_for(problem.spec.model)};
}

void check_problem(const std::string& what, LossProblem problem, int entries = 2) {
  const Gradients g = gradients_of(truth_target(), problem);
  REQUIRE(g.parameters.size() == problem.parameters.size());
  for (auto& [name, numbers] : problem.parameters) {
    check_gradient(what + ", " + name, loss_by(problem, numbers, g.parameters.at(name), g.loss), 1, entries);
  }
  if (problem.ids.empty())
    check_gradient(what + ", input", loss_by(problem, problem.input, g.input, g.loss), 1, entries);
}

/// Checks the gradients of the input and of every parameter along one direction and at `entries` entries (all if 0).
void check_stack(const std::string& what, const StackSpec& spec, int entries = 2, int sequences = 1) {
  validate(spec);
  check_problem(what, loss_problem(spec, 5, sequences), entries);
}

TEST_CASE("gradients of every kind of stack match finite differences" * doctest::test_suite("slow")) {
  for (const NamedStack& stack : stacks_of_every_kind()) check_stack(stack.name, stack.spec);
}

TEST_CASE("gradients of small stacks match finite differences in every entry") {
  for (const char* placement : {"peri", "residual-dual"}) {
    StackSpec spec = placed(tiny_stack(), placement);
    spec.model.layers = 1;
    spec.model.v_norm = true;
    spec.model.inner_norm = InnerNorm::both;
    spec.model.attention_gate = AttentionGate::channel;
    spec.model.norm = NormKind::layer;
    spec.model.qk_norm = QkNorm::head;
    check_stack(placement, spec, 0);
  }
}

TEST_CASE("gradients match finite differences without unembedding, with token input and with several sequences") {
  for (const char* placement : {"pre", "post", "peri", "residual-dual"}) {
    StackSpec spec = placed(tiny_stack(), placement);
    spec.model.unembedding = false;
    check_stack(std::string(placement) + ", no unembedding", spec);
    spec.model.unembedding = true;
    spec.input.kind = InputKind::tokens;
    spec.model.embedding_norm = true;
    check_stack(std::string(placement) + ", tokens", spec);
    check_stack(std::string(placement) + ", three sequences", spec, 2, 3);
  }
}

TEST_CASE("gradients match finite differences with score scale, soft cap, window and RoPE frequencies per layer") {
  StackSpec spec = placed(tiny_stack(), "pre");
  spec.model.attention.assign(static_cast<std::size_t>(spec.model.layers), {});
  spec.model.attention.front() = {.scores = {.scale = 0.7, .soft_cap = 0.5, .window = 2},
                                  .rope_frequencies = rope_frequencies(spec.model.head_dim, 10.0)};
  check_stack("score rules", spec);
  check_stack("score rules, three sequences", spec, 2, 3);
  spec.model.causal = false;
  spec.model.attention.front().scores.window = 0;
  check_stack("score rules, bidirectional", spec);
}

TEST_CASE("gradients match finite differences with biases and all parts of embedding and head") {
  for (const char* placement : {"post", "peri"}) {
    StackSpec spec = placed(tiny_stack(), placement);
    spec.input.kind = InputKind::tokens;
    spec.model.norm = NormKind::layer;
    spec.model.embedding_norm = true;
    spec.model.embedding = {
        .scale = 1.7, .width = 5, .positions = spec.input.tokens + 3, .position_offset = 2, .token_types = 2};
    spec.model.head = {.transform = true, .soft_cap = 1.5};
    LossProblem problem = loss_problem(spec, 5, 2);
    add_biases(problem, 5);
    problem.labels[1] = problem.labels.back() = no_label;
    check_problem(std::string(placement) + ", all parts", problem);
  }
}

}  // namespace
}  // namespace periscope::testing
