#include "sim/spec/wiring.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>

namespace periscope {
namespace {

/// Returns the branch of a sublayer (T1). It reads and writes only the first of `streams` streams.
Branch branch_of(const ModelSpec& m, int sublayer, int more_layers, std::size_t streams = 1) {
  const SublayerRule rule = m.rule(sublayer, more_layers);
  Branch branch{.sublayer = sublayer,
                .kind = ModelSpec::kind_of(sublayer),
                .reads = std::vector<double>(streams, 0.0),
                .norm_a = rule.norm_a,
                .input_gain = rule.input_gain,
                .norm_b = rule.norm_b,
                .channel_scale = rule.scales_channels ? std::optional(m.layer_scale) : std::nullopt,
                .writes = std::vector<double>(streams, 0.0)};
  branch.reads.front() = 1.0;
  branch.writes.front() = rule.beta;
  return branch;
}

Step sequential_step(const ModelSpec& m, int index, int more_layers) {
  const SublayerRule rule = m.rule(index, more_layers);
  return {.branches = {branch_of(m, index, more_layers)}, .mixing = {{rule.alpha}}, .norm_c = {rule.norm_c}};
}

/// The second stream is the sum of all branches; no module reads it (ResiDual).
Step dual_step(const ModelSpec& m, int index, int more_layers) {
  const SublayerRule rule = m.rule(index, more_layers);
  Branch branch = branch_of(m, index, more_layers, 2);
  branch.writes = {rule.beta, rule.beta};
  return {.branches = {branch}, .mixing = {{rule.alpha, 0.0}, {0.0, 1.0}}, .norm_c = {rule.norm_c, false}};
}

/// Returns a step that contains both modules of layer `index`.
Step parallel_step(const ModelSpec& m, int index, int more_layers, bool share_norm) {
  Branch attention = branch_of(m, 2 * index, more_layers);
  Branch mlp = branch_of(m, 2 * index + 1, more_layers);
  mlp.shares_input = share_norm;
  if (share_norm) mlp.norm_a = false;
  const SublayerRule rule = m.rule(2 * index, more_layers);
  return {.branches = {attention, mlp}, .mixing = {{rule.alpha}}, .norm_c = {rule.norm_c}};
}

/// The second stream stores the layer's input, to which the MLP is added (SpanNorm).
Step span_step(const ModelSpec& m, int index, int more_layers) {
  const SublayerRule rule = m.rule(index, more_layers);
  const bool first = ModelSpec::is_attention(index);
  const double alpha = rule.alpha;
  return {.branches = {branch_of(m, index, more_layers, 2)},
          .mixing = first ? std::vector<std::vector<double>>{{alpha, 0.0}, {1.0, 0.0}}
                          : std::vector<std::vector<double>>{{0.0, alpha}, {0.0, 1.0}},
          .norm_c = {rule.norm_c, false}};
}

/// The second stream stores the stack's input, a multiple of which is added before every layer's attention (nanochat).
Step first_input_step(const ModelSpec& m, int index, int more_layers) {
  const SublayerRule rule = m.rule(index, more_layers);
  Branch branch = branch_of(m, index, more_layers, 2);
  std::vector<double> stream{rule.alpha, 0.0};
  if (ModelSpec::is_attention(index)) {
    const double fraction = (0.5 * index + more_layers) / std::max(m.layers + more_layers - 1, 1);
    const double scale = 1.15 - 0.10 * fraction;
    const double added = 0.20 - 0.15 * fraction;
    branch.reads = {scale, added};
    stream = {rule.alpha * scale, rule.alpha * added};
  }
  return {.branches = {branch}, .mixing = {stream, {0.0, 1.0}}, .norm_c = {rule.norm_c, false}};
}

using Square = std::vector<std::vector<double>>;

/// Sinkhorn iteration from positive entries; converges geometrically.
void make_doubly_stochastic(Square& h) {
  constexpr int iterations = 200;
  const std::size_t n = h.size();
  for (int k = 0; k < iterations; ++k) {
    for (std::size_t j = 0; j < n; ++j) {
      double sum = 0.0;
      for (std::size_t i = 0; i < n; ++i) sum += h[i][j];
      for (std::size_t i = 0; i < n; ++i) h[i][j] /= sum;
    }
    for (std::vector<double>& row : h) {
      double sum = 0.0;
      for (const double x : row) sum += x;
      for (double& x : row) x /= sum;
    }
  }
}

/// Returns the mixing matrix [n][n] of step `index`: entries are ≥ 0, rows and columns sum to 1. Random matrices are
/// the Sinkhorn limit of exp(4 u − 2) with u uniform in [0, 1). They depend only on `index`, so all seeds of a run
/// share them.
Square mixing_matrix(StreamMixing mixing, int streams, int index) {
  const auto n = static_cast<std::size_t>(streams);
  Square h(n, std::vector<double>(n, mixing == StreamMixing::uniform ? 1.0 / streams : 0.0));
  if (mixing == StreamMixing::identity) {
    for (std::size_t i = 0; i < n; ++i) h[i][i] = 1.0;
  }
  if (mixing == StreamMixing::random) {
    std::mt19937_64 engine(static_cast<std::uint64_t>(index) + 1);
    for (std::vector<double>& row : h) {
      for (double& x : row) x = std::exp(4.0 * (static_cast<double>(engine() >> 11U) * 0x1p-53) - 2.0);
    }
    make_doubly_stochastic(h);
  }
  return h;
}

Step hyper_step(const ModelSpec& m, int index, int more_layers) {
  const auto streams = static_cast<std::size_t>(m.streams);
  const SublayerRule rule = m.rule(index, more_layers);
  Branch branch = branch_of(m, index, more_layers, streams);
  const std::size_t read = static_cast<std::size_t>(index) % streams;
  for (std::size_t i = 0; i < streams; ++i) {
    branch.reads[i] = i == read ? 1.0 : 0.0;
    branch.writes[i] = i == read || m.stream_write == StreamWrite::all ? rule.beta : 0.0;
  }
  return {.branches = {branch},
          .mixing = mixing_matrix(m.stream_mixing, m.streams, index),
          .norm_c = std::vector<bool>(streams, false)};
}

}  // namespace

int steps_of(const ModelSpec& m) {
  const Wiring wiring = m.placement.wiring;
  return wiring == Wiring::parallel || wiring == Wiring::parallel_two ? m.layers : m.sublayers();
}

Step step_of(const ModelSpec& m, int index, int more_layers) {
  switch (m.placement.wiring) {
    case Wiring::sequential: break;
    case Wiring::dual: return dual_step(m, index, more_layers);
    case Wiring::parallel: return parallel_step(m, index, more_layers, true);
    case Wiring::parallel_two: return parallel_step(m, index, more_layers, false);
    case Wiring::span: return span_step(m, index, more_layers);
    case Wiring::first_input: return first_input_step(m, index, more_layers);
    case Wiring::hyper: return hyper_step(m, index, more_layers);
  }
  return sequential_step(m, index, more_layers);
}

StreamEnds ends_of(const ModelSpec& m) {
  switch (m.placement.wiring) {
    case Wiring::sequential:
    case Wiring::parallel:
    case Wiring::parallel_two: break;
    case Wiring::dual: return {.plain = {1.0, 0.0}, .normed = {0.0, 1.0}, .names = {Signal::x_out, Signal::r_out}};
    case Wiring::span:
    case Wiring::first_input:
      return {.plain = {0.0, 0.0}, .normed = {1.0, 0.0}, .names = {Signal::x_out, std::nullopt}};
    case Wiring::hyper: {
      const auto streams = static_cast<std::size_t>(m.streams);
      return {.plain = std::vector<double>(streams, 0.0),
              .normed = std::vector<double>(streams, 1.0),
              .names = std::vector<std::optional<Signal>>(streams, Signal::x_out)};
    }
  }
  return {};
}

std::optional<int> Branch::read_stream() const {
  std::optional<int> only;
  for (std::size_t j = 0; j < reads.size(); ++j) {
    if (reads[j] == 0.0) continue;
    if (only || reads[j] != 1.0) return std::nullopt;
    only = static_cast<int>(j);
  }
  return only;
}

bool Step::is_one_addition() const {
  const std::vector<double>& row = mixing.front();
  const bool unmixed = std::ranges::all_of(row.begin() + 1, row.end(), [](double weight) { return weight == 0.0; });
  return unmixed && branches.size() == 1 && branches.front().read_stream() == 0 && !branches.front().channel_scale;
}

double branch_scale(const Step& step, const Branch& branch) {
  const auto stream = static_cast<std::size_t>(branch.read_stream().value_or(0));
  const double own = branch.read_stream() ? step.mixing[stream][stream] : 1.0;
  return std::abs(branch.writes[stream] / (step.streams() > 1 && own == 0.0 ? 1.0 : own));
}

bool StreamEnds::has(Signal name) const { return std::ranges::find(names, name) != names.end(); }

bool StreamEnds::has_plain() const {
  return std::ranges::any_of(plain, [](double weight) { return weight != 0.0; });
}

int StreamEnds::parts_of_stream() const { return static_cast<int>(std::ranges::count(names, Signal::x_out)); }

}  // namespace periscope
