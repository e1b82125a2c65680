#include "theory/passes/backward.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "sim/spec/weight.h"
#include "theory/modules/inside_modules.h"
#include "theory/modules/stream_pairs.h"

namespace periscope::theory {
namespace {

double squared(double x) { return x * x; }

int backward_samples(const ForwardReplicate& replicate) {
  return replicate.backward_samples > 0 ? replicate.backward_samples : replicate.samples;
}

class Backward {
 public:
  Backward(const StackSpec& spec, const ForwardReplicate& replicate, const ForwardTrace& trace, Profile& profile,
           GradientPaths paths, const GridFit* fit)
      : spec_(spec),
        replicate_(replicate),
        trace_(trace),
        profile_(profile),
        paths_(paths == GradientPaths::all && replicate.fault == Fault::no_score_path ? GradientPaths::without_scores
                                                                                      : paths),
        norm_(norm_use(spec.model)),
        attention_(spec, replicate.sequences.count, replicate.grid, fit) {
    const auto layers = static_cast<std::size_t>(spec.model.layers);
    profile_.curves[{Statistic::grad_sq, Signal::x_out}].value.assign(spec.model.depths(), 0.0);
    profile_.curves[{Statistic::score_share, Signal::A_out}].value.assign(2 * layers,
                                                                          std::numeric_limits<double>::quiet_NaN());
    bool gates = false;
    for (int layer = 0; layer < spec.model.layers; ++layer) gates = gates || spec.model.gates_at(layer) > 0;
    for (const Weight w : layer_matrices) {
      const bool exists = w == Weight::gate ? is_gated(spec.model.mlp) : w != Weight::attention_gate || gates;
      if (exists) profile_.curves[{Statistic::grad_sq, w}].value.assign(layers, 0.0);
    }
  }

  void run(const Matrix& loss) {
    const ModelSpec& m = spec_.model;
    const StreamEnds ends = m.ends();
    // The output is plain + N(normed), so N acts on both sides, one side or no side of each term of the kernel.
    Gradients g(ends.names.size(), Matrix::Zero(loss.rows(), loss.cols()));
    g.add(ends.plain, loss);
    g.add(ends.normed, m.final_norm ? through_norm(loss, trace_.final_norm) : loss);
    if (ends.has_plain()) {
      const Matrix once = m.final_norm ? Matrix(slope(trace_.final_norm).asDiagonal() * loss) : loss;
      for (std::size_t i = 0; i < g.count(); ++i) {
        for (std::size_t j = 0; j < g.count(); ++j) {
          g(i, j) += ends.normed[i] * ends.plain[j] * once + ends.plain[i] * ends.normed[j] * once.transpose();
        }
      }
    }
    write(m.steps(), ends, g);
    for (int s = m.steps() - 1; s >= 0; --s) {
      step(s, g);
      write(s, ends, g);
      replicate_.on_work(1.0);
    }
  }

 private:
  /// Gradient kernels of the streams, G_ij = E⟨∂loss/∂x_i,t, ∂loss/∂x_j,t'⟩, [T, T] each.
  using Gradients = StreamPairs<Matrix>;

