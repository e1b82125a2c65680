#include "sim/measure/attention_entropy_probe.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "sim/measure/running_moments.h"

namespace periscope {
namespace {

using Index = Tensor::Index;

/// −Σ p ln p of softmax(scores), which are overwritten. With p = eᶻ/Z it is ln Z − Σ p z, z counted from the largest.
double entropy_of(std::span<double> scores) {
  const double largest = *std::ranges::max_element(scores);
  double total = 0.0;
  double weighted = 0.0;
  for (const double score : scores) {
    const double z = score - largest;
    total += std::exp(z);
    weighted += z * std::exp(z);
  }
  return std::log(total) - weighted / total;
}

double mean_entropy(const std::vector<double>& q, const std::vector<double>& k, const AttentionShape& shape) {
  const Index width = static_cast<Index>(shape.heads) * shape.head_dim;
  const Index key_width = static_cast<Index>(shape.kv_heads) * shape.head_dim;
  const Index tokens = static_cast<Index>(q.size()) / width / shape.sequences;
  std::vector<double> scores;
  RunningMoments mean;
  for (Index s = 0; s < shape.sequences; ++s) {
    for (Index h = 0; h < shape.heads; ++h) {
      const Index kv = h / (shape.heads / shape.kv_heads);
      for (Index t = 0; t < tokens; ++t) {
        const Index first = shape.first_seen(t);
        const Index end = shape.end_seen(t, tokens);
        if (end - first < 2) continue;
        const double* query = q.data() + (s * tokens + t) * width + h * shape.head_dim;
        scores.clear();
        for (Index other = first; other < end; ++other) {
          const double* key = k.data() + (s * tokens + other) * key_width + kv * shape.head_dim;
          double dot = 0.0;
          for (Index i = 0; i < shape.head_dim; ++i) dot += query[i] * key[i];
          const double z = dot * shape.scale();
          const double cap = shape.scores.soft_cap;
          scores.push_back(cap > 0.0 ? cap * std::tanh(z / cap) : z);
        }
        mean.add(entropy_of(scores));
      }
    }
  }
  return mean.mean();
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
  entropies_[static_cast<std::size_t>(layer)] =
      mean_entropy(context_.ops.to_host(queries_), context_.ops.to_host(x),
                   {m.heads, m.kv_heads, m.head_dim, context_.sequences, m.causal, m.scores_at(layer), 0});
  queries_ = {};
}

}  // namespace periscope
