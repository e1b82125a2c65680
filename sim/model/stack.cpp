#include "sim/model/stack.h"

#include <utility>

namespace periscope {
namespace {

Save save_for(const StackTape* tape) { return tape != nullptr ? Save::for_backward : Save::nothing; }

}  // namespace

Streams entry_forward(const StackContext& c, const Tensor& input, const Hooks& hooks, StackTape* tape) {
  auto pass = std::make_unique<SublayerPass>(c, hooks, -1, Pass::forward, save_for(tape));
  Tensor x = pass->emit(Signal::input, input);
  if (c.model.embedding_norm) x = pass->norm(Weight::embedding_norm, x);
  const StreamEnds ends = c.model.ends();
  Streams streams;
  for (std::size_t i = 0; i < ends.names.size(); ++i) {
    const bool is_part = ends.names[i] == Signal::x_out;
    Tensor start = ends.names[i] ? pass->emit(*ends.names[i], x, is_part ? static_cast<int>(i) : 0) : x;
    if (i == 0 && ends.parts_of_stream() == 1) x = start;  // a replacement of the single x_out applies to all streams
    streams.push_back(std::move(start));
  }
  if (tape != nullptr) {
    tape->context = &c;
    tape->hooks = hooks;
    tape->entry = std::move(pass);
  }
  return streams;
}

Streams steps_forward(const StackContext& c, Streams streams, int first, int end, const Hooks& hooks, StackTape* tape) {
  const bool saves_last = tape != nullptr && tape->budget > 0;
  int layer_before = -1;
  for (int l = first; l < end; ++l) {
    const bool last = saves_last && l + 1 == end;
    const bool save = last || (tape != nullptr && tape->budget > 0);
    auto pass = std::make_unique<StepPass>(c, hooks, l, Pass::forward, save ? Save::for_backward : Save::nothing);
    const int layer = pass->step().branches.front().layer();
    if (tape != nullptr) {
      // The input of a layer's second step is the output of its first step, which the backward pass recomputes anyway.
      const bool is_recomputed = layer == layer_before && !tape->passes.back();
      tape->streams.push_back(is_recomputed ? Streams{} : streams);
    }
    layer_before = layer;
    streams = step_forward(*pass, streams);
    if (tape == nullptr) continue;
    const bool fits = save && pass->bytes() <= tape->budget;
    tape->budget = fits ? tape->budget - pass->bytes() : 0;
    pass->release_weights();
    tape->passes.push_back(fits || last ? std::move(pass) : nullptr);
  }
  return streams;
}

Tensor exit_forward(const StackContext& c, const Streams& streams, const Hooks& hooks, StackTape* tape) {
  auto pass = std::make_unique<SublayerPass>(c, hooks, c.model.sublayers(), Pass::forward, save_for(tape));
  const StreamEnds ends = c.model.ends();
  Tensor output = weighted_sum(c.ops, ends.normed, streams);
  if (c.model.final_norm) output = pass->norm(Weight::final_norm, output);
  if (const Tensor plain = ends.has_plain() ? weighted_sum(c.ops, ends.plain, streams) : Tensor(); !plain.empty()) {
    output = c.ops.axpby(1.0, plain, 1.0, output);
  }
  output = pass->emit(Signal::output, output);
  if (tape != nullptr) tape->exit = std::move(pass);
  return output;
}

StackOutput stack_forward(const StackContext& c, const Tensor& input, const Hooks& hooks, StackTape* tape) {
  const Streams streams = steps_forward(c, entry_forward(c, input, hooks, tape), 0, c.model.steps(), hooks, tape);
  return {streams.front(), exit_forward(c, streams, hooks, tape)};
}

Streams exit_backward(StackTape& tape, const Tensor& doutput) {
  SublayerPass& pass = *tape.exit;
  const StackContext& c = pass.context();
  const Tensor d = pass.emit_backward(Signal::output, doutput);
  const Tensor dnormed = c.model.final_norm ? pass.norm_backward(Weight::final_norm, d) : d;
  const StreamEnds ends = c.model.ends();
  Streams gradients;
  for (std::size_t i = 0; i < ends.names.size(); ++i) {
    gradients.push_back(weighted_sum(c.ops, {ends.plain[i], ends.normed[i]}, {d, dnormed}));
  }
  return gradients;
}

Streams steps_backward(StackTape& tape, Streams gradients) {
  while (!tape.streams.empty()) {
    const int l = static_cast<int>(tape.streams.size()) - 1;
    std::unique_ptr<StepPass> pass = std::move(tape.passes.back());
    const auto recomputation = [&](int step) {
      return std::make_unique<StepPass>(*tape.context, tape.hooks, step, Pass::recomputation, Save::for_backward);
    };
    if (!pass && tape.streams.back().empty()) {
      auto before = recomputation(l - 1);
      tape.streams.back() = step_forward(*before, tape.streams[tape.streams.size() - 2]);
      tape.passes[tape.passes.size() - 2] = std::move(before);
    }
    if (!pass) {
      pass = recomputation(l);
      (void)step_forward(*pass, tape.streams.back());
    }
    gradients = step_backward(*pass, gradients);
    tape.passes.pop_back();
    tape.streams.pop_back();
  }
  return gradients;
}

Tensor entry_backward(StackTape& tape, const Streams& gradients) {
  SublayerPass& pass = *tape.entry;
  const StackContext& c = pass.context();
  const bool parts = c.model.ends().parts_of_stream() > 1;
  Tensor dx;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const Tensor d = parts ? pass.emit_backward(Signal::x_out, gradients[i], static_cast<int>(i)) : gradients[i];
    if (!d.empty()) dx = dx.empty() ? d : c.ops.axpby(1.0, dx, 1.0, d);
  }
  if (!parts) dx = pass.emit_backward(Signal::x_out, dx);
  if (c.model.embedding_norm) dx = pass.norm_backward(Weight::embedding_norm, dx);
  return pass.emit_backward(Signal::input, dx);
}

Tensor stack_backward(StackTape& tape, const Tensor& doutput) {
  return entry_backward(tape, steps_backward(tape, exit_backward(tape, doutput)));
}

}  // namespace periscope
