#include <algorithm>
#include <limits>

#include "experiments/core/config/weights_choice.h"
#include "experiments/core/stacks/fits.h"
#include "experiments/core/stacks/need.h"
#include "experiments/core/stacks/over_seeds.h"
#include "sim/measure/probe.h"
#include "sim/model/stack.h"

namespace periscope::stacks {
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

/// Forward a matrix goes when its product is taken. The way back holds a sublayer's, and one gradient of a matrix.
void add_whole(Need& need, const Sizes& z, double s, bool backward) {
  const double largest = z.width * std::max({z.query, z.key, z.hidden});
  const double weights = backward ? std::max(z.attention_weights(), z.mlp_weights()) + largest : largest;
  need.add(s * weights, key_of_weights(z));
}

/// A matrix's gradient is formed where Gram matrices of the tokens would cost more.
void add_formed_gradient(Need& need, const Sizes& z, double s, double t) {
  if (t * (z.width + z.hidden) < 2.0 * z.width * z.hidden) return;
  need.add(s * z.width * std::max({z.query, z.key, z.hidden}), key_of_weights(z));
}

/// Numbers drawn for every row that is read, on the way back those of a sublayer, with bases of what its matrices read;
/// of one product the numbers drawn on the way back and the two parts of its sum; and the rows that are factorised, in
/// double, with their Gram matrix.
void add_matrix_free(Need& need, const Sizes& z, double s, double t, bool backward) {
  const double widest = std::max({z.width, z.query, z.hidden, backward ? z.classes : 0.0});
  const double drawn = std::max(z.query + 2.0 * z.key + z.width, (z.matrices - 1.0) * z.hidden + z.width);
  const double bases = z.width + std::max(z.query, z.hidden);
  need.add(s * t * (backward ? drawn + bases + 3.0 * widest : widest), "input.tokens");
  need.add(8.0 * t * widest, "input.tokens");
  need.add(8.0 * t * t * 2.0 + s * t * t * (backward ? 8.0 : 2.0), "input.tokens");
}

const double least_budget = static_cast<double>(StackTape().budget);

/// Which matrices a stack's passes hold.
MatrixMemory matrices_of_run(const StackSpec& spec, const config::RunOptions& run) {
  if (config::draws_matrix_free(spec, run)) return MatrixMemory::none;
  return run.device == "cpu" ? MatrixMemory::drawn_in_products : MatrixMemory::whole;
}

}  // namespace

Need pass_need(const ModelSpec& model, int tokens, DType dtype, bool backward, int threads, MatrixMemory matrices,
               double kept) {
  const Sizes z(model);
  const double s = static_cast<double>(size_of(dtype));
  const double t = tokens;
  const double all = s * t * z.layers * (z.attention_signals() + z.mlp_signals());
  const bool keeps_all = backward && kept >= all;
  Need need;
  switch (matrices) {
    case MatrixMemory::whole: add_whole(need, z, s, backward); break;
    case MatrixMemory::drawn_in_products:
      if (backward && !keeps_all) add_formed_gradient(need, z, s, t);
      break;
    case MatrixMemory::none: add_matrix_free(need, z, s, t, backward); break;
  }
  const auto [fewer, inside] = std::minmax({z.attention_signals(), z.mlp_signals()});
  // On the way back the larger sublayer's gradients, beside the layer's signals that were computed again. Where all
  // were kept, those that the gradients replace are gone by then; and what products pack is less than what goes before
  // them.
  const double alive = keeps_all ? inside - z.hidden : backward ? fewer + 2.0 * inside : inside;
  need.add(s * t * (alive + 6.0 * z.width * z.streams), "input.tokens");
  constexpr double packing = 16.0 / 14.0;
  if (!keeps_all) need.add(s * t * packing * std::max({z.width, z.query, z.hidden}), "input.tokens");
  constexpr double queries = 256.0;  // of which patterns exist at a time
  need.add(s * t * std::min(t, queries) * std::min<double>(threads, z.heads) * (backward ? 3.0 : 1.0), "input.tokens");
  // Twice: as tensors, and as the vectors that are read from them.
  need.add(2.0 * 8.0 * t * 2.0 * z.layers * noted(backward), "input.tokens");
  if (2.0 * z.layers + 1.0 <= static_cast<double>(angular_depths)) {
    need.add(s * (2.0 * z.layers + 1.0) * std::min<double>(t, angular_tokens) * z.width, "model.width");
  }
  double products = t * (z.attention_weights() + z.mlp_weights()) + 2.0 * t * t * z.query;
  if (backward) {
    if (!keeps_all) need.add(s * t * z.layers * z.width * z.streams, "input.tokens");
    need.add(std::min(kept, all), "input.tokens");
    if (matrices != MatrixMemory::none) need.add(s * z.classes * z.width, "model.vocab");
    if (model.unembedding) need.add(s * 2.0 * t * z.classes, "model.vocab");
    products *= 4.0;  // forward, again, and the gradients of signals and of matrices
    need.operations += 6.0 * t * z.classes * z.width;
  }
  need.operations += 2.0 * z.layers * products;
  return need;
}

