#include "sim/model/sublayer_pass.h"

#include <algorithm>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace periscope {
namespace {

/// True if an op without parameters reads the signal and needs its value to compute the gradient.
bool is_needed_backward(const ModelSpec& m, int sublayer, Signal signal) {
  switch (signal) {
    case Signal::mixed: return m.attention_gate_at(sublayer / 2) != AttentionGate::none;
    case Signal::q:
    case Signal::k:
    case Signal::v:
    case Signal::gate:
    case Signal::up:
    case Signal::dense:
    case Signal::attention_gate:
    case Signal::head_scores: return true;
    default: return false;
  }
}

struct NormForm {
  NormKind kind;
  int groups;
};

NormForm form_of(const ModelSpec& m, int layer, Weight weight) {
  if (!is_module_norm(weight)) return {kind_of(m, weight), 1};
  const bool whole = weight == Weight::inner_norm || (weight != Weight::v_norm && m.qk_norm_at(layer) == QkNorm::full);
  if (whole) return {NormKind::rms, 1};
  return {NormKind::rms, weight == Weight::q_norm ? m.heads : m.kv_heads_at(layer)};
}

template <class Map, class Key>
auto taken_from(Map& map, Key key) {
  auto node = map.extract(key);
  if (node.empty()) {
    throw std::logic_error("the backward pass needs " + std::string(name_of(key)) + ", which is missing or released");
  }
  return std::move(node.mapped());
}

}  // namespace

SublayerPass::SublayerPass(const StackContext& context, Hooks hooks, int sublayer, Pass pass, Save save, int step)
    : context_(context),
      hooks_(std::move(hooks)),
      sublayer_(sublayer),
      step_(step),
      pass_(pass),
      save_(save),
      weights_(context.weights.fetch(sublayer)) {
  if (save == Save::for_backward && context.cache != nullptr) {
    throw std::logic_error("a pass with a key/value cache has no backward pass");
  }
}

Tensor SublayerPass::hooked(Pass pass, Signal signal, Tensor x, int part) const {
  const Emission at{is_of_step(signal) ? step_ : sublayer_, signal, pass, part};
  for (SignalReplacer* replacer : hooks_.replacers) x = replacer->replaced(at, x);
  if (pass == Pass::recomputation) return x;
  for (SignalRecorder* recorder : hooks_.recorders) recorder->on_signal(at, x);
  return x;
}

Tensor SublayerPass::emit(Signal signal, Tensor x, int part) {
  x = hooked(pass_, signal, std::move(x), part);
  if (save_ == Save::for_backward && is_needed_backward(context_.model, sublayer_, signal)) signals_[signal] = x;
  return x;
}

Tensor SublayerPass::emit_backward(Signal signal, Tensor dx, int part) {
  return hooked(Pass::backward, signal, std::move(dx), part);
}

Tensor SublayerPass::linear(Weight weight, const Tensor& x) {
  const LinearWeights& w = weights_.matrix(weight);
  std::unique_ptr<LinearProduct> product = w.map->product(context_.ops, x, save_);
  Tensor y = product->output();
  if (save_ == Save::for_backward) products_[weight] = std::move(product);
  return w.bias.empty() ? y : context_.ops.add_row(std::move(y), w.bias);
}

Tensor SublayerPass::linear_backward(Weight weight, const Tensor& dy) {
  const std::unique_ptr<LinearProduct> taken = taken_from(products_, weight);
  LinearProduct& product = *taken;
  report(id_of(weight, ParameterId::Part::matrix),
         {[&] { return product.gradient(dy); }, [&] { return product.gradient_squares(dy); }});
  if (!weights_.matrix(weight).bias.empty()) {
    report_whole(id_of(weight, ParameterId::Part::bias), [&] { return context_.ops.column_sums(dy); });
  }
  return product.backward(dy);
}

Tensor SublayerPass::norm(Weight weight, const Tensor& x) {
  const NormWeights& w = weights_.norm(weight);
  const NormForm form = form_of(context_.model, sublayer_ / 2, weight);
  if (save_ == Save::for_backward) norm_inputs_[weight] = x;
  return context_.ops.norm(form.kind, x, w.gain, w.bias, context_.model.norm_eps, form.groups, w.alpha);
}

Tensor SublayerPass::norm_backward(Weight weight, const Tensor& dy) {
  const NormWeights& w = weights_.norm(weight);
  const NormForm form = form_of(context_.model, sublayer_ / 2, weight);
  const NormGradient g = context_.ops.norm_backward(form.kind, taken_from(norm_inputs_, weight), w.gain, dy,
                                                    context_.model.norm_eps, form.groups, w.alpha);
  report_whole(id_of(weight, ParameterId::Part::gain), [&] { return g.dgain; });
  if (!w.bias.empty()) report_whole(id_of(weight, ParameterId::Part::bias), [&] { return g.dbias; });
  if (!w.alpha.empty()) report_whole(id_of(weight, ParameterId::Part::alpha), [&] { return g.dalpha; });
  return g.dx;
}

void SublayerPass::table_backward(Weight table, const std::function<Tensor()>& gradient) {
  report_whole(id_of(table, ParameterId::Part::matrix), gradient);
}

Tensor SublayerPass::take(Signal signal) { return taken_from(signals_, signal); }

std::size_t SublayerPass::bytes() const {
  std::vector<Tensor> tensors;
  const auto add = [&](const Tensor& x) {
    if (std::ranges::none_of(tensors, [&](const Tensor& other) { return other.same_as(x); })) tensors.push_back(x);
  };
  for (const auto& [signal, x] : signals_) add(x);
  for (const auto& [weight, x] : norm_inputs_) add(x);
  for (const auto& [weight, product] : products_) add(product->input());
  std::size_t sum = 0;
  for (const Tensor& x : tensors) sum += static_cast<std::size_t>(x.size()) * size_of(x.dtype());
  return sum;
}

void SublayerPass::release_weights() {
  for (const auto& [weight, product] : products_) product->release();
}

ParameterId SublayerPass::id_of(Weight weight, ParameterId::Part part) const {
  return {is_of_layer(weight) ? sublayer_ : 0, weight, part};
}

void SublayerPass::report(const ParameterId& id, const ParameterGradient& gradient) const {
  for (GradientRecorder* recorder : hooks_.gradients) recorder->on_gradient(id, gradient);
}

void SublayerPass::report_whole(const ParameterId& id, const std::function<Tensor()>& gradient) const {
  report(id, {gradient, [&] { return context_.ops.measure(gradient(), {.squares = true}); }});
}

}  // namespace periscope
