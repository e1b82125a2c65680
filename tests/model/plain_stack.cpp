#include "tests/model/plain_stack.h"

#include <cmath>
#include <complex>
#include <numbers>
#include <stdexcept>

#include "tests/support/edited_weights.h"
#include "tests/support/recorded_stack.h"

namespace periscope::testing {
namespace {

using Vec = std::vector<double>;

class PlainStack {
 public:
  PlainStack(const ModelSpec& m, const Backend& backend, const WeightSource& weights)
      : m_(m), backend_(backend), weights_(weights) {}

  [[nodiscard]] Rows norm(NormKind kind, int sublayer, Weight site, const Rows& x) const {
    const NormWeights w = norm_of(weights_, m_, sublayer, site);
    const Vec gain = backend_.to_host(w.gain);
    const Vec bias = w.bias.empty() ? Vec(gain.size(), 0.0) : backend_.to_host(w.bias);
    Rows y = x;
    if (kind == NormKind::dyt || kind == NormKind::derf) {
      const double alpha = backend_.to_host(w.alpha).at(0);
      for (Vec& row : y) {
        for (std::size_t i = 0; i < row.size(); ++i) {
          row[i] = gain[i] * (kind == NormKind::dyt ? std::tanh(alpha * row[i]) : std::erf(alpha * row[i])) + bias[i];
        }
      }
      return y;
    }
    for (Vec& row : y) {
      // QK-norm per head: the gain has the width of one head, and the row has several groups.
      for (std::size_t first = 0; first < row.size(); first += gain.size()) {
        double mean = 0.0;
        double square = 0.0;
        for (std::size_t i = 0; i < gain.size(); ++i) mean += row[first + i];
        mean = kind == NormKind::layer ? mean / static_cast<double>(gain.size()) : 0.0;
        for (std::size_t i = 0; i < gain.size(); ++i) square += std::pow(row[first + i] - mean, 2);
        if (kind != NormKind::l2) square /= static_cast<double>(gain.size());
        const double rms = std::sqrt(square + m_.norm_eps);
        for (std::size_t i = 0; i < gain.size(); ++i)
          row[first + i] = gain[i] * (row[first + i] - mean) / rms + bias[i];
      }
    }
    return y;
  }

  [[nodiscard]] Rows norm(int sublayer, Weight site, const Rows& x) const { return norm(m_.norm, sublayer, site, x); }

  [[nodiscard]] Rows attention(int layer, const Rows& x) const {
    Rows q = map(layer, Weight::q, x);
    Rows k = map(layer, Weight::k, x);
    Rows v = map(layer, Weight::v, x);
    if (m_.v_norm) v = norm(NormKind::rms, 2 * layer, Weight::v_norm, v);
    if (m_.qk_norm != QkNorm::none) {
      q = norm(NormKind::rms, 2 * layer, Weight::q_norm, q);
      k = norm(NormKind::rms, 2 * layer, Weight::k_norm, k);
    }
    if (m_.rope) {
      for (std::size_t t = 0; t < x.size(); ++t) {
        rotate(q[t], static_cast<double>(t));
        rotate(k[t], static_cast<double>(t));
      }
    }
    const auto e = static_cast<std::size_t>(m_.head_dim);
    Rows mixed(x.size(), Vec(static_cast<std::size_t>(m_.heads) * e, 0.0));
    for (std::size_t h = 0; h < static_cast<std::size_t>(m_.heads); ++h) {
      const std::size_t g = h * static_cast<std::size_t>(m_.kv_heads) / static_cast<std::size_t>(m_.heads);
      for (std::size_t t = 0; t < x.size(); ++t) {
        Vec logits(m_.causal ? t + 1 : x.size(), 0.0);
        for (std::size_t s = 0; s < logits.size(); ++s) {
          for (std::size_t i = 0; i < e; ++i) logits[s] += q[t][h * e + i] * k[s][g * e + i];
        }
        for (std::size_t s = 0; s < logits.size(); ++s) {
          double inverse_weight = 0.0;  // 1/A_ts = Σ_r exp(z_tr − z_ts)
          for (const double other : logits) inverse_weight += std::exp((other - logits[s]) / std::sqrt(m_.head_dim));
          for (std::size_t i = 0; i < e; ++i) mixed[t][h * e + i] += v[s][g * e + i] / inverse_weight;
        }
      }
    }
    if (m_.attention_gate != AttentionGate::none) {
      const Rows gate = map(layer, Weight::attention_gate, x);
      const std::size_t channels = m_.attention_gate == AttentionGate::head ? e : 1;
      for (std::size_t t = 0; t < x.size(); ++t) {
        for (std::size_t i = 0; i < mixed[t].size(); ++i) {
          mixed[t][i] *= 0.5 * (1.0 + std::tanh(0.5 * gate[t][i / channels]));
        }
      }
    }
    const bool normed = m_.inner_norm == InnerNorm::o || m_.inner_norm == InnerNorm::both;
    return map(layer, Weight::o, normed ? norm(NormKind::rms, 2 * layer, Weight::inner_norm, mixed) : mixed);
  }

