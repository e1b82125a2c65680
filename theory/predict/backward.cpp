#include "theory/predict/backward.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "sim/spec/weight.h"

namespace periscope::theory {
namespace {

double squared(double x) { return x * x; }

int backward_samples(const ForwardChain& chain) {
  return chain.backward_samples > 0 ? chain.backward_samples : chain.samples;
}

/// T8: G_tt' → gain² G_tt'/√(r_t r_t').
Matrix through_norm(const Matrix& g, const Vector& r, double gain) {
  const Vector scale = r.unaryExpr([&](double v) { return v > 0 ? gain / std::sqrt(v) : 0.0; });
  return scale.asDiagonal() * g * scale.asDiagonal();
}

/// One side of the same, for the kernel of two different gradients.
Matrix through_norm_once(const Matrix& x, const Vector& r, double gain) {
  return r.unaryExpr([&](double v) { return v > 0 ? gain / std::sqrt(v) : 0.0; }).asDiagonal() * x;
}

class Backward {
 public:
  Backward(const StackSpec& spec, const ForwardChain& chain, const ForwardTrace& trace, Profile& profile,
           GradientPaths paths)
      : spec_(spec),
        chain_(chain),
        trace_(trace),
        profile_(profile),
        paths_(paths_under(chain.fault, paths)),
        attention_(spec, chain.sequences.count) {
    const auto layers = static_cast<std::size_t>(spec.model.layers);
    profile_.curves[{Statistic::grad_sq, Signal::x_out}].value.assign(2 * layers + 1, 0.0);
    profile_.curves[{Statistic::score_share, Signal::A_out}].value.assign(2 * layers,
                                                                          std::numeric_limits<double>::quiet_NaN());
    for (const Weight w : {Weight::q, Weight::k, Weight::v, Weight::o, Weight::gate, Weight::up, Weight::down}) {
      if (w != Weight::gate || is_gated(spec.model.mlp))
        profile_.weight_curves[{Statistic::grad_sq, w}].value.assign(layers, 0.0);
    }
  }

  void run(const Matrix& loss) {
    const ModelSpec& m = spec_.model;
    const Matrix normed = m.final_norm ? through_norm(loss, trace_.r_final, m.gamma) : loss;
    if (m.placement.two_streams) {
      g_ = loss;
      g_r_ = normed;
      cross_ = m.final_norm ? Matrix(through_norm_once(loss, trace_.r_final, m.gamma).transpose()) : loss;
    } else {
      g_ = normed;
    }
    write(m.sublayers());
    for (int l = m.sublayers() - 1; l >= 0; --l) {
      step(l);
      if (l == 0 && m.placement.two_streams) g_ += g_r_ + cross_ + cross_.transpose();
      write(l);
      chain_.on_work(1.0);
    }
  }

 private:
  /// Goes from the gradient kernel at x_out of sublayer l to that at its x_in.
  void step(int l) {
    const ModelSpec& m = spec_.model;
    const SublayerRule rule = rule_under(chain_.fault, m, l);
    const SublayerTrace& t = trace_.sublayers[static_cast<std::size_t>(l)];
    const Matrix sum = rule.norm_c ? through_norm(g_, t.r_c, m.gamma) : g_;
    Matrix branch = sum;
    if (m.placement.two_streams) {
      if (rule.norm_c) cross_ = through_norm_once(cross_, t.r_c, m.gamma);
      branch += g_r_ + cross_ + cross_.transpose();
      cross_ *= rule.alpha;
    }
    branch *= squared(rule.beta);
    if (rule.norm_b) branch = through_norm(branch, t.r_b, m.gamma);
    Matrix in = ModelSpec::is_attention(l) ? attention(l, t.input, branch) : mlp(l, t, branch);
    in *= squared(rule.input_gain);
    if (rule.norm_a) in = through_norm(in, t.r_a, m.gamma);
    g_ = squared(rule.alpha) * sum;
    if (paths_ != GradientPaths::skip_only) g_ += in;
  }

  /// T9 and the attention weights' T11.
  Matrix attention(int l, const Matrix& input, const Matrix& g) {
    const ModelSpec& m = spec_.model;
    const double q = squared(std_of(l, Weight::q));
    const double k = squared(std_of(l, Weight::k));
    const double v = squared(std_of(l, Weight::v));
    const double o = squared(std_of(l, Weight::o));
    // The backward pass samples patterns of its own. A squared gradient is linear in them, so their noise leaves its
    // mean unbiased; with the patterns of the forward pass, on which the kernels depend too, it would not.
    const PatternStream stream{chain_.seed, chain_.replicate, place::backward_pass + static_cast<std::uint64_t>(l),
                               &chain_.on_work};
    const HeadGradients head = attention_.at(l / 2).gradients(input, g, backward_samples(chain_), stream);
    const Matrix value = o * m.query_width() * head.value;
    const Matrix query = v * m.width * o * m.heads * head.query;
    const Matrix key = v * m.width * o * m.heads * head.key;
    set(Weight::q, l, query_gradient_factor(chain_.fault) * weight_gradient(m.width, input, query));
    set(Weight::k, l, weight_gradient(m.width, input, key));
    set(Weight::v, l, weight_gradient(m.width, input, value));
    set(Weight::o, l, weight_gradient(m.query_width(), v * m.width * head.output, g));
    const Matrix through_values = m.width * v * value;
    const Matrix through_scores = m.width * (q * query + k * key);
    const double scores = through_scores.trace();
    profile_.curves[{Statistic::score_share, Signal::A_out}].value[static_cast<std::size_t>(l)] =
        scores == 0.0 ? 0.0 : scores / (scores + through_values.trace());  // 0 of 0 is none
    return paths_ == GradientPaths::without_scores ? through_values : Matrix(through_values + through_scores);
  }