Need kept_reading_need(const StackSpec& spec, const config::RunOptions& run, int seeds, int threads) {
  const Sizes z(spec.model);
  Need all = reading_need(spec, run, seeds, threads, least_budget);
  const double at_once = one_seed_per_thread(spec, run, seeds, threads) ? std::min(threads, seeds) : 1;
  const double kept = 2.0 * z.layers * (z.attention_signals() + z.mlp_signals());
  all.add(at_once * static_cast<double>(size_of(run.dtype)) * spec.input.tokens * kept, "input.tokens");
  all.operations *= 2.0;  // every branch is gone back through alone, too
  return all;
}

namespace {

/// Of one of the passes that run at one time.
Need one_need(const StackSpec& spec, const config::RunOptions& run, int seeds, int threads, double kept) {
  const int inside = one_seed_per_thread(spec, run, seeds, threads) ? 1 : threads;
  return pass_need(spec.model, spec.input.tokens, run.dtype, run.backward, inside, matrices_of_run(spec, run), kept);
}

}  // namespace

Need completed_pass_need(const StackSpec& spec, const config::RunOptions& run, int threads) {
  Need need = pass_need(spec.model, spec.input.tokens, run.dtype, run.backward, threads);
  if (!config::draws_matrix_free(spec, run)) return need;
  const Sizes z(spec.model);
  const double s = static_cast<double>(size_of(run.dtype));
  const double t = spec.input.tokens;
  add_matrix_free(need, z, s, t, run.backward);
  const double outputs = z.query + 2.0 * z.key + 2.0 * z.width + (z.matrices - 1.0) * z.hidden;
  const double inputs = z.width * (z.matrices + 2.0) + z.query + z.hidden;
  need.add(s * t * z.layers * (inputs + (run.backward ? outputs : 0.0)), "input.tokens");
  return need;
}

std::size_t tape_budget(const StackSpec& spec, const config::RunOptions& run, int seeds, int threads,
                        double available) {
  // Signals that are kept save little where a pass without matrices factorises them anyhow; and what a GPU has is not
  // known here.
  const bool unless_told = run.device == "cpu" && !config::draws_matrix_free(spec, run);
  if (!run.backward || (run.memory == 0.0 && !unless_told)) return StackTape().budget;
  constexpr double by_default = 2.8e9;
  const double allowed =
      run.memory > 0.0 ? std::min(run.memory, 0.8 * available) : std::min(by_default, 0.5 * available);
  const double at_once = one_seed_per_thread(spec, run, seeds, threads) ? std::min(threads, seeds) : 1;
  const double share = allowed / at_once;
  const bool fits = one_need(spec, run, seeds, threads, std::numeric_limits<double>::infinity()).bytes <= share;
  const double left = fits ? share : share - one_need(spec, run, seeds, threads, 0.0).bytes;
  return static_cast<std::size_t>(std::clamp(left, least_budget, 0x1p62));
}

Need compared_passes_need(const config::Config& config, double passes, int threads) {
  config::Config forward = config;
  forward.run.backward = false;  // what is predicted
  Need all = stacks_need(forward, true, false, threads);
  config::RunOptions run = config.run;
  run.dtype = DType::f64;
  for (const StackSpec& spec : config.stacks()) {
    const Sizes z(spec.model);
    Need reading = reading_need(spec, run, run.seeds, threads, least_budget);
    const double at_once = one_seed_per_thread(spec, run, run.seeds, threads) ? std::min(threads, run.seeds) : 1;
    const double ways = run.backward ? 2.0 : 1.0;
    const double kept = z.layers * (z.attention_signals() + z.mlp_signals());
    reading.add(at_once * 8.0 * ways * spec.input.tokens * kept, "input.tokens");
    reading.operations *= passes * 1.5;  // with rounding and comparing
    all.then(reading);
    all.then(gram_need(spec.model));
  }
  return all;
}

Need reading_need(const StackSpec& spec, const config::RunOptions& run, int seeds, int threads,
                  std::optional<double> kept) {
  const double at_once = one_seed_per_thread(spec, run, seeds, threads) ? std::min(threads, seeds) : 1;
  if (!kept) kept = static_cast<double>(tape_budget(spec, run, seeds, threads, available_bytes(threads)));
  const Need one = one_need(spec, run, seeds, threads, *kept);
  Need all = one.times(at_once);
  const Sizes z(spec.model);
  const config::WeightsCost cost = config::weights_cost(spec, run.dtype, run.backward);
  all.operations =
      seeds * (config::draws_matrix_free(spec, run) ? cost.matrix_free : std::max(one.operations, cost.dense));
  constexpr double curves = 60.0;
  all.add(8.0 * seeds * curves * 2.0 * z.layers, "run.seeds");
  return all;
}

}  // namespace periscope::stacks