  [[nodiscard]] Rows mlp(int layer, const Rows& x) const {
    const bool gated = m_.mlp == MlpKind::swiglu || m_.mlp == MlpKind::geglu || m_.mlp == MlpKind::geglu_tanh;
    const Rows up = map(layer, Weight::up, x);
    const Rows gate = gated ? map(layer, Weight::gate, x) : up;
    Rows hidden = up;
    for (std::size_t t = 0; t < x.size(); ++t) {
      for (std::size_t j = 0; j < hidden[t].size(); ++j) hidden[t][j] = phi(gate[t][j]) * (gated ? up[t][j] : 1.0);
    }
    const bool normed = m_.inner_norm == InnerNorm::down || m_.inner_norm == InnerNorm::both;
    return map(layer, Weight::down, normed ? norm(NormKind::rms, 2 * layer + 1, Weight::inner_norm, hidden) : hidden);
  }

 private:
  [[nodiscard]] double phi(double x) const {
    switch (m_.mlp) {
      case MlpKind::relu: return std::fmax(x, 0.0);
      case MlpKind::gelu:
      case MlpKind::geglu: return x * 0.5 * (1.0 + std::erf(x / std::sqrt(2.0)));
      case MlpKind::silu:
      case MlpKind::swiglu: return x * 0.5 * (1.0 + std::tanh(0.5 * x));
      case MlpKind::gelu_tanh:
      case MlpKind::geglu_tanh:
        return 0.5 * x * (1.0 + std::tanh(std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * std::pow(x, 3))));
    }
    throw std::logic_error("unknown MLP kind");
  }

  /// y_j = Σ_k W_jk x_k for every token.
  [[nodiscard]] Rows map(int layer, Weight weight, const Rows& x) const {
    const Vec w = backend_.to_host(matrix_of(weights_, m_, layer, weight));
    const std::size_t in = x[0].size();
    Rows y(x.size(), Vec(w.size() / in, 0.0));
    for (std::size_t t = 0; t < x.size(); ++t) {
      for (std::size_t i = 0; i < w.size(); ++i) y[t][i / in] += w[i] * x[t][i % in];
    }
    return y;
  }

  /// Rotates every pair of features as a complex number.
  void rotate(Vec& row, double position) const {
    const auto e = static_cast<std::size_t>(m_.head_dim);
    for (std::size_t head = 0; head < row.size(); head += e) {
      for (std::size_t i = 0; i < e / 2; ++i) {
        const double frequency = 1.0 / std::pow(10000.0, 2.0 * static_cast<double>(i) / m_.head_dim);
        const std::complex<double> rotated =
            std::complex(row[head + i], row[head + e / 2 + i]) * std::polar(1.0, position * frequency);
        row[head + i] = rotated.real();
        row[head + e / 2 + i] = rotated.imag();
      }
    }
  }

