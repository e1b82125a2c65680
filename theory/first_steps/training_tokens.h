#pragma once

#include <Eigen/Core>
#include <vector>

#include "theory/first_steps/first_steps.h"

namespace periscope::theory {

using Sampled = Eigen::MatrixXf;

/// The tokens of one chain: the batches of all steps one after another, then the held-out windows, all in sequences of
/// equal length that do not attend to each other.
struct TrainingTokens {
  std::vector<int> ids;     ///< [all]
  std::vector<int> labels;  ///< [all]
  Eigen::Index sequence = 1;
  Eigen::Index batch = 0;  ///< tokens of a step
  Eigen::Index steps = 0;

  [[nodiscard]] Eigen::Index all() const { return static_cast<Eigen::Index>(ids.size()); }
  [[nodiscard]] Eigen::Index trained() const { return batch * steps; }
  [[nodiscard]] Eigen::Index held_out() const { return all() - trained(); }
};

/// The tokens that pass through the stack after `done` steps: the batch of the next step, whose gradients are taken,
/// and the held-out windows.
struct TokensNow {
  const TrainingTokens& tokens;
  Eigen::Index done = 0;

  /// Number of tokens of the next batch; 0 after the last step.
  [[nodiscard]] Eigen::Index next() const { return done < tokens.steps ? tokens.batch : 0; }
  [[nodiscard]] Eigen::Index count() const { return next() + tokens.held_out(); }
  /// Number of tokens of the batches so far.
  [[nodiscard]] Eigen::Index trained() const { return done * tokens.batch; }
  /// Returns the rows of these tokens from a matrix with one row for every token.
  template <class M>
  [[nodiscard]] auto rows_of(const M& all) const {
    typename M::PlainObject rows(count(), all.cols());
    rows.topRows(next()) = all.middleRows(trained(), next());
    rows.bottomRows(tokens.held_out()) = all.bottomRows(tokens.held_out());
    return rows;
  }
  /// Returns the index of a row's token.
  [[nodiscard]] Eigen::Index token(Eigen::Index row) const {
    return row < next() ? trained() + row : tokens.trained() + row - next();
  }
};

TrainingTokens tokens_of(const StackSpec& spec, const FirstStepsInput& input, int run);

}  // namespace periscope::theory
