#include <algorithm>
#include <cmath>

#include "experiments/core/config/at_width.h"
#include "experiments/core/stacks/need.h"
#include "experiments/core/stacks/profiled_need.h"
#include "theory/predict/attention_pattern.h"
#include "theory/predict/finite_width.h"
#include "theory/predict/forward.h"

namespace periscope::stacks {
namespace {

constexpr double curves = 60.0;   ///< of a profile, each with an entry per sublayer
constexpr double at_once = 64.0;  ///< chains whose profiles are held before they are added up

double profiles_of(const StackSpec& spec, bool angles) {
  const double depths = 2.0 * spec.model.layers + 1.0;
  return 8.0 * (curves * depths + (angles && depths <= 513.0 ? depths * depths : 0.0));
}

constexpr double limit_chains = 64.0;  // of a prediction, about

/// Chains whose stream is a sum of `terms` of kernels of their own, and the second moment of every entry of a signal.
Need channel_terms_need(const StackSpec& spec, double terms, int threads) {
  const ModelSpec& m = spec.model;
  const double t = spec.input.tokens;
  const double entries = t * m.width;
  const double chains_at_once = std::min<double>(threads, 16.0);
  Need all = limit_need(spec, false, 1, threads);
  // Pairs of kernels, also while a norm or a sum is made of them; powers; and second moments of all entries.
  all.add(chains_at_once * terms * 5.0 * 8.0 * t * t, "input.tokens");
  all.add(chains_at_once * 8.0 * (3.0 * terms * m.width + 5.0 * entries), "model.width");
  all.operations += limit_chains * m.sublayers() * (terms * (20.0 * t * t + 4.0 * entries) + 100.0 * entries);
  return all;
}

}  // namespace

Need limit_need(const StackSpec& spec, bool backward, int seeds, int threads) {
  const ModelSpec& m = spec.model;
  const double t = spec.input.tokens;
  const double square = t * t;
  const bool uniform = theory::is_uniform(theory::pattern_law(spec, 0));
  Need chain;
  // Kernels of the stream, of a module's input and output and of the branch come in pairs [T, T] of doubles; patterns
  // of one head, two at a time, with their products, in float.
  chain.add(square * (uniform ? 120.0 : 140.0), "input.tokens");
  chain.add(4.0 * t * m.head_dim * 14.0, "model.head_dim");
  if (backward) {
    chain.add(square * (uniform ? 80.0 : 90.0), "input.tokens");
    chain.add(square * 24.0 * m.layers, "input.tokens");
    if (m.unembedding) chain.add(2.0 * 4.0 * t * m.vocab, "model.vocab");
  }
  Need all = chain.times(std::min<double>(threads, 16.0));
  all.add(at_once * profiles_of(spec, true), "model.layers");
  const double sequences = spec.input.kind == InputKind::tokens || backward ? seeds : 1.0;
  all.add(2.0 * 4.0 * t * sequences, "run.seeds");
  constexpr double begun = 5e4;       // what a pattern of the fewest tokens costs
  constexpr double patterns = 512.0;  // at every attention, of a usual prediction
  const double each = uniform ? 2.0 * t * square / patterns : 4.0 * t * square + 4.0 * square * m.head_dim + begun;
  all.operations = m.layers * patterns * each * (backward ? 4.0 : 1.0);
  return all;
}

Need scaled_limit_need(const StackSpec& spec, int threads) {
  double terms = 1.0;  // of the stream: one for every norm behind a branch, and those before them
  for (int l = 0; l < spec.model.sublayers(); ++l) {
    terms += spec.model.rule(l).norm_b || spec.model.rule(l).norm_c ? 1.0 : 0.0;
  }
  return channel_terms_need(spec, terms, threads);
}

Need profiled_limit_need(const StackSpec& spec, int threads) {
  const ModelSpec& m = spec.model;
  Need all = channel_terms_need(spec, 1.0 + m.sublayers(), threads);
  // Mehler's series or a closed form, about 150 operations an entry, at the nodes of the rule over hidden channels.
  constexpr double nodes = 16.0;
  all.operations += limit_chains * m.layers * nodes * 150.0 * std::pow(spec.input.tokens, 2.0);
  return all;
}

Need width_need(const StackSpec& spec, int seeds, int replicates, int threads) {
  const ModelSpec& m = spec.model;
  const double t = spec.input.tokens;
  const double rows = m.placement.two_streams ? 2.0 * t : t;
  const double frame = std::min<double>(rows + 1.0, m.width);
  const double query = static_cast<double>(m.heads) * m.head_dim;
  const double key = static_cast<double>(m.kv_heads) * m.head_dim;
  const double count = replicates > 0 ? replicates : theory::replicates_for(spec, seeds);
  Need chain;
  chain.add(8.0 * rows * frame * 3.5, "input.tokens");  // the state, its branch, and what they are made of
  chain.add(8.0 * t * t * 6.0, "input.tokens");
  chain.add(8.0 * t * (3.0 * query + 2.0 * key), "model.heads");
  chain.add(4.0 * (frame + t) * std::max(query, 128.0), "model.heads");
  if (m.mlp_width <= t) chain.add(8.0 * 2.0 * t * m.mlp_width, "model.mlp_width");
  Need all = chain.times(std::min({static_cast<double>(threads), count, at_once}));
  all.add((count + at_once) * profiles_of(spec, false), "theory.replicates");
  all.operations = count * theory::chain_operations(spec);
  return all;
}

Need widths_need(const config::Config& config, const std::vector<int>& widths, std::string_view list, int seeds,
                 int threads) {
  Need all;
  const bool backward = config.run.backward;
  for (const int width : widths) {
    for (const StackSpec& spec : config.told_stacks()) {
      all.then(limit_need(config::at_width(spec, width, list), backward, seeds, threads));
    }
    for (const StackSpec& spec : config.stacks()) {
      all.then(reading_need(config::at_width(spec, width, list), config.run, seeds, threads));
    }
  }
  return all;
}

Need stacks_need(const config::Config& config, bool at_width, bool measures, int threads) {
  Need all;
  for (const StackSpec& spec : config.told_stacks()) {
    all.then(limit_need(spec, config.run.backward, config.run.seeds, threads));
    if (at_width) all.then(width_need(spec, config.run.seeds, config.theory.replicates, threads));
  }
  for (const StackSpec& spec : config.stacks()) {
    if (measures) all.then(reading_need(spec, config.run, config.run.seeds, threads));
  }
  return all;
}

}  // namespace periscope::stacks
