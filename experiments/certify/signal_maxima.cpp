#include "experiments/certify/signal_maxima.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "sim/model/head.h"
#include "sim/model/input.h"
#include "sim/model/primitives.h"
#include "sim/model/sublayer.h"

namespace periscope {

namespace {

void raise(std::vector<double>& maxima, std::size_t at, double value) {
  const double magnitude = std::isnan(value) ? theory::infinity : std::abs(value);
  maxima[at] = std::max(maxima[at], magnitude);
}

/// The matrices that are multiplied with in a sublayer, before the first one (−1) or after the last.
std::vector<Weight> weights_of(const ModelSpec& m, int sublayer) {
  std::vector<Weight> weights;
  if (sublayer < 0) {
    if (m.projects_embedding()) weights.push_back(Weight::project_in);
  } else if (sublayer >= m.sublayers()) {
    if (!m.unembedding) return weights;
    if (m.projects_embedding()) weights.push_back(Weight::project_out);
    if (m.head.transform) weights.push_back(Weight::head_dense);
    weights.push_back(Weight::unembedding);
  } else if (ModelSpec::is_attention(sublayer)) {
    weights = {Weight::q, Weight::k, Weight::v, Weight::o};
  } else {
    weights = {Weight::up, Weight::down};
    if (is_gated(m.mlp)) weights.push_back(Weight::gate);
  }
  return weights;
}

}  // namespace

std::vector<double> largest_scores(const StackContext& c, int layer, const Tensor& q, const Tensor& k) {
  const ModelSpec& m = c.model;
  const AttentionShape shape{m.heads, m.kv_heads, m.head_dim, c.sequences, m.causal, m.scores_at(layer)};
  const std::vector<double> queries = c.ops.to_host(q);
  const std::vector<double> keys = c.ops.to_host(k);
  const Tensor::Index tokens = q.rows() / c.sequences;
  std::vector<double> largest(static_cast<std::size_t>(m.heads), 0.0);
#pragma omp parallel for schedule(static) if (tokens > 32)
  for (int h = 0; h < m.heads; ++h) {
    for (Tensor::Index i = 0; i < q.rows(); ++i) {
      const Tensor::Index first = i - i % tokens;
      for (Tensor::Index s = shape.first_seen(i % tokens); s < shape.end_seen(i % tokens, tokens); ++s) {
        const double* a = queries.data() + i * q.cols() + h * m.head_dim;
        const double* b = keys.data() + (first + s) * k.cols() + h / (m.heads / m.kv_heads) * m.head_dim;
        double dot = 0.0;
        for (int j = 0; j < m.head_dim; ++j) dot += a[j] * b[j];
        double z = shape.scale() * dot;
        if (shape.scores.soft_cap > 0.0) z = shape.scores.soft_cap * std::tanh(z / shape.scores.soft_cap);
        raise(largest, static_cast<std::size_t>(h), z);
      }
    }
  }
  return largest;
}

void SignalMaxima::note(const StackContext& c, Signal signal, int sublayer, const Tensor& x) {
  const std::vector<double> values = c.ops.to_host(x);
  const auto width = static_cast<std::size_t>(x.cols());
  std::vector<double>& maxima = maxima_[{signal, sublayer}];
  maxima.resize(width, 0.0);
  for (std::size_t i = 0; i < values.size(); ++i) raise(maxima, i % width, values[i]);
}

void SignalMaxima::add(const StackContext& c, std::span<const int> ids, InnerLog* log) {
  const EmbeddingSpec& e = c.model.embedding;
  note(c, Signal::embedding, -1, c.ops.scale(e.scale, c.ops.gather(c.weights.matrix(0, Weight::embedding), ids)));
  run(c, embedding_forward(c, ids), log);
}

void SignalMaxima::add(const StackContext& c, const Tensor& input, InnerLog* log) { run(c, input, log); }

void SignalMaxima::run(const StackContext& c, const Tensor& input, InnerLog* log) {
  const ModelSpec& m = c.model;
  note(c, Signal::input, -1, input);
  Tensor x = m.embedding_norm ? norm_forward(c, 0, NormSite::embedding, input) : input;
  Tensor r = x;
  note(c, Signal::x_out, -1, x);
  note_inner(c, -1, log);
  for (int l = 0; l < m.sublayers(); ++l) {
    const SublayerRule rule = m.rule(l);
    const SublayerSignals s = sublayer_forward(c, l, x);
    if (rule.norm_a || rule.input_gain != 1.0) note(c, Signal::A_out, l, s.a_out);
    if (ModelSpec::is_attention(l)) {
      if (m.qk_norm != QkNorm::none) {
        note(c, Signal::q_projected, l, s.attention.q_projected);
        note(c, Signal::k_projected, l, s.attention.k_projected);
      }
      note(c, Signal::q, l, s.attention.q);
      note(c, Signal::k, l, s.attention.k);
      note(c, Signal::v, l, s.attention.v);
      note(c, Signal::mixed, l, s.attention.mixed);
      if (log == nullptr) {
        raise_to(Signal::scores, l, largest_scores(c, l / 2, s.attention.q, s.attention.k), false);
      }
    } else {
      if (is_gated(m.mlp)) note(c, Signal::gate, l, s.mlp.gate);
      note(c, Signal::up, l, s.mlp.up);
      note(c, Signal::hidden, l, s.mlp.hidden);
    }
    note(c, Signal::f_out, l, s.f_out);
    if (rule.norm_b) note(c, Signal::B_out, l, s.b_out);
    if (rule.norm_c) note(c, Signal::sum, l, s.sum);
    x = s.x_out;
    note(c, Signal::x_out, l, x);
    if (m.placement.two_streams) {
      r = c.ops.axpby(1.0, r, rule.beta, s.b_out);
      note(c, Signal::r_out, l, r);
    }
    note_inner(c, l, log);
  }
  const int end = m.sublayers();
  const Tensor& read = m.placement.two_streams ? r : x;
  Tensor output = m.final_norm ? norm_forward(c, end, NormSite::final, read) : read;
  if (m.placement.two_streams) output = c.ops.axpby(1.0, x, 1.0, output);
  note(c, Signal::output, end, output);
  if (!m.unembedding) {
    note_inner(c, end, log);
    return;
  }
  const HeadSignals head = head_forward(c, output);
  if (m.projects_embedding()) note(c, Signal::projected, end, head.projected);
  if (m.head.transform) {
    note(c, Signal::dense, end, head.dense);
    note(c, Signal::activated, end, head.activated);
    note(c, Signal::transformed, end, head.transformed);
  }
  if (m.head.soft_cap > 0.0) note(c, Signal::head_scores, end, head.scores);
  note(c, Signal::logits, end, head.logits);
  note_inner(c, end, log);
}

void SignalMaxima::raise_to(Signal signal, int sublayer, std::span<const double> magnitudes, bool one) {
  std::vector<double>& maxima = maxima_[{signal, sublayer}];
  maxima.resize(one ? 1 : magnitudes.size(), 0.0);
  for (std::size_t i = 0; i < magnitudes.size(); ++i) raise(maxima, one ? 0 : i, magnitudes[i]);
}

void SignalMaxima::note_inner(const StackContext& c, int sublayer, InnerLog* log) {
  if (log == nullptr) return;
  const bool in_layer = sublayer >= 0 && sublayer < c.model.sublayers();
  const auto has_bias = [&](const Tensor& w) {
    const std::vector<Weight> weights = weights_of(c.model, sublayer);
    const auto found =
        std::ranges::find_if(weights, [&](Weight i) { return c.weights.matrix(sublayer / 2, i).same_as(w); });
    return found != weights.end() && !c.weights.bias(sublayer / 2, *found).empty();
  };
  for (const InnerLog::Record& r : log->take()) {
    const auto one = [&](Signal signal) { raise_to(signal, sublayer, r.magnitudes, true); };
    const auto each = [&](Signal signal) { raise_to(signal, sublayer, r.magnitudes, false); };
    const bool capped = in_layer && c.model.scores_at(sublayer / 2).soft_cap > 0.0;
    switch (r.inner) {
      case Inner::partial_sum:
      case Inner::mean_sum:
      case Inner::dot_sum:
      case Inner::mixed_sum: one(Signal::sums); break;
      case Inner::product:
        if (has_bias(r.parameter)) one(Signal::products);
        break;
      case Inner::centred: one(Signal::deviations); break;
      case Inner::square:
      case Inner::square_sum: one(Signal::squares); break;
      case Inner::reciprocal: one(Signal::reciprocals); break;
      case Inner::normalised:
      case Inner::gained: one(Signal::normalised); break;
      case Inner::scaled: one(Signal::addends); break;
      case Inner::dot: each(Signal::dots); break;
      case Inner::scaled_dot:
        if (capped) each(Signal::cap_inputs);
        break;
      case Inner::capped:
        if (!in_layer) one(Signal::cap_inputs);
        if (capped) each(Signal::cap_inputs);
        break;
      case Inner::score: each(Signal::scores); break;
      case Inner::denominator_sum: one(Signal::denominators); break;
      case Inner::activated: each(Signal::gated); break;
      case Inner::turned: break;  // at most |x| of a signal that is there
    }
  }
}

const std::vector<double>* SignalMaxima::find(Signal signal, int sublayer) const {
  const auto at = maxima_.find({signal, sublayer});
  return at == maxima_.end() ? nullptr : &at->second;
}

double SignalMaxima::largest(Signal signal, int sublayer) const {
  const std::vector<double>* maxima = find(signal, sublayer);
  return maxima == nullptr ? std::numeric_limits<double>::quiet_NaN() : *std::ranges::max_element(*maxima);
}

}  // namespace periscope
