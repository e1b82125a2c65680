#include "sim/model/attention_gate.h"

#include <algorithm>
#include <span>
#include <utility>

namespace periscope {
namespace {

AttentionGate kind_of(const SublayerPass& p) { return p.context().model.attention_gate_at(p.sublayer() / 2); }

/// Ones where channel j belongs to head h [H·e, H]: a linear map with it repeats every head's number for its channels,
/// and backward adds up the channels of a head. It is 1/e of W_q's size, and exact in every format: a sum of one number
/// and zeros.
Tensor channels_of_heads(const StackContext& c, DType dtype) {
  const auto heads = static_cast<std::size_t>(c.model.heads);
  const auto e = static_cast<Tensor::Index>(c.model.head_dim);
  const auto fill = [&]<class T>(Tensor::Index first, Tensor::Index count, std::span<T> values) {
    for (Tensor::Index i = 0; i < count; ++i) {
      const std::span<T> row = values.subspan(static_cast<std::size_t>(i) * heads, heads);
      std::fill(row.begin(), row.end(), T(0));
      row[static_cast<std::size_t>((first + i) / e)] = T(1);
    }
  };
  return c.ops.from_rows(c.model.query_width(), c.model.heads, dtype, fill);
}

}  // namespace

Tensor gate_forward(SublayerPass& p, const Tensor& a_out) {
  if (kind_of(p) == AttentionGate::none) return {};
  return p.emit(Signal::attention_gate, p.linear(Weight::attention_gate, p.emit(Signal::gate_in, a_out)));
}

Tensor gated_heads_forward(SublayerPass& p, const Tensor& mixed, const Tensor& gate) {
  if (gate.empty()) return mixed;
  const StackContext& c = p.context();
  Tensor y;
  if (kind_of(p) == AttentionGate::channel) {
    y = c.ops.gated(Activation::sigmoid, gate, mixed);
  } else {
    const Tensor open = c.ops.activate(Activation::sigmoid, gate);
    y = c.ops.multiply(c.ops.linear(open, channels_of_heads(c, gate.dtype())), mixed);
  }
  return p.emit(Signal::gated_mixed, std::move(y));
}

GateGradient gated_heads_backward(SublayerPass& p, const Tensor& dgated) {
  if (kind_of(p) == AttentionGate::none) return {dgated, {}};
  const StackContext& c = p.context();
  const Tensor dy = p.emit_back(Signal::gated_mixed, dgated);
  const Tensor gate = p.take(Signal::attention_gate);
  const Tensor mixed = p.take(Signal::mixed);
  GatedGradient g;
  if (kind_of(p) == AttentionGate::channel) {
    g = c.ops.gated_backward(Activation::sigmoid, gate, mixed, dy);
  } else {
    const Tensor channels = channels_of_heads(c, gate.dtype());
    g.dup = c.ops.multiply(c.ops.linear(c.ops.activate(Activation::sigmoid, gate), channels), dy);
    const Tensor of_heads = c.ops.linear_backward_input(c.ops.multiply(mixed, dy), channels);
    g.dgate = c.ops.activate_backward(Activation::sigmoid, gate, of_heads);
  }
  const Tensor da = p.linear_back(Weight::attention_gate, p.emit_back(Signal::attention_gate, std::move(g.dgate)));
  return {std::move(g.dup), p.emit_back(Signal::gate_in, da)};
}

}  // namespace periscope
