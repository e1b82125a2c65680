#include "sim/model/stack.h"

#include <utility>

namespace periscope {
namespace {

Keep keep_for(const StackTape* tape) { return tape != nullptr ? Keep::for_backward : Keep::nothing; }

}  // namespace

Streams enter_stack(const StackContext& c, const Tensor& input, const Hooks& hooks, StackTape* tape) {
  auto pass = std::make_unique<SublayerPass>(c, hooks, -1, Pass::forward, keep_for(tape));
  Tensor x = pass->emit(Signal::input, input);
  if (c.model.embedding_norm) x = pass->norm(Weight::embedding_norm, x);
  x = pass->emit(Signal::x_out, x);
  const Tensor r = c.model.placement.two_streams ? pass->emit(Signal::r_out, x) : Tensor{};
  if (tape != nullptr) {
    tape->context = &c;
    tape->hooks = hooks;
    tape->entry = std::move(pass);
  }
  return {x, r};
}

Streams pass_sublayers(const StackContext& c, Streams streams, int first, int end, const Hooks& hooks,
                       StackTape* tape) {
  const bool keeps_last = tape != nullptr && tape->budget > 0;
  for (int l = first; l < end; ++l) {
    const bool last = keeps_last && l + 1 == end;
    const bool keep = last || (tape != nullptr && tape->budget > 0);
    auto pass = std::make_unique<SublayerPass>(c, hooks, l, Pass::forward, keep ? Keep::for_backward : Keep::nothing);
    if (tape != nullptr) {
      // What enters an MLP comes out of the attention before it, which the backward pass computes again anyhow.
      const bool comes_again = !ModelSpec::is_attention(l) && l > first && !tape->passes.back();
      tape->streams.push_back(comes_again ? Streams{} : streams);
    }
    streams = sublayer_forward(*pass, streams);
    if (tape == nullptr) continue;
    const bool fits = keep && pass->bytes() <= tape->budget;
    tape->budget = fits ? tape->budget - pass->bytes() : 0;
    pass->release_weights();
    tape->passes.push_back(fits || last ? std::move(pass) : nullptr);
  }
  return streams;
}

Tensor leave_stack(const StackContext& c, const Streams& streams, const Hooks& hooks, StackTape* tape) {
  auto pass = std::make_unique<SublayerPass>(c, hooks, c.model.sublayers(), Pass::forward, keep_for(tape));
  const Tensor& r = streams.second;
  Tensor output = r.empty() ? streams.x : r;
  if (c.model.final_norm) output = pass->norm(Weight::final_norm, output);
  if (!r.empty()) output = c.ops.axpby(1.0, streams.x, 1.0, output);
  output = pass->emit(Signal::output, output);
  if (tape != nullptr) tape->exit = std::move(pass);
  return output;
}

StackOutput stack_forward(const StackContext& c, const Tensor& input, const Hooks& hooks, StackTape* tape) {
  const Streams streams = pass_sublayers(c, enter_stack(c, input, hooks, tape), 0, c.model.sublayers(), hooks, tape);
  return {streams.x, leave_stack(c, streams, hooks, tape)};
}

// ResiDual's output is x + N(r) and r = x_0 + Σ branches: the gradient of r is the same at every depth.
Streams back_into_stack(StackTape& tape, const Tensor& doutput) {
  SublayerPass& pass = *tape.exit;
  const ModelSpec& m = pass.context().model;
  const Tensor d = pass.emit_back(Signal::output, doutput);
  const Tensor dnormed = m.final_norm ? pass.norm_back(Weight::final_norm, d) : d;
  return m.placement.two_streams ? Streams{d, dnormed} : Streams{dnormed};
}

Streams back_through_sublayers(StackTape& tape, Streams gradients) {
  while (!tape.streams.empty()) {
    const int l = static_cast<int>(tape.streams.size()) - 1;
    std::unique_ptr<SublayerPass> pass = std::move(tape.passes.back());
    if (!pass && tape.streams.back().x.empty()) {
      auto before =
          std::make_unique<SublayerPass>(*tape.context, tape.hooks, l - 1, Pass::recomputation, Keep::for_backward);
      tape.streams.back() = sublayer_forward(*before, tape.streams[tape.streams.size() - 2]);
      tape.passes[tape.passes.size() - 2] = std::move(before);
    }
    if (!pass) {
      pass = std::make_unique<SublayerPass>(*tape.context, tape.hooks, l, Pass::recomputation, Keep::for_backward);
      (void)sublayer_forward(*pass, tape.streams.back());
    }
    gradients = sublayer_backward(*pass, gradients);
    tape.passes.pop_back();
    tape.streams.pop_back();
  }
  return gradients;
}

Tensor back_to_input(StackTape& tape, const Streams& gradients) {
  SublayerPass& pass = *tape.entry;
  const StackContext& c = pass.context();
  Tensor dx = gradients.x;
  if (!gradients.second.empty()) dx = c.ops.axpby(1.0, dx, 1.0, gradients.second);
  dx = pass.emit_back(Signal::x_out, dx);
  if (c.model.embedding_norm) dx = pass.norm_back(Weight::embedding_norm, dx);
  return pass.emit_back(Signal::input, dx);
}

Tensor stack_backward(StackTape& tape, const Tensor& doutput) {
  return back_to_input(tape, back_through_sublayers(tape, back_into_stack(tape, doutput)));
}

}  // namespace periscope
