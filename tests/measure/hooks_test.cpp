#include "sim/model/hooks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include "tests/support/doctest.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "sim/measure/signal_store.h"
#include "sim/model/input.h"
#include "sim/model/loss.h"
#include "sim/model/parameters.h"
#include "tests/support/recorded_stack.h"

/// Hooks of a pass: every hook receives each signal once per pass, and replacements affect the rest of the pass.
namespace periscope::testing {
namespace {

using Calls = std::vector<std::string>;

class Logger final : public SignalRecorder, public GradientRecorder {
 public:
  void on_signal(const Emission& at, const Tensor& x) override {
    calls.push_back(fmt::format("{} {} {} {}", static_cast<int>(at.pass), at.sublayer, name_of(at.signal),
                                truth().to_host(x).front()));
  }
  void on_gradient(const ParameterId& parameter, const ParameterGradient& gradient) override {
    calls.push_back(fmt::format("{} {} {}", name_of(parameter), truth().to_host(gradient.whole()).front(),
                                fmt::join(truth().to_host(gradient.squares()), " ")));
  }
  Calls calls;
};

/// Returns every signal unchanged and logs the passes in which it was called.
class PassThrough final : public SignalReplacer {
 public:
  [[nodiscard]] Tensor replaced(const Emission& at, const Tensor& x) override {
    calls[{at.sublayer, at.signal}].push_back(at.pass);
    return x;
  }
  std::map<std::pair<int, Signal>, std::vector<Pass>> calls;
};

/// A stack with all optional parts: embedding width, positions, LayerNorm biases, QK-norm, head transform.
StackSpec whole_stack(std::string_view placement) {
  StackSpec spec = placed(tiny_stack(), placement);
  spec.model.norm = NormKind::layer;
  spec.model.qk_norm = QkNorm::head;
  spec.model.embedding_norm = true;
  spec.input.kind = InputKind::tokens;
  spec.model.embedding = {.scale = 1.5, .width = 8, .positions = 9, .token_types = 2};
  spec.model.head = {.transform = true, .soft_cap = 3.0};
  return spec;
}

void walk(const StackSpec& spec, const Hooks& hooks, std::size_t budget) {
  const GeneratedWeights weights(truth(), spec, DType::f64, 1);
  const StackContext context{truth(), spec.model, weights};
  const std::vector<int> ids{3, 1, 4, 1, 5};
  const std::vector<int> labels{1, 4, 1, 5, 9};
  StackTape tape;
  tape.budget = budget;
  const Tensor output = stack_forward(context, embedding_forward(context, ids, hooks), hooks, &tape).output;
  const Tensor dinput = stack_backward(tape, loss_of(context, output, labels, hooks).gradient);
  embedding_backward(context, ids, dinput, hooks);
}

TEST_CASE("recorders receive every signal and gradient once, in the same order, for any budget and other recorders") {
  for (const std::string_view placement : {"peri", "residual-dual"}) {
    Logger alone, first, second, recomputed;
    PassThrough pass_through;
    const StackSpec spec = whole_stack(placement);
    const std::size_t plenty = std::size_t{1} << 30U;
    walk(spec, {.recorders = {&alone}, .gradients = {&alone}}, plenty);
    walk(spec, {.recorders = {&first, &second}, .gradients = {&first, &second}, .replacers = {&pass_through}}, plenty);
    walk(spec, {.recorders = {&recomputed}, .gradients = {&recomputed}}, 0);
    CHECK(alone.calls.size() > 100);
    Logger gradients;
    walk(spec, {.gradients = {&gradients}}, 0);
    std::size_t parameters = matrices_of(spec).size();
    for (const ParameterId& gain : gains_of(spec.model)) {
      parameters += gain.weight == Weight::q_norm || gain.weight == Weight::k_norm ? 1 : 2;
    }
    CHECK(gradients.calls.size() == parameters);
    for (const Logger* other : {&first, &second, &recomputed}) {
      REQUIRE(other->calls.size() == alone.calls.size());
      for (std::size_t i = 0; i < alone.calls.size(); ++i) CHECK(other->calls[i] == alone.calls[i]);
    }
    // No signal or parameter occurs twice.
    Calls sorted = alone.calls;
    std::ranges::sort(sorted);
    CHECK(std::ranges::adjacent_find(sorted) == sorted.end());
  }
}

TEST_CASE("replacers are called in the forward pass, in recomputation and in the backward pass") {
  PassThrough pass_through;
  walk(whole_stack("peri"), {.replacers = {&pass_through}}, 0);
  for (const Signal signal : {Signal::x_in, Signal::A_out, Signal::q, Signal::hidden, Signal::f_out, Signal::x_out}) {
    const int sublayer = signal == Signal::hidden ? 1 : 2;
    CAPTURE(std::string(name_of(signal)));
    CHECK(pass_through.calls.at({sublayer, signal}) ==
          std::vector<Pass>{Pass::forward, Pass::recomputation, Pass::backward});
  }
}

TEST_CASE("a replaced signal is used by the rest of the pass, forward and backward") {
  class Doubled final : public SignalReplacer {
   public:
    Doubled(Signal signal, Pass pass) : signal_(signal), pass_(pass) {}
    [[nodiscard]] Tensor replaced(const Emission& at, const Tensor& x) override {
      return at.pass == pass_ && at.signal == signal_ && at.sublayer == 1 ? truth().scale(2.0, x) : x;
    }

   private:
    Signal signal_;
    Pass pass_;
  };
  const StackSpec spec = placed(tiny_stack(), "none");
  const GeneratedWeights weights(truth(), spec, DType::f64, 1);
  const StackContext context{truth(), spec.model, weights};
  const Tensor input = gaussian_input(truth(), spec, DType::f64, 1);
  const std::vector<int> labels{1, 2, 3, 4, 5};
  const auto signals = [&](std::vector<SignalReplacer*> replacers, Pass pass) {
    SignalStore store(pass);
    backpropagate(context, input, labels, {.recorders = {&store}, .replacers = std::move(replacers)});
    return store.all();
  };
  for (const auto& [pass, after] :
       {std::pair(Pass::forward, Signal::B_out), std::pair(Pass::backward, Signal::hidden)}) {
    Doubled doubled(Signal::f_out, pass);
    const auto plain = signals({}, pass);
    const auto changed = signals({&doubled}, pass);
    for (const Signal signal : {Signal::f_out, after}) {
      CHECK(truth().to_host(changed.at({1, signal})) == truth().to_host(truth().scale(2.0, plain.at({1, signal}))));
    }
  }
}

}  // namespace
}  // namespace periscope::testing
