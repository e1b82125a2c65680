#pragma once

#include <string>
#include <vector>

#include "experiments/engine/run/progress.h"
#include "experiments/engine/study/study.h"
#include "experiments/studies/gradients/outcome.h"

namespace periscope::gradients {

/// The share that attention's score path (queries and keys) has in one stack's gradient, and what a theory that leaves
/// it out gets wrong (T9).
struct ScorePath {
  StackSpec spec;
  std::string refusal;
  Curve share_measured, share_predicted;   ///< S/(S+V) at every layer's attention
  Curve log_measured;                      ///< log grad_sq of the stream at depths 0 … 2L
  Curve log_with, log_without;             ///< predicted, whole and with the value path alone
  std::vector<judge::Test> shares;         ///< per layer
  std::vector<judge::Test> with, without;  ///< the stream's logarithm per depth, against either prediction
};

struct ScorePathResult {
  std::vector<ScorePath> stacks;
  bool stopped_early = false;  ///< stacks are those that were finished, and not judged
};

ScorePathResult score_path(const config::Config& config, stacks::Progress& progress);

const dataset::Schema& score_path_schema();
/// Returns an outcome whose code is about the whole theory; one without the score path is expected to be wrong.
study::Outcome score_path_outcome(const config::Config& config, const std::vector<ScorePath>& results);

}  // namespace periscope::gradients
