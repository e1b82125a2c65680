#include "experiments/studies/verify/statements.h"

#include <algorithm>
#include <cmath>

#include "sim/measure/signal_store.h"
#include "sim/model/loss.h"
#include "sim/model/resident_weights.h"
#include "sim/numerics/larger.h"
#include "sim/numerics/number_format.h"
#include "sim/reference/backend.h"
#include "theory/certify/spectral_norm.h"

namespace periscope::verify {
namespace {

const Backend& reference() {
  static const std::unique_ptr<Backend> backend = make_reference_backend();
  return *backend;
}

class DownGradient final : public GradientRecorder {
 public:
  void on_gradient(const ParameterId& parameter, const ParameterGradient& of_parameter) override {
    if (parameter == matrix_id(0, Weight::down)) gradient = of_parameter.whole();
  }
  Tensor gradient;
};

/// Returns the weights of the MLP, the final norm and the head.
ResidentWeights weights_of(const ModelSpec& model, const BoundCase& c) {
  ResidentWeights::Parameters all;
  for (const ParameterKind& kind : parameter_kinds()) {
    const std::span<const double> values = c.values(kind.name);
    if (!kind.weight || values.empty()) continue;
    const auto rows = static_cast<Tensor::Index>(kind.cols == Dimension::one ? 1 : c.size(kind.rows));
    all[*kind.weight] =
        reference().from_host(rows, static_cast<Tensor::Index>(values.size()) / rows, DType::f64, values);
  }
  return {model, std::move(all)};
}

/// Returns ‖x‖ without underflow or overflow of squares.
double length(std::span<const double> x) {
  const double largest = largest_magnitude(x);
  if (!(largest > 0.0) || std::isinf(largest)) return largest;
  double sum = 0.0;
  for (const double v : x) sum += (v / largest) * (v / largest);
  return largest * std::sqrt(sum);
}

/// Returns the statistics of a norm on x, the features of one token. Adds its condition number to `conditions`: for
/// LayerNorm, |mean| / divisor; for RMSNorm, 0; infinite if squares underflow.
theory::NormPass pass_of(const ModelSpec& m, std::span<const double> gain, std::span<const double> x,
                         double& conditions) {
  constexpr double smallest_square = 1e-290;  // below this, a mean square has lost digits to underflow
  const auto n = static_cast<double>(x.size());
  double mean = 0.0;
  if (subtracts_mean(m.norm)) {
    for (const double v : x) mean += v / n;
  }
  double square = 0.0;
  for (const double v : x) square += (v - mean) * (v - mean) / n;
  const double rms = std::sqrt(square + m.norm_eps);
  if (rms > 0.0) conditions += square + m.norm_eps < smallest_square ? HUGE_VAL : std::abs(mean) / rms;
  return {m.norm, m.width, largest_magnitude(gain), square, m.norm_eps};
}

/// Returns a bound on rounding of the gradient of a, relative to path_norm, to first order in u. p − y: each p_j has a
/// relative error of at most (classes + 6)u, as |Δ|e^−|Δ| < 1 bounds the effect of rounding a logit difference Δ; p_y −
/// 1 adds u: together (2·classes + 16)u, not relative to wrong_probability. The other terms are relative to
/// √2·wrong_probability: U (a sum of `classes` terms, Σ|U||v| ≤ √min(D, V)·‖U‖₂‖v‖); every norm, three terms of
/// magnitude ‖g‖/s with D + 8 roundings each, times 8 (tests/support/tolerances.h); LayerNorm's mean, whose
/// error of (D+2)u|mean| turns x̂ by up to 2(D+2)u|mean|/s; and the sums over tokens and units.
double rounding_of(const BoundCase& c, const TokenTerms& token, double conditions) {
  const double d = c.width();
  const double classes = c.classes();
  double roundings = 32.0 + c.tokens() + c.units();
  if (c.has("unembedding")) roundings += (classes + d) * std::sqrt(std::min(d, classes));
  roundings += 24.0 * (d + 8.0) * (static_cast<double>(token.path.norms.size()) + conditions);
  if (conditions == HUGE_VAL) return HUGE_VAL;
  return fp64.unit_roundoff() * (2.0 * classes + 16.0 + std::sqrt(2.0) * token.path.wrong_probability * roundings);
}

/// Computes 1 − p_y and p − y of one token from its logits.
void fill_probabilities(std::span<const double> logits, std::size_t label, TokenTerms& token, Evaluation& e) {
  const double largest = *std::ranges::max_element(logits);
  double wrong = 0.0;
  for (std::size_t j = 0; j < logits.size(); ++j) {
    if (j != label) wrong += std::exp(logits[j] - largest);
  }
  const double total = wrong + std::exp(logits[label] - largest);
  token.path.wrong_probability = wrong / total;
  for (std::size_t j = 0; j < logits.size(); ++j) {
    e.wrong.push_back(j == label ? -token.path.wrong_probability : std::exp(logits[j] - largest) / total);
  }
}

/// Fills the terms of every token from the signals of the forward pass.
void fill_tokens(const BoundCase& c, const ModelSpec& model, const SignalStore& signals, std::span<const double> logits,
                 Evaluation& e) {
  const auto host = [&](Signal signal) { return reference().to_host(signals.at(mlp_sublayer, signal)); };
  const std::vector<double> branches = host(Signal::B_out), sums = host(Signal::sum), outputs = host(Signal::x_out);
  const SublayerRule rule = c.rule();
  const double scale = 1.0 / std::sqrt(static_cast<double>(model.width));
  const std::vector<int> labels = c.labels();
  for (std::size_t t = 0; t < labels.size(); ++t) {
    TokenTerms& token = e.tokens[t];
    const auto part = [&](std::span<const double> all) {
      const std::size_t size = all.size() / labels.size();
      return all.subspan(t * size, size);
    };
    fill_probabilities(part(logits), static_cast<std::size_t>(labels[t]), token, e);
    token.hidden = length(part(e.hidden));
    const std::span<const double> stream = part(c.values("x")), branch = part(branches);
    const double stream_norm = length(stream), branch_norm = length(branch);
    token.stream_rms = std::abs(rule.alpha) * stream_norm * scale;
    token.branch_rms = std::abs(rule.beta) * branch_norm * scale;
    token.out_rms = length(part(sums)) * scale;
    double dot = 0.0;
    for (std::size_t i = 0; i < stream.size(); ++i) dot += stream[i] * branch[i];
    const double magnitude = stream_norm * branch_norm;
    if (magnitude > 0.0) token.cosine = std::copysign(1.0, rule.alpha * rule.beta) * dot / magnitude;
    double conditions = 0.0;
    const auto add = [&](std::string_view gain, const std::vector<double>& input) {
      if (c.has(gain)) token.path.norms.push_back(pass_of(model, c.values(gain), part(input), conditions));
    };
    add("norm_b.gain", e.module);
    add("norm_c.gain", sums);
    add("final_norm.gain", outputs);
    token.rounding = rounding_of(c, token, conditions);
  }
}

}  // namespace

double largest_magnitude(std::span<const double> x) {
  double largest = 0.0;
  for (const double v : x) largest = larger(largest, std::abs(v));
  return largest;
}

Evaluation evaluate(const BoundCase& c) {
  const Backend& ops = reference();
  const ModelSpec model = c.model();
  const ResidentWeights weights = weights_of(model, c);
  const StackContext context{.ops = ops, .model = model, .weights = weights};
  SignalStore signals(Pass::forward);
  DownGradient down;
  const Hooks hooks{.recorders = {&signals}, .gradients = {&down}};
  StackTape tape;
  tape.context = &context;
  const Tensor x = ops.from_host(c.tokens(), model.width, DType::f64, c.values("x"));
  const Streams out = steps_forward(context, {x}, mlp_sublayer, mlp_sublayer + 1, hooks, &tape);
  const Loss loss = loss_of(context, exit_forward(context, out, hooks, &tape), c.labels());
  (void)step_backward(*tape.passes.back(), exit_backward(tape, loss.gradient));

  Evaluation e;
  theory::GradientPath path{.beta = c.number("beta")};
  if (model.unembedding) path.unembedding = theory::spectral_norm(c.values("unembedding"), model.vocab, model.width);
  e.tokens.assign(static_cast<std::size_t>(c.tokens()), {.path = path});
  e.module = ops.to_host(signals.at(mlp_sublayer, Signal::f_out));
  e.hidden = ops.to_host(signals.at(mlp_sublayer, Signal::hidden));
  e.gradient = ops.to_host(down.gradient);
  e.gradient_norm = length(e.gradient);
  fill_tokens(c, model, signals, ops.to_host(loss.logits), e);
  return e;
}

}  // namespace periscope::verify