  const ModelSpec& m_;
  const Backend& backend_;
  const WeightSource& weights_;
};

Rows combined(double a, const Rows& x, double b, const Rows& y) {
  Rows z = x;
  for (std::size_t t = 0; t < z.size(); ++t) {
    for (std::size_t i = 0; i < z[t].size(); ++i) z[t][i] = a * x[t][i] + b * y[t][i];
  }
  return z;
}

}  // namespace

SublayerRule plain_rule(const Placement& placement, int layer, int layers, ModuleKind kind) {
  const std::string_view name = placement.name;
  const double depth = layers;
  if (placement.is_custom()) return placement.custom->rule;
  if (name == "none") return {};
  if (name == "post" || name == "residual-dual") return {.norm_c = true};
  if (name == "pre") return {.norm_a = true};
  if (name == "peri") return {.norm_a = true, .norm_b = true};
  if (name == "b-only") return {.norm_b = true};
  if (name == "a+c") return {.norm_a = true, .norm_c = true};
  if (name == "deepnorm") return {.norm_c = true, .alpha = std::sqrt(std::sqrt(2 * depth))};
  if (name == "deepnorm-glm") return {.norm_c = true, .alpha = std::sqrt(2 * depth)};
  if (name == "mix") return 4 * (layer + 1) <= layers ? SublayerRule{.norm_c = true} : SublayerRule{.norm_a = true};
  if (name == "lns") return {.norm_a = true, .input_gain = std::sqrt(1.0 / (1.0 + layer))};
  if (name == "depth-scaled") return {.norm_a = true, .beta = std::sqrt(0.5 / depth)};
  if (name == "keel")
    return layer == 0 ? SublayerRule{.norm_a = true} : SublayerRule{.norm_a = true, .norm_c = true, .alpha = 2 * depth};
  if (name == "muse-spark") return {.norm_a = true, .norm_b = true, .alpha = std::sqrt(3.0) / 2.0, .beta = 0.5};
  const double n = 2.0 * layer + (kind == ModuleKind::mlp ? 1.0 : 0.0);  // number of earlier additions
  if (name == "beam") {
    return {.norm_a = true, .norm_b = true, .alpha = std::sqrt((n + 1) / (n + 2)), .beta = 1 / std::sqrt(n + 2)};
  }
  if (name == "u-mup") {
    const double tau = 1 / std::sqrt(depth + n);
    return {.norm_a = true, .alpha = 1 / std::sqrt(1 + tau * tau), .beta = tau / std::sqrt(1 + tau * tau)};
  }
  throw std::logic_error("unknown placement");
}

namespace {

/// Placements that are not a sequence of standard sublayers (T1).
class PlainBlocks {
 public:
  PlainBlocks(const ModelSpec& m, const PlainStack& stack, PlainRecord& record)
      : m_(m), stack_(stack), record_(record) {}

  /// Returns the output of the sublayer's module for norm A of x, or for the given normalized input.
  Rows branch(int l, const Rows& x, bool has_norm = true, const Rows* normed = nullptr) {
    if (normed == nullptr) record_.site[{l, Signal::x_in}] = x;
    const Rows a = normed != nullptr ? *normed : has_norm ? stack_.norm(l, Weight::norm_a, x) : x;
    const Rows f = l % 2 == 0 ? stack_.attention(l / 2, a) : stack_.mlp(l / 2, a);
    record_.site[{l, Signal::A_out}] = a;
    record_.site[{l, Signal::f_out}] = f;
    record_.site[{l, Signal::B_out}] = f;
    return f;
  }

  Rows parallel(Rows x, bool one_norm) {
    for (int layer = 0; layer < m_.layers; ++layer) {
      const Rows attention = branch(2 * layer, x);
      const Rows a = record_.site[{2 * layer, Signal::A_out}];
      const Rows mlp = branch(2 * layer + 1, x, true, one_norm ? &a : nullptr);
      x = combined(1.0, combined(1.0, x, 1.0, attention), 1.0, mlp);
      record_.site[{layer, Signal::x_out}] = x;
    }
    return x;
  }