  /// Backpropagates through a step (T11): replaces the gradient kernels at its output by those at its input.
  void step(int index, Gradients& g) {
    const ModelSpec& m = spec_.model;
    const Step step = step_under(replicate_.fault, m, index);
    for (std::size_t i = 0; i < step.norm_c.size(); ++i) {
      if (!step.norm_c[i]) continue;
      const Vector factor = slope(trace_.norm_c[static_cast<std::size_t>(index)][i]);
      g.scale(i, factor, factor);
    }
    std::vector<Matrix> inputs;  // gradient kernels at A_out of every branch
    for (const Branch& branch : step.branches) {
      const SublayerTrace& t = trace_.sublayers[static_cast<std::size_t>(branch.sublayer)];
      Matrix written = g.sum(branch.writes, branch.writes);
      if (branch.norm_b) written = through_norm(written, t.norm_b);
      inputs.push_back(branch.kind == ModuleKind::attention ? attention(branch.sublayer, t, written)
                                                            : mlp(branch.sublayer, t, written));
    }
    // Gradients of different branches are independent, so their kernels add at a shared norm A.
    for (std::size_t i = 0; i < step.branches.size(); ++i) {
      if (step.branches[i].shares_input) inputs.front() += inputs[i];
    }
    std::vector<std::vector<double>> transposed(g.count(), std::vector<double>(g.count()));
    for (std::size_t i = 0; i < g.count(); ++i) {
      for (std::size_t j = 0; j < g.count(); ++j) transposed[j][i] = step.mixing[i][j];
    }
    g = g.mixed(transposed);
    for (std::size_t i = 0; i < step.branches.size(); ++i) {
      const Branch& branch = step.branches[i];
      if (branch.shares_input || paths_ == GradientPaths::skip_only) continue;
      const Matrix in = squared(branch.input_gain) * inputs[i];
      const NormTrace& trace = trace_.sublayers[static_cast<std::size_t>(branch.sublayer)].norm_a;
      g.add(branch.reads, branch.norm_a ? through_norm(in, trace) : in);
    }
  }

  /// Returns the gradient kernel at a norm's input (T8).
  [[nodiscard]] Matrix through_norm(const Matrix& g, const NormTrace& trace) const {
    return law_of(norm_.kind).gradient(g, trace, norm_, spec_.model.gamma);
  }
  /// Returns the factor that a norm applies to one side of a gradient kernel (T8).
  [[nodiscard]] Vector slope(const NormTrace& trace) const {
    return law_of(norm_.kind).slope(trace, norm_, spec_.model.gamma);
  }

  /// Backpropagates through attention (T9) and sets its weight gradients (T11). The order is: inner norm (T8), gates,
  /// heads, V-norm. Gates multiply the gradient at the head outputs and add a separate path to A_out.
  Matrix attention(int l, const SublayerTrace& forward, const Matrix& g) {
    const ModelSpec& m = spec_.model;
    const Matrix& input = forward.input;
    const int layer = l / 2;
    const double v = variance_of(l, Weight::v) * m.width;
    const double o = variance_of(l, Weight::o);
    const bool gated = m.gates_at(layer) > 0;
    const bool normed = m.v_norm_at(layer);
    const Matrix projected = v * input;
    const Matrix after_gate = m.inner_norm_at(l) ? through_inner_norm(g, forward.r_inner) : g;
    const GateKernels gate = gated ? gate_kernels(spec_, layer, input) : GateKernels{};
    const Matrix dheads = gated ? Matrix(gate.values.cwiseProduct(after_gate)) : after_gate;
    HeadGradients head;
    if (gated || normed || m.inner_norm_at(l)) {
      const Matrix values = normed ? normed_values(projected, m.head_dim_at(layer), m.norm_eps) : projected;
      head = attention_.at(layer).gradients(input, values, dheads, backward_samples(replicate_), patterns(l));
    } else {  // queries, keys and values share a kernel
      head = attention_.at(layer).gradients(input, dheads, backward_samples(replicate_), patterns(l));
      for (Matrix* linear : {&head.output, &head.query, &head.key}) *linear *= v;
    }
    Matrix value = o * m.query_width(layer) * head.value;
    if (normed) value = value.cwiseProduct(normed_values_slope(projected, m.head_dim_at(layer), m.norm_eps));
    Matrix read = gated ? Matrix(gate.values.cwiseProduct(head.output)) : head.output;
    if (m.inner_norm_at(l)) read = through_inner_norm(read, forward.r_inner);
    const Matrix query = o * m.heads * head.query;
    const Matrix key = o * m.heads * head.key;
    Matrix in = through_heads(l, input, {.output = read, .value = value, .query = query, .key = key}, g);
    if (gated) {
      // A gate per head sums the independent gradients of its e channels, so both kinds of gates have the same kernel.
      const Matrix dgate = o * m.query_width(layer) * gate.slopes.cwiseProduct(head.output).cwiseProduct(after_gate);
      set(Weight::attention_gate, l, weight_gradient(m.width, input, dgate));
      in += m.width * variance_of(l, Weight::attention_gate) * dgate;
    }
    return in;
  }

