#include "experiments/studies/verify/evaluate.h"

#include "tests/support/doctest.h"

#include <algorithm>
#include <cmath>

#include "experiments/studies/verify/bound_case.h"
#include "sim/measure/signal_keeper.h"
#include "sim/model/loss.h"
#include "sim/reference/backend.h"
#include "tests/support/compare.h"
#include "tests/support/edited_weights.h"
#include "tests/support/finite_difference.h"
#include "tests/support/recorded_stack.h"

/// What `verify` measures is the gradient of sim/model, of the loss that the case describes.
namespace periscope::testing {
namespace {

std::vector<double> host(const Tensor& x) { return truth().to_host(x); }

verify::CaseNorm host(const NormWeights& w) {
  return {host(w.gain), w.bias.empty() ? std::vector<double>{} : host(w.bias)};
}

class DownRecorder final : public GradientRecorder {
 public:
  void on_gradient(const ParameterId& parameter, const ParameterGradient& of_parameter) override {
    if (parameter == matrix_id(0, Weight::down)) gradient = host(of_parameter.whole());
  }
  std::vector<double> gradient;
};

TEST_CASE("a case cut out of a whole stack has the gradient that the whole stack has") {
  for (const char* placement : {"pre", "peri", "post", "b-only", "a+c"}) {
    for (const NormKind norm : {NormKind::rms, NormKind::layer}) {
      for (const MlpKind mlp : {MlpKind::relu, MlpKind::gelu, MlpKind::swiglu}) {
        StackSpec spec = placed(tiny_stack(), placement);
        spec.model.layers = 1;
        spec.model.norm = norm;
        spec.model.mlp = mlp;
        spec.model.norm_eps = 1e-3;
        spec.model.unembedding = norm == NormKind::rms;
        const GeneratedWeights drawn(truth(), spec, DType::f64, 3);
        const EditedWeights weights(drawn, same_matrix, random_norms(truth()));
        const StackContext context{.ops = truth(), .model = spec.model, .weights = weights};
        verify::BoundCase c;
        c.model = verify::case_model(spec.model.rule(1), spec.model.width, spec.model.mlp_width);
        c.model.norm = norm;
        c.model.mlp = mlp;
        c.model.norm_eps = spec.model.norm_eps;
        c.model.final_norm = spec.model.final_norm;
        c.model.unembedding = spec.model.unembedding;
        c.model.vocab = spec.model.vocab;
        for (int t = 0; t < spec.input.tokens; ++t) c.labels.push_back((3 * t + 1) % spec.model.width);
        SignalKeeper signals(Pass::forward);
        DownRecorder whole;
        (void)backpropagate(context, gaussian_input(truth(), spec, DType::f64, 3), c.labels,
                            {.recorders = {&signals}, .gradients = {&whole}});

        c.x = host(signals.at(1, Signal::x_in));
        if (is_gated(mlp)) c.gate = host(matrix_of(weights, spec.model, 0, Weight::gate));
        c.up = host(matrix_of(weights, spec.model, 0, Weight::up));
        c.down = host(matrix_of(weights, spec.model, 0, Weight::down));
        if (c.model.unembedding) c.unembedding = host(matrix_of(weights, spec.model, 0, Weight::unembedding));
        if (c.rule().norm_a) c.a = host(norm_of(weights, spec.model, 1, Weight::norm_a));
        if (c.rule().norm_b) c.b = host(norm_of(weights, spec.model, 1, Weight::norm_b));
        if (c.rule().norm_c) c.c = host(norm_of(weights, spec.model, 1, Weight::norm_c));
        if (c.model.final_norm) c.final = host(norm_of(weights, spec.model, 2, Weight::final_norm));
        CAPTURE(placement);
        check_same_bits("gradient of W2", verify::evaluate(c).gradient, whole.gradient);
      }
    }
  }
}

/// The loss of a case by plain loops that know nothing of sim: biases b1 and b2 appear as such.
class PlainLoss {
 public:
  explicit PlainLoss(const verify::BoundCase& c) : c_(c) {}

  [[nodiscard]] double at(std::span<const double> down) const {
    double loss = 0.0;
    for (int t = 0; t < c_.tokens(); ++t) loss += token(t, down) / c_.tokens();
    return loss;
  }

 private:
  using Values = std::vector<double>;
  [[nodiscard]] std::size_t width() const { return static_cast<std::size_t>(c_.model.width); }