  Rows span(Rows x) {
    for (int layer = 0; layer < m_.layers; ++layer) {
      const Rows y = stack_.norm(2 * layer, Weight::norm_c, combined(1.0, x, 1.0, branch(2 * layer, x, layer == 0)));
      record_.site[{2 * layer, Signal::x_out}] = y;
      const Rows f = branch(2 * layer + 1, y, false);
      x = stack_.norm(2 * layer + 1, Weight::norm_c, combined(1.0, x, 1.0, f));
      record_.site[{2 * layer + 1, Signal::x_out}] = x;
    }
    return x;
  }

  Rows first_input(const Rows& first) {
    Rows x = first;
    for (int layer = 0; layer < m_.layers; ++layer) {
      const double place = m_.layers == 1 ? 0.0 : static_cast<double>(layer) / (m_.layers - 1);
      x = combined(1.15 - 0.1 * place, x, 0.2 - 0.15 * place, first);
      for (const int l : {2 * layer, 2 * layer + 1}) {
        x = combined(1.0, x, 1.0, branch(l, x));
        record_.site[{l, Signal::x_out}] = x;
      }
    }
    return x;
  }

 private:
  const ModelSpec& m_;
  const PlainStack& stack_;
  PlainRecord& record_;
};

}  // namespace

PlainRecord plain_stack(const ModelSpec& m, const Backend& backend, const WeightSource& weights, const Rows& embedded) {
  const PlainStack stack(m, backend, weights);
  const bool two_streams = m.placement.name == "residual-dual";  // also with custom scales
  PlainRecord record;
  Rows x = m.embedding_norm ? stack.norm(0, Weight::embedding_norm, embedded) : embedded;
  Rows r = x;
  record.input = x;
  if (!is_plain(m.placement)) {
    PlainBlocks blocks(m, stack, record);
    const std::string_view name = m.placement.name;
    x = name == "span" ? blocks.span(x) : name == "x0" ? blocks.first_input(x) : blocks.parallel(x, name == "parallel");
    record.stream = x;
    record.output = m.final_norm ? stack.norm(2 * m.layers, Weight::final_norm, x) : x;
    return record;
  }
  for (int l = 0; l < 2 * m.layers; ++l) {
    const SublayerRule rule =
        plain_rule(m.placement, l / 2, m.layers, l % 2 == 0 ? ModuleKind::attention : ModuleKind::mlp);
    record.site[{l, Signal::x_in}] = x;
    const Rows a = combined(rule.input_gain, rule.norm_a ? stack.norm(l, Weight::norm_a, x) : x, 0.0, x);
    const Rows f = l % 2 == 0 ? stack.attention(l / 2, a) : stack.mlp(l / 2, a);
    const Rows b = rule.norm_b ? stack.norm(l, Weight::norm_b, f) : f;
    x = combined(rule.alpha, x, rule.beta, b);
    if (rule.norm_c) x = stack.norm(l, Weight::norm_c, x);
    record.site[{l, Signal::A_out}] = a;
    record.site[{l, Signal::f_out}] = f;
    record.site[{l, Signal::B_out}] = b;
    record.site[{l, Signal::x_out}] = x;
    if (!two_streams) continue;
    r = combined(1.0, r, rule.beta, b);
    record.site[{l, Signal::r_out}] = r;
  }
  record.stream = x;
  const Rows& last = two_streams ? r : x;
  const Rows normed = m.final_norm ? stack.norm(2 * m.layers, Weight::final_norm, last) : last;
  record.output = two_streams ? combined(1.0, x, 1.0, normed) : normed;
  return record;
}

Rows rows_of(const std::vector<double>& values, std::size_t width) {
  Rows rows;
  for (std::size_t first = 0; first < values.size(); first += width) {
    const auto begin = values.begin() + static_cast<std::ptrdiff_t>(first);
    rows.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(width));
  }
  return rows;
}

std::vector<double> flat(const Rows& rows) {
  std::vector<double> values;
  for (const auto& row : rows) values.insert(values.end(), row.begin(), row.end());
  return values;
}

}  // namespace periscope::testing
