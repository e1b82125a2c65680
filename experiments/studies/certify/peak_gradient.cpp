#include "experiments/studies/certify/peak_gradient.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "sim/measure/signal_keeper.h"
#include "sim/model/loss.h"
#include "sim/model/stack.h"

namespace periscope::certify {
namespace {

/// The token where a feature is largest, and a tensor like x that is ±1 there, so that its product with x is |value|.
struct Peak {
  double value = -1.0;
  Tensor seed;
};

Peak peak_of(const Backend& ops, const Tensor& x, Tensor::Index channel) {
  const std::vector<double> values = ops.to_host(x);
  Peak peak;
  std::size_t at = 0;
  for (auto i = static_cast<std::size_t>(channel); i < values.size(); i += static_cast<std::size_t>(x.cols())) {
    if (std::abs(values[i]) <= peak.value) continue;
    peak.value = std::abs(values[i]);
    at = i;
  }
  std::vector<double> seed(values.size(), 0.0);
  seed[at] = values[at] < 0.0 ? -1.0 : 1.0;
  peak.seed = ops.from_host(x.rows(), x.cols(), x.dtype(), seed);
  return peak;
}

/// Begins the backward pass at one signal.
class Seed final : public SignalReplacer {
 public:
  Seed(int sublayer, Signal signal) : sublayer_(sublayer), signal_(signal) {}
  [[nodiscard]] Tensor replaced(const Emission& at, const Tensor& x) override {
    const bool here = at.pass == Pass::backward && at.sublayer == sublayer_ && at.signal == signal_;
    return here ? gradient : x;
  }
  Tensor gradient;

 private:
  int sublayer_;
  Signal signal_;
};

/// The soft cap is monotone: climbing the scores climbs the logits too, and further where those are flat.
Signal climbed(const ModelSpec& m, Signal signal) {
  return signal == Signal::logits && m.head.soft_cap > 0.0 ? Signal::head_scores : signal;
}

/// The step in which a signal arises; −1 for what comes before the first.
int step_of(const ModelSpec& m, const SignalPlace& place) {
  return place.sublayer < 0 || is_of_step(place.signal) ? place.sublayer : m.step_with(place.sublayer);
}

}  // namespace

bool can_climb(Signal signal) {
  using enum Signal;
  constexpr std::array all{A_out,       q_projected, k_projected, v_projected, v,      attention_gate,
                           gated_mixed, inner,       gate,        up,          hidden, f_out,
                           B_out,       sum,         x_out,       output,      logits, head_scores};
  return std::ranges::find(all, signal) != all.end();
}

PeakGradient peak_gradient_at(const StackContext& c, const Tensor& input, const SignalPlace& place, bool back) {
  const int end = c.model.sublayers();
  SignalKeeper seen(Pass::forward);
  Seed seed(place.sublayer, climbed(c.model, place.signal));
  const Hooks hooks{.recorders = {&seen}, .replacers = {&seed}};
  StackTape tape;
  tape.budget = std::numeric_limits<std::size_t>::max();
  StackTape* kept = back ? &tape : nullptr;
  const bool of_head = place.sublayer == end && !is_of_step(place.signal);
  const int steps = of_head ? c.model.steps() : step_of(c.model, place) + 1;
  Streams top = pass_steps(c, enter_stack(c, input, hooks, kept), 0, steps, hooks, kept);
  SublayerPass head(c, hooks, end, Pass::forward, Keep::for_backward);
  if (of_head) top.front() = head_forward(head, leave_stack(c, top, hooks, kept));
  const Peak peak = peak_of(c.ops, seen.at(place.sublayer, place.signal), place.channel);
  if (!back) return {peak.value, {}};
  seed.gradient = peak.seed;
  Streams gradients;
  for (const Tensor& x : top) {
    gradients.push_back(x.empty() ? Tensor{} : c.ops.constant(x.rows(), x.cols(), x.dtype(), 0.0));
  }
  if (of_head) gradients = back_into_stack(tape, head_backward(head, gradients.front()));
  return {peak.value, back_to_input(tape, back_through_steps(tape, gradients))};
}

}  // namespace periscope::certify
