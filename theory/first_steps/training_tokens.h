#pragma once

#include <Eigen/Core>
#include <vector>

#include "theory/first_steps/first_steps.h"

namespace periscope::theory {

using Sampled = Eigen::MatrixXf;

/// The tokens of one chain: the batches of all steps, one behind the other, and behind them the held-out windows, all
/// in sequences of equal length that do not see each other.
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

/// What is passed through the stack after `done` steps: the batch of the next step, whose gradient that takes, and the
/// held-out windows.
struct TokensNow {
  const TrainingTokens& tokens;
  Eigen::Index done = 0;

  [[nodiscard]] Eigen::Index next() const { return done < tokens.steps ? tokens.batch : 0; }  ///< of the next batch
  [[nodiscard]] Eigen::Index count() const { return next() + tokens.held_out(); }
  /// Of the batches of the steps that are done.
  [[nodiscard]] Eigen::Index trained() const { return done * tokens.batch; }
  /// The rows of these tokens of a matrix with one for every token.
  template <class M>
  [[nodiscard]] auto rows_of(const M& all) const {
    typename M::PlainObject rows(count(), all.cols());
    rows.topRows(next()) = all.middleRows(trained(), next());
    rows.bottomRows(tokens.held_out()) = all.bottomRows(tokens.held_out());
    return rows;
  }
  /// Which token a row is.
  [[nodiscard]] Eigen::Index token(Eigen::Index row) const {
    return row < next() ? trained() + row : tokens.trained() + row - next();
  }
};

TrainingTokens tokens_of(const StackSpec& spec, const FirstStepsInput& input, int run);

}  // namespace periscope::theory