  [[nodiscard]] Values normed(const verify::CaseNorm& n, Values x) const {
    double mean = 0.0;
    double square = 0.0;
    for (const double v : x) mean += c_.model.norm == NormKind::layer ? v / c_.model.width : 0.0;
    for (const double v : x) square += (v - mean) * (v - mean) / c_.model.width;
    for (std::size_t i = 0; i < x.size(); ++i) {
      x[i] = n.gain[i] * (x[i] - mean) / std::sqrt(square + c_.model.norm_eps) + (n.bias.empty() ? 0.0 : n.bias[i]);
    }
    return x;
  }
  [[nodiscard]] double activation(double u) const {
    switch (activation_of(c_.model.mlp)) {
      case Activation::relu: return std::max(u, 0.0);
      case Activation::gelu: return 0.5 * u * std::erfc(-u / std::sqrt(2.0));
      case Activation::gelu_tanh: return 0.5 * u * (1.0 + std::tanh(0.7978845608028654 * (u + 0.044715 * u * u * u)));
      default: return u / (1.0 + std::exp(-u));
    }
  }
  [[nodiscard]] static double product(const Values& w, std::size_t row, const Values& x) {
    double sum = 0.0;
    for (std::size_t j = 0; j < x.size(); ++j) sum += w[row * x.size() + j] * x[j];
    return sum;
  }
  [[nodiscard]] double token(int t, std::span<const double> down) const {
    const std::size_t d = width();
    const auto units = static_cast<std::size_t>(c_.model.mlp_width);
    const Values x(c_.x.begin() + t * c_.model.width, c_.x.begin() + (t + 1) * c_.model.width);
    const Values input = c_.rule().norm_a ? normed(c_.a, x) : x;
    Values a = c_.down_bias.empty() ? Values(d, 0.0) : c_.down_bias;
    for (std::size_t i = 0; i < units; ++i) {
      const double u = product(c_.up, i, input) + (c_.up_bias.empty() ? 0.0 : c_.up_bias[i]);
      const double gate =
          c_.gate.empty() ? u : product(c_.gate, i, input) + (c_.gate_bias.empty() ? 0.0 : c_.gate_bias[i]);
      const double h = activation(gate) * (c_.gate.empty() ? 1.0 : u);
      for (std::size_t j = 0; j < d; ++j) a[j] += down[j * units + i] * h;
    }
    if (c_.rule().norm_b) a = normed(c_.b, a);
    Values o(d);
    for (std::size_t j = 0; j < d; ++j) o[j] = c_.rule().alpha * x[j] + c_.rule().beta * a[j];
    if (c_.rule().norm_c) o = normed(c_.c, o);
    if (c_.model.final_norm) o = normed(c_.final, o);
    Values logits = o;
    if (c_.model.unembedding) {
      logits.resize(static_cast<std::size_t>(c_.model.vocab));
      for (std::size_t v = 0; v < logits.size(); ++v) logits[v] = product(c_.unembedding, v, o);
    }
    const double largest = *std::ranges::max_element(logits);
    double sum = 0.0;
    for (const double z : logits) sum += std::exp(z - largest);
    return std::log(sum) + largest - logits[static_cast<std::size_t>(c_.labels[static_cast<std::size_t>(t)])];
  }

  const verify::BoundCase& c_;
};

/// Small logits and a loss that moves: what finite differences can see.
bool is_tame(const verify::BoundCase& c, const verify::Evaluation& e) {
  if (c.model.width < 2 || c.model.width > 12 || c.model.mlp_width > 12 || !(e.gradient_norm > 1e-3)) return false;
  for (const double g : e.gradient) {
    if (!(std::abs(g) < 1e3)) return false;
  }
  for (const verify::TokenFacts& t : e.tokens) {
    if (!(t.wrong_probability > 0.05)) return false;
    for (std::size_t k = 0; k < t.passes; ++k) {
      if (!(t.norms[k].mean_square + t.norms[k].eps > 0.1) || t.norms[k].gain > 10.0) return false;
    }
  }
  for (const double a : e.module) {
    if (!(std::abs(a) < 10.0)) return false;
  }
  for (const double h : e.hidden) {
    if (!(std::abs(h) < 10.0)) return false;
  }
  return true;
}

TEST_CASE("finite differences of a loss by plain loops, biases as biases") {
  int checked = 0;
  int biased = 0;
  for (std::uint32_t id = 0; checked < 60 && id < 20000; ++id) {
    const verify::BoundCase c = verify::generate_case(5, id);
    const verify::Evaluation e = verify::evaluate(c);
    if (!is_tame(c, e)) continue;
    const PlainLoss loss(c);
    const std::vector<double>& point = c.down;
    if (loss.at(point) > 30.0) continue;
    ++checked;
    biased += static_cast<int>(!c.down_bias.empty());
    CAPTURE(id);
    check_gradient("gradient of W2", {.loss = [&](std::span<const double> down) { return loss.at(down); },
                                      .point = point,
                                      .gradient = e.gradient,
                                      .loss_error = 1e-13 * (1.0 + loss.at(point)),
                                      .step = 1e-3});
  }
  CHECK(checked == 60);
  CHECK(biased >= 5);
}

TEST_CASE("1 - p_y keeps its digits where p_y is nearly 1") {
  verify::BoundCase c;
  c.model = verify::case_model({.norm_a = false}, 2, 1);
  c.x = {40.0, 0.0};
  c.up = {1.0, 0.0};
  c.down = {0.0, 0.0};
  c.labels = {0};
  const verify::Evaluation e = verify::evaluate(c);
  CHECK(e.tokens[0].wrong_probability == doctest::Approx(std::exp(-40.0)).epsilon(1e-14));
  CHECK(e.tokens[0].hidden == 40.0);
}

}  // namespace
}  // namespace periscope::testing
