#include "experiments/certify/signal_gradient.h"

#include <cmath>
#include <stdexcept>
#include <vector>

#include "sim/model/head.h"
#include "sim/model/primitives.h"
#include "sim/model/stack.h"

namespace periscope {

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

const Tensor& signal_of(const SublayerSignals& s, Signal signal) {
  switch (signal) {
    case Signal::A_out: return s.a_out;
    case Signal::q_projected: return s.attention.q_projected;
    case Signal::k_projected: return s.attention.k_projected;
    case Signal::v: return s.attention.v;
    case Signal::gate: return s.mlp.gate;
    case Signal::up: return s.mlp.up;
    case Signal::hidden: return s.mlp.hidden;
    case Signal::f_out: return s.f_out;
    case Signal::B_out: return s.b_out;
    case Signal::sum: return s.sum;
    case Signal::x_out: return s.x_out;
    default: throw std::logic_error("no gradient of this signal");
  }
}

/// Gradient of the module's input from that of one of its inner signals.
Tensor from_inside(const StackContext& c, int layer, const SublayerSignals& s, Signal signal, const Tensor& d) {
  IdleGradientObserver none;
  const auto through = [&](Weight weight, const Tensor& dy) {
    return linear_backward(c, layer, weight, s.a_out, dy, none);
  };
  switch (signal) {
    case Signal::A_out: return d;
    case Signal::q_projected: return through(Weight::q, d);
    case Signal::k_projected: return through(Weight::k, d);
    case Signal::v: return through(Weight::v, d);
    case Signal::gate: return through(Weight::gate, d);
    case Signal::up: return through(Weight::up, d);
    default: break;
  }
  const Activation activation = activation_of(c.model.mlp);
  if (!is_gated(c.model.mlp)) return through(Weight::up, c.ops.activate_backward(activation, s.mlp.up, d));
  const GatedGradient g = c.ops.gated_backward(activation, s.mlp.gate, s.mlp.up, d);
  return c.ops.axpby(1.0, through(Weight::gate, g.dgate), 1.0, through(Weight::up, g.dup));
}

/// Gradient of the stream before sublayer l from that of a signal in it.
Tensor from_signal(const StackContext& c, int l, const Tensor& x, const SublayerSignals& s, Signal signal,
                   const Tensor& d) {
  IdleGradientObserver none;
  const SublayerRule rule = c.model.rule(l);
  Tensor dsum;
  Tensor df;
  if (signal == Signal::sum) dsum = d;
  if (signal == Signal::sum || signal == Signal::B_out) {
    const Tensor db = signal == Signal::sum ? c.ops.scale(rule.beta, d) : d;
    df = rule.norm_b ? norm_backward(c, l, NormSite::b, s.f_out, db, none) : db;
  } else if (signal == Signal::f_out) {
    df = d;
  }
  Tensor da;
  if (df.empty()) {
    da = from_inside(c, l / 2, s, signal, d);
  } else if (ModelSpec::is_attention(l)) {
    da = attention_backward(c, l / 2, s.a_out, s.attention, df, none);
  } else {
    da = mlp_backward(c, l / 2, s.a_out, s.mlp, df, none);
  }
  if (rule.input_gain != 1.0) da = c.ops.scale(rule.input_gain, da);
  if (rule.norm_a) da = norm_backward(c, l, NormSite::a, x, da, none);
  return dsum.empty() ? da : c.ops.axpby(rule.alpha, dsum, 1.0, da);
}

/// The streams before sublayers 0 … l, and sublayer l's signals.
struct Run {
  std::vector<Tensor> streams;
  SublayerSignals last;
};

Run run_to(const StackContext& c, const Tensor& input, int l) {
  Run run;
  run.streams.push_back(c.model.embedding_norm ? norm_forward(c, 0, NormSite::embedding, input) : input);
  for (int i = 0; i <= l; ++i) {
    run.last = sublayer_forward(c, i, run.streams.back());
    if (i < l) run.streams.push_back(run.last.x_out);
  }
  return run;
}

Slope inside(const StackContext& c, const Tensor& input, const SignalPlace& place, bool back) {
  IdleGradientObserver none;
  const Run run = run_to(c, input, place.sublayer);
  const bool stream = place.sublayer < 0;
  const Peak peak = peak_of(c.ops, stream ? run.streams.back() : signal_of(run.last, place.signal), place.channel);
  if (!back) return {peak.value, {}};
  Tensor dx = peak.seed;
  for (int l = place.sublayer; l >= 0; --l) {
    const Tensor& x = run.streams[static_cast<std::size_t>(l)];
    const bool first = l == place.sublayer && place.signal != Signal::x_out;
    dx = first ? from_signal(c, l, x, run.last, place.signal, dx) : sublayer_backward(c, l, x, dx, {}, none);
  }
  return {peak.value, c.model.embedding_norm ? norm_backward(c, 0, NormSite::embedding, input, dx, none) : dx};
}

const Tensor& signal_of(const HeadSignals& s, const Tensor& output, Signal signal) {
  switch (signal) {
    case Signal::output: return output;
    case Signal::head_scores: return s.scores;
    case Signal::logits: return s.logits;
    default: throw std::logic_error("no gradient of this signal");
  }
}

Slope at_the_head(const StackContext& c, const Tensor& input, const SignalPlace& place, bool back) {
  IdleObserver silent;
  IdleGradientObserver none;
  StackTape tape;
  const Tensor output = stack_forward(c, input, silent, &tape).output;
  const HeadSignals s = head_forward(c, output);
  const Peak peak = peak_of(c.ops, signal_of(s, output, place.signal), place.channel);
  if (!back) return {peak.value, {}};
  Tensor d = peak.seed;
  if (place.signal != Signal::output) {
    // The soft cap is monotone: climbing the scores climbs the logits too, and further where those are flat.
    ModelSpec uncapped = c.model;
    uncapped.head.soft_cap = 0.0;
    d = head_backward({.ops = c.ops, .model = uncapped, .weights = c.weights, .sequences = c.sequences}, output, s, d,
                      none);
  }
  return {peak.value, stack_backward(c, std::move(tape), d, none)};
}

}  // namespace

bool has_gradient(Signal signal) {
  switch (signal) {
    case Signal::A_out:
    case Signal::q_projected:
    case Signal::k_projected:
    case Signal::v:
    case Signal::gate:
    case Signal::up:
    case Signal::hidden:
    case Signal::f_out:
    case Signal::B_out:
    case Signal::sum:
    case Signal::x_out:
    case Signal::output:
    case Signal::head_scores:
    case Signal::logits: return true;
    default: return false;
  }
}

Slope slope_at(const StackContext& c, const Tensor& input, const SignalPlace& place, bool back) {
  return place.sublayer < c.model.sublayers() ? inside(c, input, place, back) : at_the_head(c, input, place, back);
}

}  // namespace periscope