  /// Patterns of the backward pass are independent of the forward pass. Squared gradients are linear in averages over
  /// them, so sampling noise adds no bias. Reusing the forward patterns would bias gradients.
  [[nodiscard]] PatternStream patterns(int l) const {
    return {replicate_.seed, replicate_.index, place::backward_pass + static_cast<std::uint64_t>(l),
            &replicate_.on_work};
  }

  /// Sets the gradients of the attention weights (T11) and returns the gradient kernel at A_out. `heads` holds the
  /// gradient kernels of values, queries and keys and the forward kernel before W_o; g: gradient kernel after W_o.
  Matrix through_heads(int l, const Matrix& input, const HeadGradients& heads, const Matrix& g) {
    const ModelSpec& m = spec_.model;
    const double query_factor = replicate_.fault == Fault::query_gradient ? 1.1 : 1.0;
    set(Weight::q, l, query_factor * weight_gradient(m.width, input, heads.query));
    set(Weight::k, l, weight_gradient(m.width, input, heads.key));
    set(Weight::v, l, weight_gradient(m.width, input, heads.value));
    set(Weight::o, l, weight_gradient(m.query_width(l / 2), heads.output, g));
    const Matrix through_values = m.width * variance_of(l, Weight::v) * heads.value;
    const Matrix through_scores =
        m.width * (variance_of(l, Weight::q) * heads.query + variance_of(l, Weight::k) * heads.key);
    const double scores = trace(through_scores);
    profile_.curves[{Statistic::score_share, Signal::A_out}].value[static_cast<std::size_t>(l)] =
        scores == 0.0 ? 0.0 : scores / (scores + trace(through_values));  // 0/0 counts as 0
    return paths_ == GradientPaths::without_scores ? through_values : Matrix(through_values + through_scores);
  }

  /// Backpropagates through an MLP (T10) and sets its weight gradients (T11).
  Matrix mlp(int l, const SublayerTrace& forward, const Matrix& out) {
    const ModelSpec& m = spec_.model;
    const Matrix& input = forward.input;
    const Matrix& phi = forward.activated;
    const double u = variance_of(l, Weight::up);
    const double d = variance_of(l, Weight::down) * m.mlp_width;
    const Activation activation = activation_of(m.mlp);
    const Matrix up = u * m.width * input;
    Matrix hidden = is_gated(m.mlp) ? Matrix(phi.cwiseProduct(up)) : phi;  // input of W_down
    Matrix g = out;
    if (m.inner_norm_at(l)) {
      const Vector r = inner_square(hidden, m.norm_eps);
      hidden = through_inner_norm(hidden, r);
      g = through_inner_norm(g, r);
    }
    set(Weight::down, l, weight_gradient(m.mlp_width, hidden, out));
    if (!is_gated(m.mlp)) {
      const Matrix du = d * derivative_kernel(activation, up).cwiseProduct(g);
      set(Weight::up, l, weight_gradient(m.width, input, du));
      return u * m.width * du;
    }
    const double w = variance_of(l, Weight::gate);
    const Matrix gate = w * m.width * input;
    const Matrix du = d * phi.cwiseProduct(g);
    const Matrix dgate = d * derivative_kernel(activation, gate).cwiseProduct(up).cwiseProduct(g);
    set(Weight::up, l, weight_gradient(m.width, input, du));
    set(Weight::gate, l, weight_gradient(m.width, input, dgate));
    return m.width * (u * du + w * dgate);
  }

