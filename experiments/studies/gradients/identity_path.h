#pragma once

#include <string>
#include <vector>

#include "experiments/engine/run/progress.h"
#include "experiments/engine/study/study.h"
#include "experiments/studies/gradients/outcome.h"

namespace periscope::gradients {

/// Wang et al.'s decomposition (G11) of one stack's gradient: how much comes down the skip connections alone.
struct IdentityPath {
  StackSpec spec;
  std::string refusal;
  judge::SeedRows share;     ///< ‖s‖²/(‖s‖² + ‖r‖²) at depths 0 … 2L (see decompose.h), a row per seed
  judge::SeedRows log_skip;  ///< log (‖s_i‖/‖g_2L‖)
  judge::SeedRows cosine;    ///< of s_i and g_i
  judge::SeedRows branch;    ///< ‖b_i‖/‖g_2L‖, 0 … 2L−1
  judge::SeedRows branch_cosine;  ///< of b_i and g_2L
  Curve share_predicted;          ///< predicted ‖s‖²/‖g‖²: branches are orthogonal to the skip path
  Curve log_skip_predicted;
  std::vector<judge::Test> shares;  ///< share against prediction at every depth below the top
  double error = 0.0;               ///< largest ‖g − s − r‖/‖g‖ of all seeds and depths
  double error_bound = 0.0;         ///< what rounding may make of it
  double skip_change = 0.0;         ///< largest |‖s_i‖/‖g_2L‖ − 1|: 0 if the skip path is the identity
  bool has_gradient = true;  ///< false if g_i is zero or not finite for some seed and depth: nothing to decompose
  judge::Claim claim;        ///< G11: identity path for norms before, none for norms after
};

struct IdentityPathResult {
  std::vector<IdentityPath> stacks;
  bool stopped_early = false;  ///< stacks are those that were finished, and not judged
};

/// Throws ConfigError for a placement with two streams.
void require_one_stream(const config::Config& config);

/// Decomposes the gradient of every stack of `config` for every seed. Throws as require_one_stream.
IdentityPathResult identity_path(const config::Config& config, stacks::Progress& progress);

const dataset::Schema& identity_path_schema();
study::Outcome identity_path_outcome(const config::Config& config, const std::vector<IdentityPath>& results);

}  // namespace periscope::gradients