  /// T10 and the MLP weights' T11.
  Matrix mlp(int l, const SublayerTrace& forward, const Matrix& g) {
    const ModelSpec& m = spec_.model;
    const Matrix& input = forward.input;
    const Matrix& phi = forward.activated;
    const double u = squared(std_of(l, Weight::up));
    const double d = squared(std_of(l, Weight::down)) * m.mlp_width;
    const Activation activation = activation_of(m.mlp);
    const Matrix up = u * m.width * input;
    if (!is_gated(m.mlp)) {
      const Matrix du = d * derivative_kernel(activation, up).cwiseProduct(g);
      set(Weight::down, l, weight_gradient(m.mlp_width, phi, g));
      set(Weight::up, l, weight_gradient(m.width, input, du));
      return u * m.width * du;
    }
    const double w = squared(std_of(l, Weight::gate));
    const Matrix gate = w * m.width * input;
    const Matrix du = d * phi.cwiseProduct(g);
    const Matrix dgate = d * derivative_kernel(activation, gate).cwiseProduct(up).cwiseProduct(g);
    set(Weight::down, l, weight_gradient(m.mlp_width, phi.cwiseProduct(up), g));
    set(Weight::up, l, weight_gradient(m.width, input, du));
    set(Weight::gate, l, weight_gradient(m.width, input, dgate));
    return m.width * (u * du + w * dgate);
  }

  /// T11: n Σ_tt' K_in G_out. Of n sequences of a batch of B, whose loss is here the mean over these: pairs of tokens
  /// of one sequence are one in n pairs here and one in B there.
  [[nodiscard]] double weight_gradient(int fan_in, const Matrix& input, const Matrix& output) const {
    const Matrix products = input.cwiseProduct(output);
    const auto [count, of] = chain_.sequences;
    if (count == of) return fan_in * products.sum();
    const Eigen::Index tokens = products.rows() / count;
    double within = 0.0;
    for (int i = 0; i < count; ++i) within += products.block(i * tokens, i * tokens, tokens, tokens).sum();
    const double n = count;
    const double batch = of;
    return fan_in * n / batch * (within + (batch - 1.0) / (n - 1.0) * (products.sum() - within));
  }

  [[nodiscard]] double std_of(int l, Weight weight) const { return stddev_of(spec_, l / 2, weight); }
  void write(int depth) {
    const double share = static_cast<double>(chain_.sequences.count) / chain_.sequences.of;
    profile_.curves[{Statistic::grad_sq, Signal::x_out}].value[static_cast<std::size_t>(depth)] =
        squared(share) * g_.diagonal().mean();
  }
  void set(Weight weight, int sublayer, double value) {
    profile_.weight_curves[{Statistic::grad_sq, weight}].value[static_cast<std::size_t>(sublayer / 2)] = value;
  }

  const StackSpec& spec_;
  const ForwardChain& chain_;
  const ForwardTrace& trace_;
  Profile& profile_;
  GradientPaths paths_;
  StackAttention attention_;
  Matrix g_;      // E⟨∂loss/∂x_t, ∂loss/∂x_t'⟩ of the stream
  Matrix g_r_;    // ResiDual: of the second stream, the same at every depth
  Matrix cross_;  // ResiDual: E⟨∂loss/∂x_t, ∂loss/∂r_t'⟩
};

}  // namespace

void backward_profile(const StackSpec& spec, const ForwardChain& chain, const ForwardTrace& trace,
                      const std::vector<std::vector<int>>& labels, Profile& profile, GradientPaths paths) {
  const PatternStream stream{chain.seed, chain.replicate, place::backward_pass + place::logits};
  // A logit matrix averages over the vocabulary itself: a large one needs fewer of them.
  constexpr int enough_logits = 2048;
  const int classes = spec.model.unembedding ? spec.model.vocab : spec.model.width;
  const int samples = backward_samples(chain);
  const int draws = classes <= enough_logits ? samples : std::max(1, samples / (classes / enough_logits));
  const Matrix loss = loss_gradient(spec, trace.output, labels, draws, stream);
  Backward(spec, chain, trace, profile, paths).run(loss);
}

}  // namespace periscope::theory