  /// Returns fan_in·Σ_tt' K_in G_out (T11). The replicate's loss is a mean over n of the batch's B windows. Pairs
  /// within a window are 1/n of all pairs here, but 1/B in the batch, so they are reweighted.
  [[nodiscard]] double weight_gradient(int fan_in, const Matrix& input, const Matrix& output) const {
    const Matrix products = input.cwiseProduct(output);
    if (replicate_.grid != nullptr) {
      const auto tokens = static_cast<double>(replicate_.grid->tokens());
      return fan_in * tokens * ((tokens - 1.0) * replicate_.grid->mean_of_pairs(products)) + fan_in * trace(products);
    }
    const auto [count, batch] = replicate_.sequences;
    if (count == batch) return fan_in * products.sum();
    const Index tokens = products.rows() / count;
    double within = 0.0;
    for (int i = 0; i < count; ++i) within += products.block(i * tokens, i * tokens, tokens, tokens).sum();
    const double n = count;
    const double windows = batch;
    return fan_in * n / windows * (within + (windows - 1.0) / (n - 1.0) * (products.sum() - within));
  }

  /// Returns the trace over all tokens.
  [[nodiscard]] double trace(const Matrix& kernel) const {
    return replicate_.grid != nullptr ? static_cast<double>(replicate_.grid->tokens()) * mean(kernel) : kernel.trace();
  }
  /// Returns the mean over tokens of a kernel's diagonal.
  [[nodiscard]] double mean(const Matrix& kernel) const {
    return replicate_.grid != nullptr ? replicate_.grid->mean(kernel.diagonal()) : kernel.diagonal().mean();
  }
  [[nodiscard]] double variance_of(int l, Weight weight) const { return squared(stddev_of(spec_, l / 2, weight)); }
  /// Writes the mean over tokens of E‖∂loss/∂x_t‖² for the first stream, at fixed other streams, or its sum over the
  /// streams that are parts of x_out. At depth 0 all streams are equal, and the gradient is the total over streams.
  void write(int depth, const StreamEnds& ends, const Gradients& g) {
    const bool parts = ends.parts_of_stream() > 1;
    double square = 0.0;
    if (depth == 0 && !parts) {
      const std::vector<double> all(g.count(), 1.0);
      square = mean(g.sum(all, all));
    } else {
      for (std::size_t i = 0; i < (parts ? g.count() : 1); ++i) square += mean(g(i, i));
    }
    const double share = static_cast<double>(replicate_.sequences.count) / replicate_.sequences.batch;
    profile_.curves[{Statistic::grad_sq, Signal::x_out}].value[static_cast<std::size_t>(depth)] =
        squared(share) * square;
  }
  void set(Weight weight, int sublayer, double value) {
    profile_.curves[{Statistic::grad_sq, weight}].value[static_cast<std::size_t>(sublayer / 2)] = value;
  }

  const StackSpec& spec_;
  const ForwardReplicate& replicate_;
  const ForwardTrace& trace_;
  Profile& profile_;
  GradientPaths paths_;
  NormUse norm_;
  StackAttention attention_;
};

}  // namespace

void backward_profile(const StackSpec& spec, const ForwardReplicate& replicate, const ForwardTrace& trace,
                      const std::vector<std::vector<int>>& labels, Profile& profile, GradientPaths paths) {
  const PatternStream stream{replicate.seed, replicate.index, place::backward_pass + place::logits};
  // A logit matrix averages over the vocabulary, so large vocabularies need fewer samples.
  constexpr int enough_logits = 2048;
  const int classes = spec.model.unembedding ? spec.model.vocab : spec.model.width;
  const int samples = backward_samples(replicate);
  const int draws = classes <= enough_logits ? samples : std::max(1, samples / (classes / enough_logits));
  std::optional<GridFit> on_grid;
  if (replicate.grid != nullptr) on_grid.emplace(*replicate.grid);
  const GridFit* fit = on_grid ? &*on_grid : nullptr;
  const Matrix loss = loss_gradient(spec, trace.output, labels, draws, stream, fit);
  Backward(spec, replicate, trace, profile, paths, fit).run(loss);
}

}  // namespace periscope::theory
