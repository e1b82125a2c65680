#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "sim/spec/weight.h"
#include "theory/first_steps/first_steps.h"
#include "theory/kernels/normal_stream.h"

namespace periscope::theory {

using Sampled = Eigen::MatrixXf;

/// The tokens of one chain: the batches of all steps one after another, then the held-out windows, all in sequences of
/// equal length that do not attend to each other.
struct TrainingTokens {
  std::vector<int> ids;     ///< [all]
  std::vector<int> labels;  ///< [all]
  Index sequence = 1;
  Index batch = 0;  ///< tokens of a step
  Index steps = 0;

  [[nodiscard]] Index all() const { return static_cast<Index>(ids.size()); }
  [[nodiscard]] Index trained() const { return batch * steps; }
  [[nodiscard]] Index held_out() const { return all() - trained(); }
};

/// The tokens that pass through the stack after `done` steps: the batch of the next step, whose gradients are taken,
/// and the held-out windows.
struct TokensNow {
  const TrainingTokens& tokens;
  Index done = 0;

  /// Number of tokens of the next batch; 0 after the last step.
  [[nodiscard]] Index next() const { return done < tokens.steps ? tokens.batch : 0; }
  [[nodiscard]] Index count() const { return next() + tokens.held_out(); }
  /// Number of tokens of the batches so far.
  [[nodiscard]] Index trained() const { return done * tokens.batch; }
  /// Returns the rows of these tokens from a matrix with one row for every token.
  template <class M>
  [[nodiscard]] auto rows_of(const M& all) const {
    typename M::PlainObject rows(count(), all.cols());
    rows.topRows(next()) = all.middleRows(trained(), next());
    rows.bottomRows(tokens.held_out()) = all.bottomRows(tokens.held_out());
    return rows;
  }
  /// Returns the index of a row's token.
  [[nodiscard]] Index token(Index row) const {
    return row < next() ? trained() + row : tokens.trained() + row - next();
  }
};

TrainingTokens tokens_of(const StackSpec& spec, const FirstStepsInput& input, int run);

/// Random numbers of one chain, and how many hidden channels of a module it draws.
struct ChainDraws {
  int neurons = 1024;  ///< most drawn rows of one matrix
  std::uint64_t seed = 0;
  std::uint64_t replicate = 0;

  enum class Use : std::uint64_t { table, module, forward, remainder, backward, last, other };
  /// Returns the random numbers of one use of one matrix of a sublayer, the same at every call; the table and the
  /// unembedding have sublayer 2L.
  [[nodiscard]] NormalStream numbers(int sublayer, Use use, int matrix = 0) const {
    const auto name = (static_cast<std::uint64_t>(use) << 8U) + static_cast<std::uint64_t>(matrix);
    return NormalStream({seed, replicate, (1ULL << 60U) + (static_cast<std::uint64_t>(sublayer) << 32U) + name});
  }
  /// Number of hidden channels drawn of an MLP.
  [[nodiscard]] int hidden(const ModelSpec& m) const { return std::min(neurons, m.mlp_width); }
  /// Number of key/value groups drawn of an attention.
  [[nodiscard]] int groups(const ModelSpec& m) const {
    return std::min(m.kv_heads, std::max(1, neurons * m.kv_heads / m.query_width()));
  }
};

/// Signals of one module before training, of all tokens of a chain.
struct InitialBranch {
  Sampled read;     ///< what it reads, after norm A [all, D]
  Sampled written;  ///< what it writes, before norm B [all, D]
};

/// A stack before training.
struct InitialStack {
  std::vector<InitialBranch> branches;  ///< by sublayer
  Sampled embedded;                     ///< the tokens' rows of the embedding table [all, D]
};

/// Draws one stack's stream at its own width: each module's output from its exact law given its input, as in the
/// finite-width chain (T25).
InitialStack initial_stack(const StackSpec& spec, const TrainingTokens& tokens, const ChainDraws& draws);

}  // namespace periscope::theory
