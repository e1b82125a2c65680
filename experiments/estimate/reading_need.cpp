#include <algorithm>

#include "experiments/common/over_seeds.h"
#include "experiments/estimate/need.h"
#include "sim/measure/probe.h"
#include "sim/model/stack.h"

namespace periscope {
namespace {

/// The shape, in double.
struct Sizes {
  explicit Sizes(const ModelSpec& m)
      : layers(m.layers),
        width(m.width),
        heads(m.heads),
        query(static_cast<double>(m.heads) * m.head_dim),
        key(static_cast<double>(m.kv_heads) * m.head_dim),
        hidden(m.mlp_width),
        matrices(is_gated(m.mlp) ? 3.0 : 2.0),
        classes(m.unembedding ? m.vocab : m.width),
        streams(m.placement.two_streams ? 2.0 : 1.0) {}
  double layers, width, heads, query, key, hidden, matrices, classes, streams;

  [[nodiscard]] double attention_weights() const { return 2.0 * width * (query + key); }
  [[nodiscard]] double mlp_weights() const { return matrices * hidden * width; }
  /// Entries per token of the signals inside attention and inside the MLP, with the stream before and behind.
  [[nodiscard]] double attention_signals() const { return 3.0 * (width + query + key) + heads; }
  [[nodiscard]] double mlp_signals() const { return matrices * hidden + 3.0 * width; }
};

std::string_view key_of_weights(const Sizes& z) {
  return z.mlp_weights() > z.attention_weights() ? "model.mlp_width" : "model.width";
}

/// Numbers in double that probes note of every token at one sublayer: moments (5) and squares of four signals, dots;
/// on the way back squares of four gradients.
double noted(bool backward) { return backward ? 30.0 : 25.0; }

}  // namespace

Need pass_need(const ModelSpec& model, int tokens, DType dtype, bool backward, int threads) {
  const Sizes z(model);
  const double s = static_cast<double>(size_of(dtype));
  const double t = tokens;
  Need need;
  // Forward a matrix goes when its product is taken. The way back holds a sublayer's, and one gradient of a matrix.
  const double largest = z.width * std::max({z.query, z.key, z.hidden});
  const double weights = backward ? std::max(z.attention_weights(), z.mlp_weights()) + largest : largest;
  need.add(s * weights, key_of_weights(z));
  const double inside = std::max(z.attention_signals(), z.mlp_signals());
  need.add(s * t * ((backward ? 2.0 : 1.0) * inside + 6.0 * z.width * z.streams), "input.tokens");
  need.add(s * t * t * std::min<double>(threads, z.heads) * (backward ? 4.0 : 1.0), "input.tokens");
  // Twice: as tensors, and as the vectors that are read from them.
  need.add(2.0 * 8.0 * t * 2.0 * z.layers * noted(backward), "input.tokens");
  if (2.0 * z.layers + 1.0 <= static_cast<double>(angular_depths)) {
    need.add(s * (2.0 * z.layers + 1.0) * std::min<double>(t, angular_tokens) * z.width, "model.width");
  }
  double products = t * (z.attention_weights() + z.mlp_weights()) + 2.0 * t * t * z.query;
  if (backward) {
    const double kept = s * t * z.layers * (z.attention_signals() + z.mlp_signals());
    need.add(s * t * 2.0 * z.layers * z.width * z.streams, "input.tokens");
    need.add(std::min(kept, static_cast<double>(StackTape().budget)), "input.tokens");
    if (model.unembedding) {
      need.add(s * z.classes * z.width, "model.vocab");
      need.add(s * 2.0 * t * z.classes, "model.vocab");
    }
    products *= 4.0;  // forward, again, and the gradients of signals and of matrices
    need.operations += 6.0 * t * z.classes * z.width;
  }
  need.operations += 2.0 * z.layers * products;
  return need;
}

Need paths_need(const StackSpec& spec, const RunOptions& run, int seeds, int threads) {
  const Sizes z(spec.model);
  Need all = reading_need(spec, run, seeds, threads);
  const double at_once = one_seed_per_thread(spec) ? std::min(threads, seeds) : 1;
  const double kept = 2.0 * z.layers * (z.attention_signals() + z.mlp_signals());
  all.add(at_once * static_cast<double>(size_of(run.dtype)) * spec.input.tokens * kept, "input.tokens");
  all.operations *= 2.0;  // every branch is gone back through alone, too
  return all;
}

Need reading_need(const StackSpec& spec, const RunOptions& run, int seeds, int threads) {
  const bool one_each = one_seed_per_thread(spec);
  const double at_once = one_each ? std::min(threads, seeds) : 1;
  const Need one = pass_need(spec.model, spec.input.tokens, run.dtype, run.backward, one_each ? 1 : threads);
  Need all = one.times(at_once);
  const Sizes z(spec.model);
  constexpr double normal = 30.0;  // a normal number costs as much as these operations of a matrix product
  const double drawn = z.layers * (z.attention_weights() + z.mlp_weights()) * (run.backward ? 2.0 : 1.0);
  all.operations = seeds * (one.operations + normal * drawn);
  constexpr double curves = 60.0;
  all.add(8.0 * seeds * curves * 2.0 * z.layers, "run.seeds");
  return all;
}

}  // namespace periscope
