#include "sim/model/stack.h"

#include <utility>

#include "sim/model/primitives.h"

namespace periscope {
namespace {

void report(Observer& observer, int l, const Tensor& x_in, const SublayerSignals& s) {
  observer.on_site(l, Signal::x_in, x_in);
  observer.on_site(l, Signal::A_out, s.a_out);
  const std::pair<Signal, const Tensor*> inside[] = {
      {Signal::q, &s.attention.q},         {Signal::k, &s.attention.k}, {Signal::v, &s.attention.v},
      {Signal::mixed, &s.attention.mixed}, {Signal::gate, &s.mlp.gate}, {Signal::up, &s.mlp.up},
      {Signal::hidden, &s.mlp.hidden}};
  for (const auto& [place, x] : inside) {
    if (!x->empty()) observer.on_inside(l, place, *x);
  }
  observer.on_site(l, Signal::f_out, s.f_out);
  observer.on_site(l, Signal::B_out, s.b_out);
  observer.on_site(l, Signal::x_out, s.x_out);
}

}  // namespace

StackOutput stack_forward(const StackContext& c, const Tensor& input, Observer& observer, StackTape* tape) {
  const ModelSpec& m = c.model;
  Tensor x = m.embedding_norm ? norm_forward(c, 0, NormSite::embedding, input) : input;
  Tensor r = m.placement.two_streams ? x : Tensor{};
  observer.on_input(x);
  if (tape != nullptr) *tape = {.input = input, .streams = {x}, .second_stream = {}};
  for (int l = 0; l < m.sublayers(); ++l) {
    const SublayerSignals s = sublayer_forward(c, l, x);
    report(observer, l, x, s);
    x = s.x_out;
    if (tape != nullptr) tape->streams.push_back(x);
    if (r.empty()) continue;
    r = c.ops.axpby(1.0, r, m.rule(l).beta, s.b_out);
    observer.on_site(l, Signal::r_out, r);
  }
  if (tape != nullptr) tape->second_stream = r;
  if (!m.final_norm) return {x, r.empty() ? x : c.ops.axpby(1.0, x, 1.0, r)};
  const Tensor normed = norm_forward(c, m.sublayers(), NormSite::final, r.empty() ? x : r);
  return {x, r.empty() ? normed : c.ops.axpby(1.0, x, 1.0, normed)};
}

// ResiDual's output is x + N(r) and r = x_0 + Σ branches: the gradient of r is the same at every depth.
Tensor stack_backward(const StackContext& c, StackTape tape, const Tensor& doutput, GradientObserver& observer) {
  const ModelSpec& m = c.model;
  const Tensor& r = tape.second_stream;
  Tensor dnormed = doutput;
  if (m.final_norm) {
    dnormed = norm_backward(c, m.sublayers(), NormSite::final, r.empty() ? tape.streams.back() : r, doutput, observer);
  }
  Tensor dx = r.empty() ? dnormed : doutput;
  const Tensor dr = r.empty() ? Tensor{} : dnormed;
  for (int l = m.sublayers() - 1; l >= 0; --l) {
    tape.streams.pop_back();
    if (!dr.empty()) observer.on_site(l, Signal::r_out, dr);
    observer.on_site(l, Signal::x_out, dx);
    dx = sublayer_backward(c, l, tape.streams.back(), dx, dr, observer);
    observer.on_site(l, Signal::x_in, dx);
  }
  if (!dr.empty()) dx = c.ops.axpby(1.0, dx, 1.0, dr);
  observer.on_input(dx);
  return m.embedding_norm ? norm_backward(c, 0, NormSite::embedding, tape.input, dx, observer) : dx;
}

}  // namespace periscope
