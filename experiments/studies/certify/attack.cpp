#include "experiments/studies/certify/attack.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "sim/base/parallel_for.h"
#include "sim/measure/signal_store.h"
#include "sim/model/input.h"
#include "sim/model/loss.h"
#include "sim/model/stack.h"
#include "sim/random/philox.h"

namespace periscope::certify {
namespace {

/// Returns s if the signal is emitted as s(x + B), the stream after a layer's factor s, and certified as x + B; else 1.
double emitted_factor(const ModelSpec& m, Signal signal, int sublayer) {
  return signal == Signal::sum && !m.step(sublayer).norm_c.front() ? m.output_scale(sublayer) : 1.0;
}

/// Returns false for a signal that is the same tensor as the preceding signal: a certificate bounds each tensor once.
bool is_distinct(const ModelSpec& m, const Emission& at) {
  const bool in_stack = at.sublayer >= 0 && at.sublayer < (is_of_step(at.signal) ? m.steps() : m.sublayers());
  const Branch branch = in_stack && !is_of_step(at.signal) ? m.branch(at.sublayer) : Branch{};
  switch (at.signal) {
    case Signal::A_out: return branch.norm_a || branch.input_gain != 1.0;
    case Signal::q_projected:
    case Signal::k_projected: return m.qk_norm_at(ModelSpec::layer_of(at.sublayer)) != QkNorm::none;
    case Signal::B_out: return branch.norm_b;
    case Signal::sum:
      return in_stack && (m.step(at.sublayer).norm_c[static_cast<std::size_t>(at.part)] ||
                          emitted_factor(m, at.signal, at.sublayer) != 1.0);
    case Signal::r_out: return at.sublayer >= 0;
    case Signal::head_scores: return m.head.changes_scores();
    case Signal::logits: return m.unembedding;
    default: return theory::is_certified(at.signal);
  }
}

class MaximaRecorder final : public SignalRecorder {
 public:
  MaximaRecorder(const StackContext& context, SignalMaxima& maxima) : c_(context), maxima_(maxima) {}

  void on_signal(const Emission& at, const Tensor& x) override {
    if (at.pass != Pass::forward || !is_distinct(c_.model, at)) return;
    const double factor = emitted_factor(c_.model, at.signal, at.sublayer);
    maxima_.raise_to(at.signal, at.sublayer, c_.ops.column_maxima(factor == 1.0 ? x : c_.ops.scale(1.0 / factor, x)));
  }

 private:
  const StackContext& c_;
  SignalMaxima& maxima_;
};

/// Returns the largest |value| of a feature over the tokens, and its gradient with respect to x: ±1 at that token.
PeakGradient peak_of(const Backend& ops, const Tensor& x, Tensor::Index channel) {
  const std::vector<double> values = ops.to_host(x);
  PeakGradient peak{.value = -1.0, .gradient = {}};
  std::size_t at = 0;
  for (auto i = static_cast<std::size_t>(channel); i < values.size(); i += static_cast<std::size_t>(x.cols())) {
    if (std::abs(values[i]) <= peak.value) continue;
    peak.value = std::abs(values[i]);
    at = i;
  }
  std::vector<double> seed(values.size(), 0.0);
  seed[at] = values[at] < 0.0 ? -1.0 : 1.0;
  peak.gradient = ops.from_host(x.rows(), x.cols(), x.dtype(), seed);
  return peak;
}

/// Starts the backward pass at one signal.
class GradientSeed final : public SignalReplacer {
 public:
  GradientSeed(int sublayer, Signal signal) : sublayer_(sublayer), signal_(signal) {}
  [[nodiscard]] Tensor replaced(const Emission& at, const Tensor& x) override {
    const bool here = at.pass == Pass::backward && at.sublayer == sublayer_ && at.signal == signal_;
    return here ? gradient : x;
  }
  Tensor gradient;

