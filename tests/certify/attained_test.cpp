#include <fmt/format.h>
#include "tests/support/doctest.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <set>

#include "tests/certify/aligned_weights.h"
#include "tests/certify/certified_stack.h"
#include "tests/emulated/backend.h"
#include "tests/soundness/inner_signals.h"
#include "theory/certify/signal.h"

/// Bounds that are attained (T17, T24). If every matrix has rank one along one direction, one input makes every signal
/// as large as its bound, so that bounds that are too low or too high are detected.
namespace periscope::testing {
namespace {

using theory::Certificate;
using theory::SignalBound;

/// Bounds exceed signals by rounding (1e-11 at these depths) and by the margins of up to three proven spectral norms:
/// gate and up, or query and key, and one earlier matrix. Each margin adds 0.2 % to the square, because power iteration
/// on a single eigenvalue is exact at once (spectral_norm.h).
constexpr double proof = 1.0 / (1.0011 * 1.0011 * 1.0011);
constexpr double roundings = 1e-11;

/// After LayerNorm, bounds are too large by c = √(D/(D−1)), since the computed mean may not cancel (computed_ops.cpp).
/// The factor enters linear signals once, scores twice and, since σ(cg) ≤ cσ(g) for g ≥ 0, φ(gate)∘up three times. The
/// next norm removes it.
double least_share(const ModelSpec& m, bool exact) {
  return exact || m.norm == NormKind::rms ? proof : proof * std::pow((m.width - 1.0) / m.width, 1.5);
}

/// Signals of heads and hidden units. Every feature attains its bound, so that mixed-up heads are detected.
const std::set<Signal> feature_by_feature{Signal::v,    Signal::scores, Signal::mixed,
                                          Signal::gate, Signal::up,     Signal::hidden};

/// Signals whose bounds the input along (1, ±1 …)/√D does not attain: single features of a norm's output, and sums that
/// contain them.
const std::set<Signal> of_single_features{Signal::A_out,     Signal::B_out,       Signal::sum,       Signal::x_out,
                                          Signal::output,    Signal::transformed, Signal::projected, Signal::dense,
                                          Signal::activated, Signal::head_scores, Signal::logits};

/// Largest share of its bound that each signal reached.
using Shares = std::map<Signal, double>;

void compare(const std::string& what, const Certificate& certificate, const certify::SignalMaxima& seen,
             Direction direction, double least, Shares& shares) {
  for (const SignalBound& b : certificate.bounds) {
    const bool of_arithmetic = b.signal >= Signal::dots && b.signal <= Signal::denominators;
    const double largest = b.signal == Signal::weights ? b.largest : seen.largest(b.signal, b.sublayer);
    if (of_arithmetic && std::isnan(largest)) continue;  // not reported by every run
    INFO(what, ": ", name_of(b.signal), "[", b.sublayer, "]: ", largest, " of ", b.largest);
    CHECK(largest <= b.largest * (1.0 + roundings));
    const double share = b.largest > 0.0 ? largest / b.largest : 0.0;
    shares[b.signal] = std::max(shares[b.signal], share);
    if (of_arithmetic || b.largest == 0.0) continue;
    const std::vector<double>& each = *seen.find(b.signal, b.sublayer);
    for (std::size_t k = 0; k < each.size(); ++k) {
      const double bound = b.magnitude[static_cast<Eigen::Index>(k)];
      // If the output of a head is zero, its bound covers only underflow.
      const bool tight = bound < 1e-300 || !feature_by_feature.contains(b.signal) || each[k] >= least * bound;
      CHECK_MESSAGE((each[k] <= bound * (1.0 + roundings) && tight), "feature ", k, ": ", each[k], " of ", bound);
    }
    if (direction == Direction::spike || !of_single_features.contains(b.signal)) CHECK(share >= least);
  }
}

/// A stack of two layers with grouped keys and values. RoPE rotates q and k by 1/8 and 1/6 of a turn per token.
StackSpec aligned_stack(std::string_view placement, NormKind norm) {
  StackSpec spec = placed(tiny_stack(), placement);
  ModelSpec& m = spec.model;
  m.width = 8;
  m.heads = 4;
  m.kv_heads = 2;
  m.head_dim = 4;
  m.norm = norm;
  m.norm_eps = 1e-12;
  m.attention.assign(static_cast<std::size_t>(m.layers),
                     {.scores = {}, .rope_frequencies = {std::numbers::pi / 4.0, std::numbers::pi / 3.0}});
  return spec;
}

struct Case {
  std::string what;
  StackSpec spec;
  Direction direction = Direction::spike;
  double bias = 0.0;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const Placement& placement : rows_of_t1()) {
    for (const NormKind norm : {NormKind::rms, NormKind::layer}) {
      for (const Direction direction : {Direction::spike, Direction::spread}) {
        for (const double bias : {0.0, 0.3}) {
          StackSpec spec = aligned_stack(placement.name, norm);
          if (bias > 0.0) spec.model.mlp = MlpKind::relu;
          const char* features = direction == Direction::spike ? "one feature" : "all features";
          all.push_back({fmt::format("{}, {}, {}, bias {}", placement.name, facts_of(norm).name, features, bias), spec,
                         direction, bias});
        }
      }
    }
  }
  for (const QkNorm qk : {QkNorm::head, QkNorm::full}) {
    // The cap c is far below the scores z, so the bound min(z, c) is close to c·tanh(z/c).
    for (const double cap : {0.0, 0.3}) {
      StackSpec spec = aligned_stack("peri", NormKind::rms);
      spec.model.qk_norm = qk;
      for (AttentionRule& rule : spec.model.attention) rule.scores = {.scale = 0.7, .soft_cap = cap, .window = 0};
      spec.model.head.soft_cap = cap;
      all.push_back({fmt::format("QK-norm {}, soft cap {}", static_cast<int>(qk), cap), spec});
    }
  }
  for (const AttentionGate gate : {AttentionGate::head, AttentionGate::channel}) {
    for (const bool v_norm : {false, true}) {
      for (const InnerNorm inner : {InnerNorm::none, InnerNorm::both}) {
        StackSpec spec = aligned_stack("pre", NormKind::rms);
        spec.model.attention_gate = gate;
        spec.model.v_norm = v_norm;
        spec.model.inner_norm = inner;
        // The output of an inner norm is largest if only one channel is not 0.
        if (inner == InnerNorm::both) spec.model.heads = spec.model.kv_heads = 1;
        all.push_back(
            {fmt::format("gate {}, V-norm {}, inner norms {}", static_cast<int>(gate), v_norm, static_cast<int>(inner)),
             spec});
      }
    }
  }
  StackSpec scaled = aligned_stack("pre", NormKind::rms);
  scaled.model.placement =
      custom_placement({.norm_a = true, .norm_b = true, .norm_c = true, .alpha = 1.7, .beta = 0.6});
  scaled.model.final_norm = false;
  all.push_back({"alpha 1.7, beta 0.6", scaled});
  StackSpec tokens = aligned_stack("post", NormKind::rms);
  tokens.input.kind = InputKind::tokens;
  tokens.model.embedding = {.scale = 2.0, .width = 5, .positions = 4, .position_offset = 2, .token_types = 2};
  tokens.model.head = {.transform = true, .soft_cap = 20.0};
  tokens.model.mlp = MlpKind::gelu;
  all.push_back({"tokens, projected, BERT's head", tokens, Direction::spike, 0.3});
  tokens.model.head.transform = false;
  tokens.model.embedding_norm = true;
  all.push_back({"tokens, embedding norm", tokens});
  return all;
}

TEST_CASE("one input attains the bound of every signal (T17, T24)") {
  constexpr double largest = 1e3;
  constexpr int tokens = 2;
  Shares shares;
  for (const Case& one : cases()) {
    const ModelSpec& m = one.spec.model;
    const AlignedWeights weights(one.spec, one.direction, one.bias);
    const theory::InputDomain domain{one.spec.input.kind == InputKind::tokens, largest};
    for (const bool exact : {true, false}) {
      const RunArithmetic arithmetic = exact ? RunArithmetic{} : run_arithmetic(Arithmetic::pure, fp64);
      certify::SignalMaxima seen;
      soundness::InnerSignals inner(m, weights.source(), seen);
      const auto emulated = make_emulated_backend(truth(), {.arithmetic = arithmetic}, &inner);
      const StackContext c{.ops = exact ? truth() : *emulated, .model = m, .weights = weights.source()};
      const Hooks hooks{.recorders = {&inner}};
      if (domain.tokens) {
        seen.add(c, std::vector<int>(tokens, 0), hooks);
      } else {
        // A token twice, its negative followed by the token, and two zero tokens.
        for (const auto& [first, second] : {std::pair{1.0, 1.0}, {-1.0, 1.0}, {0.0, 0.0}}) {
          seen.add(c, weights.input(largest, {first, second}), hooks);
        }
      }
      const Certificate certificate = certify(m, weights.source(), domain, arithmetic, tokens);
      compare(one.what + (exact ? "" : ", computed in fp64"), certificate, seen, one.direction, least_share(m, exact),
              shares);
    }
  }
  for (const Signal signal : theory::certified_signals) {
    if (signal == Signal::router) continue;  // torch_mixtures_test.py
    CHECK_MESSAGE(shares[signal] >= proof, name_of(signal), " reached ", shares[signal], " of its bound");
  }
}

/// The bound of a rotated pair of features is the norm of the pair, since RoPE may rotate one feature into the other.
TEST_CASE("inputs of one feature attain the bound of every feature of rotated queries and keys (T17)") {
  StackSpec spec = aligned_stack("pre", NormKind::rms);
  const GeneratedWeights plain(truth(), spec, DType::f64, 1);
  const EditedWeights weights(
      plain,
      [](int, Weight weight, const Tensor& w) {
        std::vector<double> values(static_cast<std::size_t>(w.size()), 0.0);
        if (weight != Weight::q && weight != Weight::k) return w;
        for (Tensor::Index row = 0; row < w.rows(); ++row) {
          values[static_cast<std::size_t>(row * w.cols() + row % 4)] = 1.0;
        }
        return truth().from_host(w.rows(), w.cols(), w.dtype(), values);
      },
      same_norm);
  const StackContext c{.ops = truth(), .model = spec.model, .weights = weights};
  const Certificate certificate = certify(spec.model, weights, {false, 1e3});
  certify::SignalMaxima seen;
  for (int k = 0; k < spec.model.width; ++k) {
    std::vector<double> x(static_cast<std::size_t>(spec.model.width), 0.0);
    x[static_cast<std::size_t>(k)] = 1e3;
    seen.add(c, truth().from_host(1, spec.model.width, DType::f64, x));
  }
  for (const Signal signal : {Signal::q, Signal::k}) {
    const SignalBound& b = *certificate.find(signal, 0);
    for (Eigen::Index i = 0; i < b.magnitude.size(); ++i) {
      const double share = seen.find(signal, 0)->at(static_cast<std::size_t>(i)) / b.magnitude[i];
      CHECK_MESSAGE((share <= 1.0 + roundings && share >= proof), name_of(signal), " feature ", i, ": ", share);
    }
  }
}

}  // namespace
}  // namespace periscope::testing
