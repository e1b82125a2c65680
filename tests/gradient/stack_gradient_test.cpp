#include <string>

#include "sim/model/parameters.h"
#include "tests/gradient/loss_problem.h"
#include "tests/support/doctest.h"
#include "tests/support/finite_difference.h"
#include "tests/support/recorded_stack.h"

/// The gradient of a whole stack's loss by every one of its numbers against finite differences, on the reference.
namespace periscope::testing {
namespace {

/// The loss as a function of `numbers`, a part of the problem.
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

/// Checks every parameter and the input along one direction and at `entries` entries each (0: all).
void check_stack(const std::string& what, const StackSpec& spec, int entries = 2, int sequences = 1) {
  validate(spec);
  check_problem(what, loss_problem(spec, 5, sequences), entries);
}

TEST_CASE("every placement of T1's table, with its own final norm and with the other choice") {
  for (const Placement& placement : placement_table()) {
    StackSpec spec = placed(tiny_stack(), placement.name);
    if (placement.name == "mix") spec.model.layers = 4;  // one Post layer, three Pre
    check_stack(std::string(placement.name), spec);
    spec.model.final_norm = !spec.model.final_norm;
    check_stack(std::string(placement.name) + ", final norm turned", spec);
  }
}

TEST_CASE("every entry of every parameter of small stacks") {
  for (const char* placement : {"peri", "residual-dual"}) {
    StackSpec spec = placed(tiny_stack(), placement);
    spec.model.layers = 1;
    spec.model.norm = NormKind::layer;
    spec.model.qk_norm = QkNorm::head;
    check_stack(placement, spec, 0);
  }
}

TEST_CASE("every free-form placement: A, B, C on and off, with scales") {
  for (int norms = 0; norms < 8; ++norms) {
    StackSpec spec = tiny_stack();
    spec.model.placement = custom_placement({.norm_a = (norms & 1) != 0,
                                             .norm_b = (norms & 2) != 0,
                                             .norm_c = (norms & 4) != 0,
                                             .alpha = 0.7,
                                             .beta = -1.3});
    check_stack("free form " + std::to_string(norms), spec);
  }
}

TEST_CASE("every MLP") {
  for (std::size_t kind = 0; kind < mlp_kind_names.size(); ++kind) {
    StackSpec spec = placed(tiny_stack(), "pre");
    spec.model.mlp = static_cast<MlpKind>(kind);
    check_stack(std::string(mlp_kind_names[kind]), spec);
  }
}

TEST_CASE("every norm of model.norm, with and without an embedding norm, with eps that is felt") {
  for (std::size_t number = 0; number < norm_kind_names.size(); ++number) {
    const auto kind = static_cast<NormKind>(number);
    for (const bool embedding_norm : {false, true}) {
      for (const char* placement : {"peri", "a+c", "residual-dual"}) {
        StackSpec spec = placed(tiny_stack(), placement);
        spec.model.norm = kind;
        spec.model.norm_eps = embedding_norm ? 0.3 : 0.0;
        spec.model.embedding_norm = embedding_norm;
        check_stack(std::string(norm_kind_names[static_cast<std::size_t>(kind)]) + " " + placement, spec);
      }
    }
  }
}

TEST_CASE("attention: QK-norm, RoPE and mask in every combination, for equal, grouped and single heads") {
  for (const QkNorm qk_norm : {QkNorm::none, QkNorm::head, QkNorm::full}) {
    for (const bool rope : {false, true}) {
      for (const bool causal : {false, true}) {
        for (const int kv_heads : {1, 2, 4}) {
          StackSpec spec = tiny_stack();
          spec.model.layers = 1;
          spec.model.qk_norm = qk_norm;
          spec.model.rope = rope;
          spec.model.causal = causal;
          spec.model.kv_heads = kv_heads;
          check_stack("qk_norm " + std::string(qk_norm_names[static_cast<std::size_t>(qk_norm)]) +
                          (rope ? " rope" : "") + (causal ? " causal" : "") + " kv " + std::to_string(kv_heads),
                      spec);
        }
      }
    }
  }
}

TEST_CASE("norms and gates inside modules, alone and together, every entry of their parameters") {
  const auto one_layer = [](const char* placement) {
    StackSpec spec = placed(tiny_stack(), placement);
    spec.model.layers = 1;
    spec.model.norm_eps = 0.05;
    return spec;
  };
  StackSpec spec = one_layer("pre");
  spec.model.v_norm = true;
  check_stack("V-norm", spec, 0);
  for (const InnerNorm inner : {InnerNorm::o, InnerNorm::down, InnerNorm::both}) {
    spec = one_layer("b-only");
    spec.model.inner_norm = inner;
    check_stack("inner norm " + std::string(inner_norm_names[static_cast<std::size_t>(inner)]), spec, 0);
  }
  for (const AttentionGate gate : {AttentionGate::head, AttentionGate::channel}) {
    const std::string name = "gate per " + std::string(attention_gate_names[static_cast<std::size_t>(gate)]);
    spec = one_layer("pre");
    spec.model.attention_gate = gate;
    check_stack(name, spec, 0);
    spec = placed(tiny_stack(), "residual-dual");
    spec.model.norm = NormKind::layer;
    spec.model.mlp = MlpKind::gelu;
    spec.model.qk_norm = QkNorm::full;
    spec.model.v_norm = true;
    spec.model.inner_norm = InnerNorm::both;
    spec.model.attention_gate = gate;
    check_stack(name + " and all norms", spec);
    spec.input.kind = InputKind::tokens;
    check_stack(name + " and all norms, three sequences", spec, 2, 3);
  }
}

TEST_CASE("no unembedding, token input, several sequences") {
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

TEST_CASE("what checkpoints have: score scale, soft cap, window and RoPE frequencies of each layer") {
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

TEST_CASE("what checkpoints have: biases, an embedding with all its parts, a head with all its parts") {
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

TEST_CASE("a planted wrong gradient is caught in every parameter") {
  StackSpec spec = placed(tiny_stack(), "peri");
  spec.model.v_norm = true;
  spec.model.inner_norm = InnerNorm::both;
  spec.model.attention_gate = AttentionGate::head;
  LossProblem problem = loss_problem(spec, 5);
  const Gradients g = gradients_of(truth_target(), problem);
  for (auto& [name, numbers] : problem.parameters) {
    const std::string parameter = name;
    CAPTURE(parameter);
    std::vector<double> wrong = g.parameters.at(name);
    for (double& x : wrong) x *= 1.0 + 1e-4;
    CHECK(check_directions(loss_by(problem, numbers, wrong, g.loss), 1).worst > 1.0);
    wrong = g.parameters.at(name);
    wrong.back() += 1e-5;
    CHECK(check_entries(loss_by(problem, numbers, wrong, g.loss), 0).worst > 1.0);
  }
}

}  // namespace
}  // namespace periscope::testing
