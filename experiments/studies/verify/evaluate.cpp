#include "experiments/studies/verify/evaluate.h"

#include <algorithm>
#include <cmath>

#include "sim/measure/signal_keeper.h"
#include "sim/model/loss.h"
#include "sim/numerics/number_format.h"
#include "sim/reference/backend.h"
#include "theory/certify/spectral_norm.h"

namespace periscope::verify {
namespace {

constexpr int mlp_sublayer = 1;

const Backend& reference() {
  static const std::unique_ptr<Backend> backend = make_reference_backend();
  return *backend;
}

/// Keeps the gradient of W2.
class DownGradient final : public GradientRecorder {
 public:
  void on_gradient(const ParameterId& parameter, const ParameterGradient& of_parameter) override {
    if (parameter == matrix_id(0, Weight::down)) gradient = of_parameter.whole();
  }
  Tensor gradient;
};

double largest_magnitude(std::span<const double> x) {
  double largest = 0.0;
  for (const double v : x) largest = std::isnan(v) ? v : std::max(largest, std::abs(v));
  return largest;
}

/// ‖x‖, where squares might underflow.
double length(std::span<const double> x) {
  const double largest = largest_magnitude(x);
  if (!(largest > 0.0) || std::isinf(largest)) return largest;
  double sum = 0.0;
  for (const double v : x) sum += (v / largest) * (v / largest);
  return largest * std::sqrt(sum);
}

/// Below this a mean square has lost digits to underflow.
constexpr double smallest_square = 1e-290;

/// A norm that sees x, D features of one token. `condition` is LayerNorm's |mean| over what it divides by, and infinite
/// where squares underflow.
theory::NormPass pass_of(const ModelSpec& m, std::span<const double> gain, const double* x, double& condition) {
  const auto n = static_cast<std::size_t>(m.width);
  double mean = 0.0;
  if (subtracts_mean(m.norm)) {
    for (std::size_t i = 0; i < n; ++i) mean += x[i] / static_cast<double>(n);
  }
  double square = 0.0;
  for (std::size_t i = 0; i < n; ++i) square += (x[i] - mean) * (x[i] - mean) / static_cast<double>(n);
  const double rms = std::sqrt(square + m.norm_eps);
  condition = rms > 0.0 ? std::abs(mean) / rms : 0.0;
  if (rms > 0.0 && square + m.norm_eps < smallest_square) condition = HUGE_VAL;
  return {m.norm, m.width, largest_magnitude(gain), square, m.norm_eps};
}

/// Error analysis of the backward pass, first order in u, for the gradient of a relative to path_norm.
/// p − y: each p_j has a relative error of at most (classes + 6)u, as |Δ|e^−|Δ| < 1 bounds what the rounding of a
/// logit difference Δ does; p_y − 1 adds u: together (2·classes + 16)u, not relative to wrong_probability. Then come,
/// relative to √2·wrong_probability: U (a sum of `classes` terms, Σ|U||v| ≤ √min(D, V)·‖U‖₂‖v‖); every norm, three
/// terms of magnitude ‖g‖/s with D + 8 roundings each, eightfold (tests/support/gradient_tolerances.h), and LayerNorm's
/// mean, whose error of (D+2)u|mean| turns x̂ by up to 2(D+2)u|mean|/s; and the sums over tokens and units that follow.
double rounding_of(const BoundCase& c, const TokenFacts& token, double conditions) {
  const double d = c.width();
  const double classes = c.classes();
  double roundings = 32.0 + c.tokens() + c.units();
  if (c.has_unembedding()) roundings += (classes + d) * std::sqrt(std::min(d, classes));
  roundings += 24.0 * (d + 8.0) * (static_cast<double>(token.passes) + conditions);
  if (conditions == HUGE_VAL) return HUGE_VAL;
  return fp64.unit_roundoff() * (2.0 * classes + 16.0 + std::sqrt(2.0) * token.wrong_probability * roundings);
}

void fill_probabilities(const BoundCase& c, const std::vector<double>& logits, Evaluation& e) {
  const auto classes = static_cast<std::size_t>(c.classes());
  const std::vector<int> labels = c.labels();
  for (std::size_t t = 0; t < labels.size(); ++t) {
    const double* row = logits.data() + t * classes;
    const auto label = static_cast<std::size_t>(labels[t]);
    const double largest = *std::max_element(row, row + classes);
    double wrong = 0.0;
    for (std::size_t j = 0; j < classes; ++j) {
      if (j != label) wrong += std::exp(row[j] - largest);
    }
    const double total = wrong + std::exp(row[label] - largest);
    e.tokens[t].wrong_probability = wrong / total;
    for (std::size_t j = 0; j < classes; ++j) {
      e.probabilities.push_back(std::exp(row[j] - largest) / total);
      e.wrong.push_back(j == label ? -e.tokens[t].wrong_probability : e.probabilities.back());
    }
  }
}

/// The terms of T15: αx, β·branch and their sum, before norm C.
void fill_growth(const BoundCase& c, const std::vector<double>& branches, const std::vector<double>& sums,
                 Evaluation& e) {
  const auto d = static_cast<std::size_t>(c.width());
  const double scale = 1.0 / std::sqrt(static_cast<double>(d));
  const SublayerRule rule = c.rule();
  for (std::size_t t = 0; t < e.tokens.size(); ++t) {
    const std::span stream = c.values("x").subspan(t * d, d);
    const std::span branch(branches.data() + t * d, d);
    const double stream_norm = length(stream);
    const double branch_norm = length(branch);
    double dot = 0.0;
    for (std::size_t i = 0; i < d; ++i) dot += stream[i] * branch[i];
    TokenFacts& token = e.tokens[t];
    token.stream_rms = std::abs(rule.alpha) * stream_norm * scale;
    token.branch_rms = std::abs(rule.beta) * branch_norm * scale;
    token.out_rms = length({sums.data() + t * d, d}) * scale;
    const double magnitude = stream_norm * branch_norm;
    if (magnitude > 0.0) token.cosine = std::copysign(1.0, rule.alpha * rule.beta) * dot / magnitude;
  }
}

void fill_gradient(const BoundCase& c, const Tensor& hidden, const Tensor& gradient, Evaluation& e) {
  const auto units = static_cast<std::size_t>(c.units());
  e.hidden = reference().to_host(hidden);
  e.gradient = reference().to_host(gradient);
  e.gradient_norm = length(e.gradient);
  for (std::size_t t = 0; t < e.tokens.size(); ++t) {
    e.tokens[t].hidden = length(std::span(e.hidden).subspan(t * units, units));
  }
}

}  // namespace

Evaluation evaluate(const BoundCase& c) {
  const Backend& ops = reference();
  const ModelSpec model = c.model();
  const CaseWeights weights(ops, model, c);
  const StackContext context{.ops = ops, .model = model, .weights = weights};
  SignalKeeper signals(Pass::forward);
  DownGradient down;
  const Hooks hooks{.recorders = {&signals}, .gradients = {&down}};
  StackTape tape;
  tape.context = &context;
  const Tensor x = ops.from_host(c.tokens(), model.width, DType::f64, c.values("x"));
  const Streams out = pass_steps(context, {x}, mlp_sublayer, mlp_sublayer + 1, hooks, &tape);
  const Loss loss = loss_of(context, leave_stack(context, out, hooks, &tape), c.labels());
  (void)step_backward(*tape.passes.back(), back_into_stack(tape, loss.doutput));
  const auto host = [&](Signal signal) { return ops.to_host(signals.at(mlp_sublayer, signal)); };
  const std::vector<double> f_out = host(Signal::f_out);
  const std::vector<double> sum = host(Signal::sum);
  const std::vector<double> x_out = host(Signal::x_out);

  Evaluation e;
  e.tokens.resize(static_cast<std::size_t>(c.tokens()));
  e.beta = c.number("beta");
  if (model.unembedding) e.unembedding = theory::spectral_norm(c.values("unembedding"), model.vocab, model.width);
  e.module = f_out;
  fill_gradient(c, signals.at(mlp_sublayer, Signal::hidden), down.gradient, e);
  fill_probabilities(c, ops.to_host(loss.logits), e);
  fill_growth(c, host(Signal::B_out), sum, e);
  for (std::size_t t = 0; t < e.tokens.size(); ++t) {
    TokenFacts& token = e.tokens[t];
    double conditions = 0.0;
    const auto add = [&](std::string_view gain, const std::vector<double>& input) {
      if (!c.has(gain)) return;
      double condition = 0.0;
      token.norms[token.passes++] =
          pass_of(model, c.values(gain), input.data() + t * static_cast<std::size_t>(model.width), condition);
      conditions += condition;
    };
    add("norm_b.gain", f_out);
    add("norm_c.gain", sum);
    add("final_norm.gain", x_out);
    token.rounding = rounding_of(c, token, conditions);
  }
  return e;
}

}  // namespace periscope::verify
