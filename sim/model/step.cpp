#include "sim/model/step.h"

#include <utility>

#include "sim/model/modules.h"

namespace periscope {
namespace {

/// Weighted sum of tensors. Skips terms of weight 0, except with one stream, where 0·∞ must give NaN.
class Sum {
 public:
  Sum(const Backend& ops, std::size_t streams) : ops_(ops), adds_zeros_(streams == 1) {}
  /// Adds weight_of(i)·x[i] for all i; an empty tensor counts as 0.
  template <class WeightOf>
  Sum& add(const std::vector<Tensor>& x, const WeightOf& weight_of) {
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double weight = weight_of(i);
      if (!x[i].empty() && (weight != 0.0 || adds_zeros_)) add(weight, x[i]);
    }
    return *this;
  }
  [[nodiscard]] Tensor take() const { return first_.empty() || weight_ == 1.0 ? first_ : ops_.scale(weight_, first_); }

 private:
  void add(double weight, const Tensor& x) {
    if (!first_.empty()) {
      first_ = ops_.axpby(std::exchange(weight_, 1.0), first_, weight, x);
    } else {
      first_ = x;
      weight_ = weight;
    }
  }

  const Backend& ops_;
  bool adds_zeros_;
  Tensor first_;
  double weight_ = 1.0;
};

Tensor module_forward(SublayerPass& p, const Branch& b, const Tensor& a) {
  return b.kind == ModuleKind::attention ? attention_forward(p, a) : mlp_forward(p, a);
}

Tensor module_backward(SublayerPass& p, const Branch& b, const Tensor& df) {
  return b.kind == ModuleKind::attention ? attention_backward(p, df) : mlp_backward(p, df);
}

/// Stream that is the only input of a step's first branch, or nullopt.
std::optional<int> whole_stream(const Step& step) { return step.branches.front().read_stream(); }

/// Signal that records a stream, if any.
std::optional<Signal> name_of_stream(const StackContext& c, std::size_t i) { return c.model.ends().names[i]; }

}  // namespace

Tensor weighted_sum(const Backend& ops, const std::vector<double>& weights, const std::vector<Tensor>& x) {
  return Sum(ops, x.size()).add(x, [&](std::size_t i) { return weights[i]; }).take();
}

StepPass::StepPass(const StackContext& context, const Hooks& hooks, int index, Pass pass, Save save)
    : step_(context.model.step(index)) {
  for (const Branch& b : step_.branches) {
    branches_.push_back(std::make_unique<SublayerPass>(context, hooks, b.sublayer, pass, save, index));
  }
}

std::size_t StepPass::bytes() const {
  std::size_t sum = 0;
  for (const auto& branch : branches_) sum += branch->bytes();
  return sum;
}

void StepPass::release_weights() {
  for (const auto& branch : branches_) branch->release_weights();
}

Streams step_forward(StepPass& pass, const Streams& in) {
  const Backend& ops = pass.context().ops;
  const Step& step = pass.step();
  Streams streams = in;
  std::vector<Tensor> written;
  Tensor first_input;
  for (std::size_t i = 0; i < step.branches.size(); ++i) {
    const Branch& b = step.branches[i];
    SublayerPass& p = pass.branch(i);
    Tensor a = first_input;
    if (!b.shares_input) {
      Tensor x = weighted_sum(ops, b.reads, streams);
      x = p.emit(Signal::x_in, x);
      if (i == 0 && whole_stream(step)) streams[static_cast<std::size_t>(*whole_stream(step))] = x;
      a = b.norm_a ? p.norm(Weight::norm_a, x) : x;
      if (b.input_gain != 1.0) a = ops.scale(b.input_gain, std::move(a));
    }
    if (i == 0) first_input = a;
    a = p.emit(Signal::A_out, a);
    const Tensor f = p.emit(Signal::f_out, module_forward(p, b, a));
    const Tensor y = p.emit(Signal::B_out, b.norm_b ? p.norm(Weight::norm_b, f) : f);
    written.push_back(b.channel_scale ? p.norm(Weight::branch_scale, y) : y);
  }
  SublayerPass& whole = pass.whole();
  Streams out;
  for (std::size_t i = 0; i < streams.size(); ++i) {
    Sum sum(ops, streams.size());
    sum.add(streams, [&](std::size_t j) { return step.mixing[i][j]; });
    sum.add(written, [&](std::size_t b) { return step.branches[b].writes[i]; });
    Tensor x = sum.take();
    const std::optional<Signal> name = name_of_stream(pass.context(), i);
    const int part = static_cast<int>(i);
    if (name == Signal::x_out) x = whole.emit(Signal::sum, x, part);
    if (step.norm_c[i]) x = whole.norm(Weight::norm_c, x);
    out.push_back(name ? whole.emit(*name, x, *name == Signal::x_out ? part : 0) : x);
  }
  return out;
}

Streams step_backward(StepPass& pass, const Streams& out) {
  const Backend& ops = pass.context().ops;
  const Step& step = pass.step();
  SublayerPass& whole = pass.whole();
  Streams dsum(out.size());
  for (std::size_t i = out.size(); i-- > 0;) {
    if (out[i].empty()) continue;
    const std::optional<Signal> name = name_of_stream(pass.context(), i);
    const int part = static_cast<int>(i);
    Tensor dx = name ? whole.emit_backward(*name, out[i], *name == Signal::x_out ? part : 0) : out[i];
    if (step.norm_c[i]) dx = whole.norm_backward(Weight::norm_c, dx);
    dsum[i] = name == Signal::x_out ? whole.emit_backward(Signal::sum, dx, part) : dx;
  }
  // In reverse order, so that the first branch has the gradients of all branches that share its A_out.
  std::vector<Tensor> dread(step.branches.size());
  Tensor dshared;
  for (std::size_t i = step.branches.size(); i-- > 0;) {
    const Branch& b = step.branches[i];
    SublayerPass& p = pass.branch(i);
    const Tensor written = weighted_sum(ops, b.writes, dsum);
    const Tensor db =
        p.emit_backward(Signal::B_out, b.channel_scale ? p.norm_backward(Weight::branch_scale, written) : written);
    const Tensor df = p.emit_backward(Signal::f_out, b.norm_b ? p.norm_backward(Weight::norm_b, db) : db);
    Tensor da = p.emit_backward(Signal::A_out, module_backward(p, b, df));
    if (b.shares_input) {
      dshared = dshared.empty() ? da : ops.axpby(1.0, dshared, 1.0, da);
      continue;
    }
    if (i == 0 && !dshared.empty()) da = ops.axpby(1.0, da, 1.0, dshared);
    Tensor through = b.input_gain != 1.0 ? ops.scale(b.input_gain, da) : da;
    if (b.norm_a) through = p.norm_backward(Weight::norm_a, through);
    const bool is_first_whole = i == 0 && whole_stream(step);
    dread[i] = is_first_whole ? through : p.emit_backward(Signal::x_in, through);
  }
  Streams in;
  for (std::size_t j = 0; j < out.size(); ++j) {
    Sum sum(ops, out.size());
    sum.add(dsum, [&](std::size_t i) { return step.mixing[i][j]; });
    sum.add(dread, [&](std::size_t b) { return step.branches[b].reads[j]; });
    const bool is_read_whole = whole_stream(step) == static_cast<int>(j);
    in.push_back(is_read_whole ? pass.branch(0).emit_backward(Signal::x_in, sum.take()) : sum.take());
  }
  return in;
}

}  // namespace periscope
