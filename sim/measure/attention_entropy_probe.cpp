#include "sim/measure/attention_entropy_probe.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <utility>

#include "sim/base/parallel_for.h"

namespace periscope {
namespace {

using Index = Tensor::Index;

/// Returns −Σ p ln p of p = softmax(scores), as ln Z − Σ p z with p = eᶻ/Z and z = score − largest score.
double entropy_of(std::span<const double> scores) {
  const double largest = *std::ranges::max_element(scores);
  double total = 0.0;
  double weighted = 0.0;
  for (const double score : scores) {
    const double z = score - largest;
    const double e = std::exp(z);
    total += e;
    weighted += z * e;
  }
  return std::log(total) - weighted / total;
}

/// Queries and keys of one pass, [sequences·tokens, heads·head_dim] and [sequences·tokens, kv_heads·head_dim].
struct Pattern {
  std::vector<double> q;
  std::vector<double> k;
  AttentionShape shape;

  [[nodiscard]] Index tokens() const {
    return static_cast<Index>(q.size()) / (static_cast<Index>(shape.heads) * shape.head_dim) / shape.sequences;
  }

  /// Returns the keys of one head, [head_dim, tokens], so that a loop over keys reads contiguous memory.
  [[nodiscard]] std::vector<double> keys_of(Index sequence, Index kv_head) const {
    const Index n = tokens();
    std::vector<double> keys(static_cast<std::size_t>(shape.head_dim * n));
    for (Index t = 0; t < n; ++t) {
      const double* key = k.data() + ((sequence * n + t) * shape.kv_heads + kv_head) * shape.head_dim;
      for (Index i = 0; i < shape.head_dim; ++i) keys[static_cast<std::size_t>(i * n + t)] = key[i];
    }
    return keys;
  }

  /// Returns the sum and count of a head's entropies over the tokens that attend to at least two tokens.
  [[nodiscard]] std::pair<double, Index> entropies(Index sequence, Index head) const {
    const Index n = tokens();
    const std::vector<double> keys = keys_of(sequence, head / (shape.heads / shape.kv_heads));
    std::vector<double> scores(static_cast<std::size_t>(n));
    double sum = 0.0;
    Index count = 0;
    for (Index t = 0; t < n; ++t) {
      const Index first = shape.first_seen(t);
      const Index seen = shape.end_seen(t, n) - first;
      if (seen < 2) continue;
      const double* query = q.data() + ((sequence * n + t) * shape.heads + head) * shape.head_dim;
      std::fill_n(scores.begin(), seen, 0.0);
      for (Index i = 0; i < shape.head_dim; ++i) {
        const double factor = query[i] * shape.scale();
        const double* key = keys.data() + i * n + first;
        for (Index other = 0; other < seen; ++other) scores[static_cast<std::size_t>(other)] += factor * key[other];
      }
      const std::span<double> row(scores.data(), static_cast<std::size_t>(seen));
      if (const double cap = shape.scores.soft_cap; cap > 0.0) {
        for (double& score : row) score = cap * std::tanh(score / cap);
      }
      sum += entropy_of(row);
      ++count;
    }
    return {sum, count};
  }
};

/// Heads are computed in parallel and summed in a fixed order, so results do not depend on the number of threads.
double mean_entropy(const Pattern& pattern) {
  const Index heads = pattern.shape.heads;
  std::vector<std::pair<double, Index>> by_head(static_cast<std::size_t>(heads * pattern.shape.sequences));
  parallel_for(static_cast<Index>(by_head.size()),
               [&](Index i) { by_head[static_cast<std::size_t>(i)] = pattern.entropies(i / heads, i % heads); });
  double sum = 0.0;
  Index count = 0;
  for (const auto& [entropies, tokens] : by_head) {
    sum += entropies;
    count += tokens;
  }
  return count > 0 ? sum / static_cast<double>(count) : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace

AttentionEntropyProbe::AttentionEntropyProbe(const StackContext& context)
    : context_(context),
      entropies_(static_cast<std::size_t>(context.model.layers), std::numeric_limits<double>::quiet_NaN()) {}

void AttentionEntropyProbe::on_signal(const Emission& at, const Tensor& x) {
  if (at.pass != Pass::forward) return;
  if (at.signal == Signal::q) queries_ = x;
  if (at.signal != Signal::k) return;
  const ModelSpec& m = context_.model;
  const int layer = at.sublayer / 2;
  entropies_[static_cast<std::size_t>(layer)] = mean_entropy(
      {context_.ops.to_host(queries_),
       context_.ops.to_host(x),
       {m.heads, m.kv_heads_at(layer), m.head_dim_at(layer), context_.sequences, m.causal, m.scores_at(layer), 0}});
  queries_ = {};
}

}  // namespace periscope
