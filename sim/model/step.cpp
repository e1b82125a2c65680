#include "sim/model/step.h"

#include <utility>

#include "sim/model/modules.h"

namespace periscope {
namespace {

/// Terms of a sum of tensors.
class Sum {
 public:
  explicit Sum(const Backend& ops) : ops_(ops) {}
  void add(double weight, const Tensor& x) {
    if (x.empty()) return;
    if (!first_.empty()) {
      first_ = ops_.axpby(std::exchange(weight_, 1.0), first_, weight, x);
    } else {
      first_ = x;
      weight_ = weight;
    }
  }
  [[nodiscard]] Tensor take() const { return first_.empty() || weight_ == 1.0 ? first_ : ops_.scale(weight_, first_); }

 private:
  const Backend& ops_;
  Tensor first_;
  double weight_ = 1.0;
};

/// With one stream a weight of 0 counts, as 0·∞ would.
bool counts(double weight, std::size_t streams) { return weight != 0.0 || streams == 1; }

Tensor module_forward(SublayerPass& p, const Branch& b, const Tensor& a) {
  return b.kind == ModuleKind::attention ? attention_forward(p, a) : mlp_forward(p, a);
}

Tensor module_backward(SublayerPass& p, const Branch& b, const Tensor& df) {
  return b.kind == ModuleKind::attention ? attention_backward(p, df) : mlp_backward(p, df);
}

/// The stream of which a step's first branch reads all.
std::optional<int> whole_stream(const Step& step) { return step.branches.front().read_stream(); }

/// The streams that a step normalises or records, with their names.
std::optional<Signal> name_of_stream(const StackContext& c, std::size_t i) { return c.model.ends().names[i]; }

}  // namespace

Tensor weighted_sum(const Backend& ops, const std::vector<double>& weights, const std::vector<Tensor>& x) {
  Sum sum(ops);
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (counts(weights[i], x.size())) sum.add(weights[i], x[i]);
  }
  return sum.take();
}

StepPass::StepPass(const StackContext& context, const Hooks& hooks, int index, Pass pass, Keep keep)
    : step_(context.model.step(index)) {
  for (const Branch& b : step_.branches) {
    branches_.push_back(std::make_unique<SublayerPass>(context, hooks, b.sublayer, pass, keep, index));
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
    Sum sum(ops);
    for (std::size_t j = 0; j < streams.size(); ++j) {
      if (counts(step.mixing[i][j], streams.size())) sum.add(step.mixing[i][j], streams[j]);
    }
    for (std::size_t b = 0; b < written.size(); ++b) {
      const double weight = step.branches[b].writes[i];
      if (counts(weight, streams.size())) sum.add(weight, written[b]);
    }
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
    Tensor dx = name ? whole.emit_back(*name, out[i], *name == Signal::x_out ? part : 0) : out[i];
    if (step.norm_c[i]) dx = whole.norm_back(Weight::norm_c, dx);
    dsum[i] = name == Signal::x_out ? whole.emit_back(Signal::sum, dx, part) : dx;
  }
  // Of the branches from the last to the first, so that the first has the gradients of all that read its A_out.
  std::vector<Tensor> dread(step.branches.size());
  Tensor dshared;
  for (std::size_t i = step.branches.size(); i-- > 0;) {
    const Branch& b = step.branches[i];
    SublayerPass& p = pass.branch(i);
    const Tensor written = weighted_sum(ops, b.writes, dsum);
    const Tensor db =
        p.emit_back(Signal::B_out, b.channel_scale ? p.norm_back(Weight::branch_scale, written) : written);
    const Tensor df = p.emit_back(Signal::f_out, b.norm_b ? p.norm_back(Weight::norm_b, db) : db);
    Tensor da = p.emit_back(Signal::A_out, module_backward(p, b, df));
    if (b.shares_input) {
      dshared = dshared.empty() ? da : ops.axpby(1.0, dshared, 1.0, da);
      continue;
    }
    if (i == 0 && !dshared.empty()) da = ops.axpby(1.0, da, 1.0, dshared);
    Tensor through = b.input_gain != 1.0 ? ops.scale(b.input_gain, da) : da;
    if (b.norm_a) through = p.norm_back(Weight::norm_a, through);
    const bool joins_stream = i == 0 && whole_stream(step);
    dread[i] = joins_stream ? through : p.emit_back(Signal::x_in, through);
  }
  Streams in;
  for (std::size_t j = 0; j < out.size(); ++j) {
    Sum sum(ops);
    for (std::size_t i = 0; i < out.size(); ++i) {
      if (counts(step.mixing[i][j], out.size())) sum.add(step.mixing[i][j], dsum[i]);
    }
    for (std::size_t b = 0; b < dread.size(); ++b) {
      const double weight = step.branches[b].reads[j];
      if (counts(weight, out.size())) sum.add(weight, dread[b]);
    }
    const bool is_read_whole = whole_stream(step) == static_cast<int>(j);
    in.push_back(is_read_whole ? pass.branch(0).emit_back(Signal::x_in, sum.take()) : sum.take());
  }
  return in;
}

}  // namespace periscope
