#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "sim/spec/weight.h"
#include "theory/first_steps/first_steps.h"
#include "theory/kernels/normal_stream.h"

namespace periscope::theory {

using Sampled = Eigen::MatrixXf;

/// Tokens of one replicate: the batches of all steps, then the held-out windows, in sequences of equal length.
struct TrainingTokens {
  std::vector<int> ids;     ///< [all]
  std::vector<int> labels;  ///< [all]
  Index sequence = 1;       ///< tokens per sequence
  Index batch = 0;          ///< tokens per step
  Index steps = 0;

  [[nodiscard]] Index all() const { return static_cast<Index>(ids.size()); }
  [[nodiscard]] Index trained() const { return batch * steps; }
  [[nodiscard]] Index held_out() const { return all() - trained(); }
};

/// Tokens of the forward pass after `done` steps: the batch of the next step, whose gradients are computed, and the
/// held-out windows.
struct CurrentTokens {
  const TrainingTokens& tokens;
  Index done = 0;

  /// Number of tokens of the next batch; 0 after the last step.
  [[nodiscard]] Index next() const { return done < tokens.steps ? tokens.batch : 0; }
  [[nodiscard]] Index count() const { return next() + tokens.held_out(); }
  /// Number of tokens in the batches so far.
  [[nodiscard]] Index trained() const { return done * tokens.batch; }
  /// Selects the rows of these tokens from a matrix with one row per token.
  template <class M>
  [[nodiscard]] auto rows_of(const M& all) const {
    typename M::PlainObject rows(count(), all.cols());
    rows.topRows(next()) = all.middleRows(trained(), next());
    rows.bottomRows(tokens.held_out()) = all.bottomRows(tokens.held_out());
    return rows;
  }
  /// Returns the token index of a row.
  [[nodiscard]] Index token(Index row) const {
    return row < next() ? trained() + row : tokens.trained() + row - next();
  }
};

TrainingTokens tokens_of(const StackSpec& spec, const FirstStepsInput& input, int run);

/// Random numbers of one replicate, and the number of hidden channels that it samples.
struct ReplicateDraws {
  int neurons = 1024;  ///< maximum number of sampled rows of one matrix
  std::uint64_t seed = 0;
  std::uint64_t replicate = 0;

  enum class Use : std::uint64_t { table, module, forward, remainder, backward, last, other };
  /// Returns the random numbers for one use of one matrix of a sublayer, the same for every call. The embedding table
  /// and the unembedding have sublayer 2L.
  [[nodiscard]] NormalStream numbers(int sublayer, Use use, int matrix = 0) const {
    const auto name = (static_cast<std::uint64_t>(use) << 8U) + static_cast<std::uint64_t>(matrix);
    return NormalStream({seed, replicate, (1ULL << 60U) + (static_cast<std::uint64_t>(sublayer) << 32U) + name});
  }
  /// Number of sampled hidden channels of an MLP.
  [[nodiscard]] int hidden(const ModelSpec& m) const { return std::min(neurons, m.mlp_width); }
  /// Number of sampled key/value groups of an attention module.
  [[nodiscard]] int groups(const ModelSpec& m, int layer) const {
    const int all = m.kv_heads_at(layer);
    return std::min(all, std::max(1, neurons * all / m.query_width(layer)));
  }
};

/// Signals of one module before training, for all tokens of a replicate.
struct InitialBranch {
  Sampled input;   ///< after norm A [all, D]
  Sampled output;  ///< before norm B [all, D]
};

/// A stack before training.
struct InitialStack {
  std::vector<InitialBranch> branches;  ///< by sublayer
  Sampled embedded;                     ///< rows of the embedding table for all tokens [all, D]
};

/// Samples a stack before training at its actual width: each module's output from its exact distribution given its
/// input, as in the finite-width chain (T25).
InitialStack initial_stack(const StackSpec& spec, const TrainingTokens& tokens, const ReplicateDraws& draws);

}  // namespace periscope::theory
