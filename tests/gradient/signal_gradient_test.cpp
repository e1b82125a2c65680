#include <string>
#include <utility>

#include "sim/measure/signal_store.h"
#include "tests/gradient/loss_problem.h"
#include "tests/support/doctest.h"
#include "tests/support/finite_difference.h"
#include "tests/support/recorded_stack.h"

/// Gradients of every signal of a stack, compared with finite differences. A replacer changes one signal in the forward
/// pass. With two streams, the other stream is unchanged.
namespace periscope::testing {
namespace {

using Values = std::vector<double>;
using Place = std::pair<int, Signal>;

/// Replaces one signal by given values.
class Mover final : public SignalReplacer {
 public:
  Mover(Place place, std::span<const double> values) : place_(std::move(place)), values_(values) {}
  [[nodiscard]] Tensor replaced(const Emission& at, const Tensor& x) override {
    if (at.pass != Pass::forward || Place(at.sublayer, at.signal) != place_) return x;
    ++times;
    return truth().from_host(x.rows(), x.cols(), DType::f64, values_);
  }
  int times = 0;

 private:
  Place place_;
  std::span<const double> values_;
};

/// Returns every signal of a forward pass, including the head.
std::map<Place, Values> signals_of(const LossProblem& problem) {
  SignalStore store(Pass::forward);
  (void)loss_at(problem, {.recorders = {&store}});
  std::map<Place, Values> signals;
  for (const auto& [place, x] : store.all()) signals[place] = truth().to_host(x);
  return signals;
}

void check_signals(const std::string& what, const StackSpec& spec) {
  const LossProblem problem = loss_problem(spec, 6);
  const Gradients g = gradients_of(truth_target(), problem);
  const std::map<Place, Values> signals = signals_of(problem);
  for (const auto& [place, values] : signals) {
    // Only the largest scores are recorded, and at depth 0 both streams are one tensor.
    if (place.second == Signal::scores || place == Place(-1, Signal::r_out)) continue;
    const std::string name =
        what + ", sublayer " + std::to_string(place.first) + " " + std::string(name_of(place.second));
    CAPTURE(name);
    REQUIRE(g.site.contains(place));
    check_gradient(name,
                   {.loss =
                        [&, at = place](std::span<const double> moved) {
                          Mover mover(at, moved);
                          const double loss = loss_at(problem, {.replacers = {&mover}});
                          CHECK(mover.times == 1);
                          return loss;
                        },
                    .point = values,
                    .gradient = g.site.at(place),
                    .loss_error = loss_rounding(problem, g.loss),
                    .step = step_for(spec.model)},
                   1, 2);
  }
  for (const auto& [place, gradient] : g.site) CHECK(signals.contains(place));
}

TEST_CASE("gradients of every signal match finite differences in every placement" * doctest::test_suite("slow")) {
  for (const Placement& placement : placement_table()) {
    StackSpec spec = placed(tiny_stack(), placement.name);
    if (placement.wiring == Wiring::hyper) continue;  // the streams are parts of one signal
    if (placement.name == "mix") spec.model.layers = 4;
    spec.model.embedding_norm = true;
    check_signals(std::string(placement.name), spec);
  }
}

TEST_CASE("gradients of every signal match finite differences with QK-norm, embedding width, head and soft caps" *
          doctest::test_suite("slow")) {
  StackSpec spec = placed(tiny_stack(), "peri");
  spec.model.layers = 1;
  spec.model.norm = NormKind::layer;
  spec.model.mlp = MlpKind::gelu;
  spec.model.qk_norm = QkNorm::head;
  spec.input.kind = InputKind::tokens;
  spec.model.embedding = {.scale = 1.5, .width = 8, .positions = 9, .position_offset = 1, .token_types = 2};
  spec.model.head = {.transform = true, .soft_cap = 3.0};
  spec.model.attention = {{.scores = {.scale = 0.3, .soft_cap = 2.0, .window = 3}}};
  check_signals("checkpoint", spec);
}

TEST_CASE("gradients of every signal match finite differences with norms and gates inside modules" *
          doctest::test_suite("slow")) {
  for (const AttentionGate gate : {AttentionGate::head, AttentionGate::channel}) {
    StackSpec spec = placed(tiny_stack(), "peri");
    spec.model.layers = 1;
    spec.model.v_norm = true;
    spec.model.inner_norm = InnerNorm::both;
    spec.model.attention_gate = gate;
    check_signals("gate per " + std::string(attention_gate_names[static_cast<std::size_t>(gate)]), spec);
    const auto signals = signals_of(loss_problem(spec, 6));
    for (const Signal s : {Signal::v_projected, Signal::attention_gate, Signal::gated_mixed, Signal::inner}) {
      CHECK(signals.contains({0, s}));
    }
    CHECK(signals.contains({1, Signal::inner}));
  }
}

TEST_CASE("gradients of every signal match finite differences in two scaled streams" * doctest::test_suite("slow")) {
  StackSpec spec = placed(tiny_stack(), "residual-dual");
  spec.model.placement.rule = nullptr;
  spec.model.placement.custom =
      std::make_shared<const FreeForm>(FreeForm{{.norm_a = true, .norm_c = true, .alpha = 0.7, .beta = 1.3}});
  check_signals("two streams with scales", spec);
}

TEST_CASE("ResiDual: the gradient at depth 0 is the sum over both streams") {
  const StackSpec spec = placed(tiny_stack(), "residual-dual");
  const Gradients g = gradients_of(truth_target(), loss_problem(spec, 6));
  const Values& post = g.site.at({0, Signal::x_in});
  const Values& second = g.site.at({0, Signal::r_out});
  for (std::size_t i = 0; i < post.size(); ++i) CHECK(g.depth_zero[i] == post[i] + second[i]);
  for (int l = 1; l < spec.model.sublayers(); ++l) {
    CHECK(g.site.at({l, Signal::r_out}) == second);
    CHECK(g.site.at({l, Signal::x_in}) == g.site.at({l - 1, Signal::x_out}));
  }
  CHECK(g.input == g.depth_zero);  // no embedding norm
}

}  // namespace
}  // namespace periscope::testing