 private:
  int sublayer_;
  Signal signal_;
};

double norm_of(const Backend& ops, const Tensor& x) {
  double sum = 0.0;
  for (const double s : ops.row_dots(x, x)) sum += s;
  return std::sqrt(sum);
}

/// Ascends from a random start along the normalized gradient. The step grows if the value increases, else it is halved.
AttackResult climb(const StackContext& c, const SignalPlace& place, double largest, const AttackOptions& o,
                   std::uint32_t restart) {
  const double spread = std::isinf(largest) ? 1.0 : largest;
  const StreamKey key{o.seed, restart, Stream::attack_start};
  Tensor x = clamped(c.ops, c.ops.normal(o.tokens, c.model.width, o.dtype, key, spread), largest);
  PeakGradient here = peak_gradient_at(c, x, place, true);
  double length = 0.3;
  for (int step = 0; step < o.steps && length > 1e-9; ++step) {
    const double steepness = norm_of(c.ops, here.gradient);
    if (!(steepness > 0.0)) break;
    const double scale = std::max(norm_of(c.ops, x), 1e-30);
    const Tensor next = clamped(c.ops, c.ops.axpby(1.0, x, length * scale / steepness, here.gradient), largest);
    const double value = peak_gradient_at(c, next, place, false).value;
    if (value > here.value) {
      x = next;
      here = peak_gradient_at(c, x, place, true);
      length = std::min(length * 1.5, 10.0);
    } else {
      length *= 0.5;
    }
  }
  return {.place = place, .reached = here.value, .input = x};
}

AttackResult search(const StackContext& c, const SignalPlace& place, const AttackOptions& o, std::uint32_t restart) {
  constexpr int candidates = 8;
  const int length = c.model.max_tokens() > 0 ? std::min(o.tokens, c.model.max_tokens()) : o.tokens;
  std::vector<int> draws(static_cast<std::size_t>(length + o.steps * candidates));
  fill_uniform_int({o.seed, restart, Stream::attack_ids}, c.model.vocab, draws);
  const auto value_of = [&](const std::vector<int>& ids) {
    return peak_gradient_at(c, embedding_forward(c, ids), place, false).value;
  };
  AttackResult best{.place = place, .ids = {draws.begin(), draws.begin() + length}};
  best.reached = value_of(best.ids);
  auto next = draws.begin() + length;
  for (int step = 0; step < o.steps; ++step) {
    const auto at = static_cast<std::size_t>(step % length);
    std::vector<int> tried = best.ids;
    for (int i = 0; i < candidates; ++i) {
      tried[at] = *next++;
      const double value = value_of(tried);
      if (value > best.reached) std::tie(best.ids, best.reached) = std::pair(tried, value);
    }
  }
  return best;
}

}  // namespace

void SignalMaxima::add(const StackContext& c, const Tensor& input, Hooks hooks) {
  MaximaRecorder recorder(c, *this);
  hooks.recorders.push_back(&recorder);
  (void)logits_forward(c, stack_forward(c, input, hooks).output, hooks);
}

void SignalMaxima::add(const StackContext& c, std::span<const int> ids, Hooks hooks) {
  MaximaRecorder recorder(c, *this);
  hooks.recorders.push_back(&recorder);
  (void)logits_forward(c, stack_forward(c, embedding_forward(c, ids, hooks), hooks).output, hooks);
}

void SignalMaxima::raise_to(Signal signal, int sublayer, std::span<const double> magnitudes) {
  std::vector<double>& maxima = maxima_[{signal, sublayer}];
  maxima.resize(magnitudes.size(), 0.0);
  for (std::size_t i = 0; i < magnitudes.size(); ++i) {
    maxima[i] =
        std::max(maxima[i], std::isnan(magnitudes[i]) ? std::numeric_limits<double>::infinity() : magnitudes[i]);
  }
}

const std::vector<double>* SignalMaxima::find(Signal signal, int sublayer) const {
  const auto at = maxima_.find({signal, sublayer});
  return at == maxima_.end() ? nullptr : &at->second;
}

double SignalMaxima::largest(Signal signal, int sublayer) const {
  const std::vector<double>* maxima = find(signal, sublayer);
  return maxima == nullptr ? std::numeric_limits<double>::quiet_NaN() : *std::ranges::max_element(*maxima);
}

bool can_attack(Signal signal) {
  using enum Signal;
  constexpr std::array all{A_out,       q_projected, k_projected, v_projected, v,      attention_gate,
                           gated_mixed, inner,       gate,        up,          hidden, f_out,
                           B_out,       sum,         x_out,       output,      logits, head_scores};
  return std::ranges::find(all, signal) != all.end();
}

PeakGradient peak_gradient_at(const StackContext& c, const Tensor& input, const SignalPlace& place,
                              bool with_gradient) {
  const ModelSpec& m = c.model;
  const int end = m.sublayers();
  SignalStore seen(Pass::forward);
  // The soft cap is monotone, so the ascent uses the head's scores, whose gradient does not vanish.
  const bool capped = place.signal == Signal::logits && m.head.soft_cap > 0.0;
  GradientSeed seed(place.sublayer, capped ? Signal::head_scores : place.signal);
  const Hooks hooks{.recorders = {&seen}, .replacers = {&seed}};
  StackTape tape;
  tape.budget = std::numeric_limits<std::size_t>::max();
  StackTape* recorded = with_gradient ? &tape : nullptr;
  const bool of_head = place.sublayer == end && !is_of_step(place.signal);
  const int step = place.sublayer < 0 || is_of_step(place.signal) ? place.sublayer : m.step_with(place.sublayer);
  const int steps = of_head ? m.steps() : step + 1;
  Streams top = steps_forward(c, entry_forward(c, input, hooks, recorded), 0, steps, hooks, recorded);
  SublayerPass head(c, hooks, end, Pass::forward, Save::for_backward);
  if (of_head) top.front() = head_forward(head, exit_forward(c, top, hooks, recorded));
  PeakGradient peak = peak_of(c.ops, seen.at(place.sublayer, place.signal), place.channel);
  peak.value /= std::abs(emitted_factor(m, place.signal, place.sublayer));
  if (!with_gradient) return {peak.value, {}};
  seed.gradient = peak.gradient;
  Streams gradients;
  for (const Tensor& x : top) {
    gradients.push_back(x.empty() ? Tensor{} : c.ops.constant(x.rows(), x.cols(), x.dtype(), 0.0));
  }
  if (of_head) gradients = exit_backward(tape, head_backward(head, gradients.front()));
  return {peak.value, entry_backward(tape, steps_backward(tape, gradients))};
}

Tensor clamped(const Backend& ops, const Tensor& x, double largest) {
  if (std::isinf(largest)) return x;
  std::vector<double> values = ops.to_host(x);
  for (double& v : values) v = std::clamp(v, -largest, largest);
  return ops.from_host(x.rows(), x.cols(), x.dtype(), values);
}

// Small stacks run one restart per thread. In large stacks the ops use the threads, so that the weights of only one
// sublayer are in memory.
AttackResult attack(const StackContext& c, const theory::Certificate& certificate, const SignalPlace& place,
                    const theory::InputDomain& domain, const AttackOptions& options, SignalMaxima& seen) {
  constexpr long most_entries = 1L << 20U;  // a small stack has at most this many entries per MLP matrix
  std::vector<AttackResult> found(static_cast<std::size_t>(options.restarts));
  const auto attempt = [&](std::size_t i) {
    const auto restart = static_cast<std::uint32_t>(i);
    found[i] = domain.tokens ? search(c, place, options, restart) : climb(c, place, domain.largest, options, restart);
  };
  parallel_for(found.size(), attempt, static_cast<long>(c.model.mlp_width) * c.model.width <= most_entries);
  for (const AttackResult& one : found) domain.tokens ? seen.add(c, one.ids) : seen.add(c, one.input);
  const auto reached = [](const AttackResult& one) { return std::max(0.0, one.reached); };  // 0 for NaN
  AttackResult best = *std::ranges::max_element(found, {}, reached);
  best.reached = reached(best);
  best.bound = certificate.find(place.signal, place.sublayer)->magnitude[place.channel];
  return best;
}

std::vector<SignalPlace> attack_places(const theory::Certificate& certificate) {
  std::vector<SignalPlace> places;
  std::map<theory::SignalClass, const theory::SignalBound*> worst;
  for (const theory::SignalBound& b : certificate.bounds) {
    if (!can_attack(b.signal)) continue;
    const theory::SignalBound*& at = worst[theory::class_of(b.signal)];
    if (at == nullptr || b.largest > at->largest) at = &b;
  }
  for (const auto& [kind, b] : worst) places.push_back({b->signal, b->sublayer, b->channel});
  return places;
}

BoundsCheck check_bounds(const theory::Certificate& certificate, const SignalMaxima& seen, double rounding) {
  BoundsCheck check;
  for (const theory::SignalBound& b : certificate.bounds) {
    const std::vector<double>* maxima = seen.find(b.signal, b.sublayer);
    if (maxima == nullptr) continue;
    for (Eigen::Index k = 0; k < b.magnitude.size(); ++k) {
      const AttackResult at{{b.signal, b.sublayer, k}, b.magnitude[k], (*maxima)[static_cast<std::size_t>(k)]};
      if (std::isinf(at.reached) && theory::may_overflow(certificate, b)) {
        check.overflowed = at.place;
        return check;
      }
      if (at.reached <= at.bound * (1.0 + rounding)) continue;
      std::optional<AttackResult>& worst = check.exceeded;
      if (!worst || at.reached * worst->bound > worst->reached * at.bound) worst = at;
    }
  }
  return check;
}

}  // namespace periscope::certify
